#include "compiler/nn/PairPlaces.h"

#include <algorithm>
#include <numeric>

namespace mt::nn {
namespace {
using Places = std::vector<int64_t>;

class Finder {
public:
  Finder(std::span<const int64_t> table, int64_t queries, int64_t keys) : table(table), queries(queries), keys(keys) {}

  std::optional<PairPlaces> find() {
    for (first = 0; first <= kMostTokens && first + 1 < std::min(queries, keys); ++first) {
      if (auto found = accepted(adding()))
        return found;
      for (int64_t width = 2; width <= keys - first; ++width)
        for (int64_t stride = 1; (keys - first) % width == 0 && stride <= kMostStride; ++stride)
          if (auto found = accepted(rows(width, stride)))
            return found;
    }
    return std::nullopt;
  }

private:
  static constexpr int64_t kMostTokens = 8; ///< before the grid
  static constexpr int64_t kMostStride = 4; ///< from one query of a grid to the next
  std::span<const int64_t> table;
  int64_t queries, keys;
  int64_t first = 0; ///< query and key of the grid

  int64_t at(int64_t query, int64_t key) const { return table[static_cast<size_t>(query * keys + key)]; }

  /// Places of the grid alone, by the table's own numbers: each is that of the key less that of the query.
  PairPlaces adding() const {
    PairPlaces made;
    for (int64_t q = first; q < queries; ++q) {
      made.query.push_back(at(first, first) - at(q, first));
      for (int64_t k = first; k < keys; ++k)
        if (at(q, k) - at(q, first) != at(first, k) - at(first, first))
          return {};
    }
    for (int64_t k = first; k < keys; ++k)
      made.key.push_back(at(first, k));
    return made;
  }

  /// Of rows of `width` keys, and of queries at every so many of them in both directions.
  PairPlaces rows(int64_t width, int64_t stride) const {
    const int64_t each = (width + stride - 1) / stride, step = 2 * width - 1;
    if ((queries - first) % each != 0)
      return {};
    PairPlaces made;
    for (int64_t q = 0; q < queries - first; ++q)
      made.query.push_back((q / each * step + q % each) * stride);
    for (int64_t k = 0; k < keys - first; ++k)
      made.key.push_back(k / width * step + k % width);
    return made;
  }

  /// The places of the grid with those of the tokens before it, if they tell the table.
  std::optional<PairPlaces> accepted(PairPlaces grid) const {
    if (grid.key.empty())
      return std::nullopt;
    auto [leastQuery, mostQuery] = std::ranges::minmax(grid.query);
    auto [leastKey, mostKey] = std::ranges::minmax(grid.key);
    int64_t ofKeys, ofQueries;
    if (__builtin_sub_overflow(mostKey, leastKey, &ofKeys) ||
        __builtin_sub_overflow(mostQuery, leastQuery, &ofQueries) || std::max(ofKeys, ofQueries) >= queries * keys)
      return std::nullopt;
    ++ofKeys, ++ofQueries;
    // Differences of the grid lie in [0, ofKeys + ofQueries - 1); then those of each token before it as a query with
    // all keys of the grid, of each as a key with all queries of the grid, of two of them.
    const int64_t own = ofKeys + ofQueries - 1, tokenStep = std::max(ofKeys, first * ofQueries),
                  tokens = std::max(own, first * ofQueries), behind = own + tokens + first * tokenStep;
    PairPlaces all;
    for (int64_t token = 0; token < first; ++token)
      all.query.push_back(-tokens - token * tokenStep);
    for (int64_t place : grid.query)
      all.query.push_back(place - leastQuery);
    for (int64_t token = 0; token < first; ++token)
      all.key.push_back(behind + ofQueries - 1 + token * ofQueries);
    for (int64_t place : grid.key)
      all.key.push_back(place - leastKey + ofQueries - 1);
    const int64_t least = std::ranges::min(all.query);
    for (Places *places : {&all.query, &all.key})
      for (int64_t &place : *places)
        place -= least;
    all.entries = std::ranges::max(all.key) + 1;
    Places sorted = all.key;
    std::ranges::sort(sorted);
    const bool differ = std::ranges::adjacent_find(sorted) == sorted.end();
    return differ && all.entries < queries * keys && alongPlaces(table, all) ? std::optional(all) : std::nullopt;
  }
};
} // namespace

std::optional<PairPlaces> findPairPlaces(std::span<const int64_t> table, int64_t queries, int64_t keys) {
  constexpr int64_t kMost = int64_t{1} << 53; // differences of differences fit
  auto isUsual = [](int64_t number) { return -kMost <= number && number <= kMost; };
  return queries > 1 && keys > 1 && std::ranges::all_of(table, isUsual) ? Finder(table, queries, keys).find()
                                                                        : std::nullopt;
}

std::optional<std::vector<int64_t>> alongPlaces(std::span<const int64_t> table, const PairPlaces &places) {
  const auto count = static_cast<size_t>(places.entries);
  std::vector<int64_t> line(count, table.empty() ? 0 : table[0]); // what is computed from it stays a number
  std::vector<bool> met(count, false);
  size_t next = 0;
  for (int64_t query : places.query)
    for (int64_t key : places.key) {
      const auto entry = static_cast<size_t>(key - query);
      const int64_t number = table[next++];
      if (met[entry] && line[entry] != number)
        return std::nullopt;
      line[entry] = number, met[entry] = true;
    }
  return line;
}

} // namespace mt::nn
