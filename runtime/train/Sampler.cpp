#include "runtime/train/Sampler.h"

#include <bit>

namespace mt::train {

uint64_t mixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t permute(uint64_t index, uint64_t count, uint64_t key) {
  if (count <= 1)
    return 0;
  int half = (std::bit_width(count - 1) + 1) / 2;
  uint64_t mask = (uint64_t(1) << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t next = left ^ (mixBits(mixBits(key + round) ^ right) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

int64_t Sampler::row(int64_t position) const {
  int64_t within = position % rows;
  if (!shuffle)
    return within;
  return static_cast<int64_t>(permute(static_cast<uint64_t>(within), static_cast<uint64_t>(rows), key(position)));
}

uint64_t Sampler::shift(int64_t position) const { return shuffle && epoch(position) > 0 ? mixBits(~key(position)) : 0; }

/// Of an epoch.
uint64_t Sampler::key(int64_t position) const {
  return mixBits(seed ^ mixBits(static_cast<uint64_t>(epoch(position))));
}

} // namespace mt::train
