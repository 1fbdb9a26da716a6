// One greedy packing: slots are placed in a given order, each into a gap that the slots placed before it leave free
// for the whole of its lifetime. Packer.cpp chooses the orders; this file is the data structure that makes one fast.
#ifndef MT_PASSES_ALGORITHMS_PLACER_H
#define MT_PASSES_ALGORITHMS_PLACER_H

#include "passes/algorithms/Lifetimes.h"

namespace mt::passes {

/// Which gap a slot takes: the lowest that holds it, or the smallest that holds it.
enum class Fit : uint8_t { lowest, smallest };

class Placer {
public:
  /// `slots` must outlive this. Offsets below `base` are never given.
  Placer(std::span<const SlotRequest> slots, uint32_t moments, uint64_t base);

  /// Places the slots of `order` one by one; offsets by slot. Stops early, returning UINT64_MAX, as soon as the size
  /// reaches `limit`; else returns the size.
  uint64_t place(std::span<const uint32_t> order, Fit fit, uint64_t limit, std::vector<uint64_t> &offsets);

  /// Ranges compared so far: a measure of time that is the same on every machine.
  uint64_t work() const { return comparisons; }

private:
  struct Range {
    uint64_t begin, end;
    Interval interval;
  };
  struct Leaf {
    Interval interval;
    uint32_t slot;
  };
  std::span<const SlotRequest> slots;
  const uint32_t moments;
  const uint64_t base;
  bool crowded = false;     ///< slots overlap many others: scanning all placed ones beats searching and sorting
  std::vector<Leaf> leaves; ///< intervals by first moment
  std::vector<std::vector<uint32_t>> leavesOf; ///< by slot
  uint32_t width = 1;                          ///< leaves of the tree: a power of two
  std::vector<int64_t> latest;                 ///< by node: latest last moment of the placed leaves below; -1: none
  std::vector<Range> placed;                   ///< of a crowded packing: all intervals, by offset
  std::vector<Range> busy;                     ///< its first `busyCount`: what overlaps the slot at hand, by offset
  size_t busyCount = 0;
  uint64_t comparisons = 0;

  void reset();
  void insert(uint32_t slot, uint64_t offset);
  void findBusy(const SlotRequest &slot, const std::vector<uint64_t> &offsets);
  void collect(uint32_t node, uint32_t nodeFirst, uint32_t nodeWidth, uint32_t leafEnd, const Interval &interval,
               const std::vector<uint64_t> &offsets);
  uint64_t chooseGap(const SlotRequest &slot, Fit fit) const;
};

} // namespace mt::passes
#endif
