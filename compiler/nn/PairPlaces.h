// Tables of what a query and a key are to each other - relative positions in windows and pictures - as a function of
// one difference: of a place that each of them has.
#ifndef MT_COMPILER_NN_PAIRPLACES_H
#define MT_COMPILER_NN_PAIRPLACES_H

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mt::nn {

/// The entry of query q and key k is `key[k] - query[q]`, at least 0 and below `entries`. Places of keys differ, and
/// the smallest of a query is 0.
struct PairPlaces {
  std::vector<int64_t> query, key;
  int64_t entries = 0;
};

/// Places such that `table` [queries, keys] depends on the entry alone, with fewer entries than the table has: of grids
/// in any number of dimensions whose numbers add up, of grids of rows, with a few tokens before them that are to every
/// other one as they like. None if none are found.
std::optional<PairPlaces> findPairPlaces(std::span<const int64_t> table, int64_t queries, int64_t keys);

/// What `table` has at each entry, some number of it where no query and key meet one; none if it has several there.
std::optional<std::vector<int64_t>> alongPlaces(std::span<const int64_t> table, const PairPlaces &places);

} // namespace mt::nn
#endif
