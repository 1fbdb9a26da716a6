// The order in which rows are visited: row numbers as a pure function of (seed, position), so that a run can resume
// anywhere without replaying anything. Position p counts rows since the start of the run; epoch p / rows visits every
// row once, in file order or shuffled anew. Knows no files.
#ifndef MT_RUNTIME_TRAIN_SAMPLER_H
#define MT_RUNTIME_TRAIN_SAMPLER_H

#include <cstdint>

namespace mt::train {

class Sampler {
public:
  /// rows >= 1.
  Sampler(int64_t rows, bool shuffle, uint64_t seed) : rows(rows), shuffle(shuffle), seed(seed) {}

  /// The row at `position` >= 0.
  int64_t row(int64_t position) const;
  int64_t epoch(int64_t position) const { return position / rows; }
  /// What shifts windows in the epoch of `position` (RowPlace.h): a random number; 0 in the first, and in file order.
  uint64_t shift(int64_t position) const;

private:
  uint64_t key(int64_t position) const;

  int64_t rows;
  bool shuffle;
  uint64_t seed;
};

/// Other bits for every number: SplitMix64's finalizer (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014).
uint64_t mixBits(uint64_t number);

/// A permutation of [0, count): a Feistel network of four rounds over the next even power of two, walked until the
/// value falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
uint64_t permute(uint64_t index, uint64_t count, uint64_t key);

} // namespace mt::train
#endif
