// Lifetimes of slots as intervals of a cyclic or straight program: how many bytes are alive when, and for
// how long a slot is. Helpers of Packer.h; nothing here places anything.
#ifndef MT_PASSES_ALGORITHMS_LIFETIMES_H
#define MT_PASSES_ALGORITHMS_LIFETIMES_H

#include "passes/algorithms/Packer.h"

#include <utility>

namespace mt::passes {

inline uint64_t alignUp(uint64_t offset, uint64_t alignment) {
  return alignment > 1 ? (offset + alignment - 1) / alignment * alignment : offset;
}

/// Moments [first, last], both inclusive, without wrapping.
struct Interval {
  uint32_t first = 0, last = 0;
};

/// A lifetime as one interval, or as two where it wraps around the end of a program of `moments`.
struct Lifetime {
  Interval parts[2];
  uint32_t count = 0;
  const Interval *begin() const { return parts; }
  const Interval *end() const { return parts + count; }
};
Lifetime lifetimeOf(const SlotRequest &slot, uint32_t moments);

/// Moments that a slot is alive.
uint32_t durationOf(const SlotRequest &slot, uint32_t moments);
/// Whether a slot is alive at every moment.
bool isPersistent(const SlotRequest &slot, uint32_t moments);

/// The length of the program that options and slots tell.
uint32_t momentsOf(std::span<const SlotRequest> slots, uint32_t moments);

/// Bytes alive, by moment.
std::vector<uint64_t> liveBytes(std::span<const SlotRequest> slots, uint32_t moments);

} // namespace mt::passes
#endif
