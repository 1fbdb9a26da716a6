#include "runtime/train/Order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mt::train {
namespace {

constexpr int kShareBits = 32;

/// count * share / 2^32, rounded to the nearest.
int64_t shareOf(int64_t count, uint64_t share) {
  const auto product = static_cast<unsigned __int128>(count) * share + (uint64_t(1) << (kShareBits - 1));
  return static_cast<int64_t>(product >> kShareBits);
}

} // namespace

Order::Order(int64_t rows, bool shuffle, uint64_t seed) : Order(std::span(&rows, 1), {}, shuffle, seed) {}

Order::Order(std::span<const int64_t> rows, std::span<const double> weights, bool shuffle, uint64_t seed) {
  const double largest = weights.empty() ? 1 : *std::ranges::max_element(weights);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double weight = weights.empty() ? 1 : std::max(weights[i] / largest, std::numeric_limits<double>::min());
    const uint64_t own = i == 0 ? seed : mixBits(seed ^ mixBits(i)); // parts of the same size go in orders of their own
    parts.push_back({total, weight, Sampler(rows[i], shuffle, own)});
    total += rows[i];
  }
}

/// Of what parts from `begin` to `end` take, how much those before `middle` do, in units of 2^-32.
uint64_t Order::shareOfFirst(size_t begin, size_t middle, size_t end) const {
  double first = 0, all = 0;
  for (size_t i = begin; i < end; ++i) {
    all += parts[i].weight;
    first += i < middle ? parts[i].weight : 0;
  }
  constexpr double kWhole = uint64_t(1) << kShareBits;
  return std::clamp<uint64_t>(static_cast<uint64_t>(std::llround(first / all * kWhole)), 1,
                              static_cast<uint64_t>(kWhole) - 1);
}

RowPlace Order::at(int64_t position) const {
  // Parts are halved until one is left: of the first n positions of both halves the first has its share, rounded, the
  // other the rest.
  size_t begin = 0, end = parts.size();
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    const uint64_t share = shareOfFirst(begin, middle, end);
    const int64_t before = shareOf(position, share);
    const bool isOfFirst = shareOf(position + 1, share) > before;
    position = isOfFirst ? before : position - before;
    (isOfFirst ? end : begin) = middle;
  }
  const Part &part = parts[begin];
  return {part.begin + part.sampler.row(position), part.sampler.shift(position)};
}

} // namespace mt::train
