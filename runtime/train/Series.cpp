#include "runtime/train/Series.h"

#include <algorithm>
#include <cmath>

namespace mt::train {

namespace {
/// So that sums and differences of values are finite, too.
constexpr double kLargest = 1e100;
} // namespace

void Series::add(int64_t step, double value) {
  if (!std::isfinite(value) || std::abs(value) > kLargest) {
    ++left;
    return;
  }
  if (buckets.empty()) {
    origin = step;
    smallest = {step, value};
  }
  if (step < origin)
    return;
  const auto index = [&] { return static_cast<size_t>((step - origin) / width); };
  while (index() >= kMostBuckets)
    widen();
  if (index() >= buckets.size())
    buckets.resize(index() + 1);
  newest = {step, value};
  if (value < smallest.value)
    smallest = newest;
  Bucket &bucket = buckets[index()];
  if (bucket.count == 0 || value < bucket.least.value)
    bucket.least = newest;
  if (bucket.count == 0 || value > bucket.most.value)
    bucket.most = newest;
  bucket.sum += value;
  ++bucket.count;
}

/// Two buckets become one.
void Series::widen() {
  width *= 2;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const Bucket from = buckets[i];
    Bucket &to = buckets[i / 2];
    if (i % 2 == 0 || to.count == 0) {
      to = from;
    } else if (from.count > 0) {
      to.count += from.count;
      to.sum += from.sum;
      if (from.least.value < to.least.value)
        to.least = from.least;
      if (from.most.value > to.most.value)
        to.most = from.most;
    }
  }
  buckets.resize((buckets.size() + 1) / 2);
}

std::vector<Point> Series::extremes() const {
  std::vector<Point> points;
  for (const Bucket &bucket : buckets) {
    if (bucket.count == 0)
      continue;
    const auto [first, second] =
        std::minmax(bucket.least, bucket.most, [](const Point &a, const Point &b) { return a.step < b.step; });
    points.push_back(first);
    if (second.step != first.step)
      points.push_back(second);
  }
  return points;
}

std::vector<Point> Series::smoothed() const {
  const auto reach = static_cast<int64_t>(std::max<size_t>(1, buckets.size() / 50));
  const auto all = static_cast<int64_t>(buckets.size());
  std::vector<Point> points;
  for (int64_t i = 0; i < all; ++i) {
    if (buckets[static_cast<size_t>(i)].count == 0)
      continue;
    double sum = 0, weights = 0;
    for (int64_t j = std::max<int64_t>(0, i - reach); j <= std::min({all - 1, i + reach, 2 * i}); ++j) {
      const Bucket &bucket = buckets[static_cast<size_t>(j)];
      const auto weight = static_cast<double>(reach + 1 - std::abs(i - j));
      sum += weight * bucket.sum;
      weights += weight * static_cast<double>(bucket.count);
    }
    points.push_back({std::min(newest.step, origin + i * width + (width - 1) / 2), sum / weights});
  }
  return points;
}

} // namespace mt::train
