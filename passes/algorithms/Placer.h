// Fills gaps: slots are placed in a given order, each into the smallest gap that the slots placed before it leave free
// for the whole of its lifetime. This file is the data structure that makes it fast.
#ifndef MT_PASSES_ALGORITHMS_PLACER_H
#define MT_PASSES_ALGORITHMS_PLACER_H

#include "passes/algorithms/Lifetimes.h"

namespace mt::passes {

class Placer {
public:
  /// `slots` must outlive this. Offsets below `base` are never given.
  Placer(std::span<const SlotRequest> slots, uint32_t moments, uint64_t base);

  /// Places the slots of `order` one by one beside those of `fixed`, which have their offsets; offsets by slot.
  /// Returns the greatest end of those of `order`.
  uint64_t place(std::span<const uint32_t> fixed, std::span<const uint32_t> order, std::vector<uint64_t> &offsets);

private:
  struct Range {
    uint64_t begin, end;
  };
  struct Leaf {
    Interval interval;
    uint32_t slot;
  };
  std::span<const SlotRequest> slots;
  const uint32_t moments;
  const uint64_t base;
  std::vector<Leaf> leaves;                    ///< intervals by first moment
  std::vector<std::vector<uint32_t>> leavesOf; ///< by slot
  uint32_t width = 1;                          ///< leaves of the tree: a power of two
  std::vector<int64_t> latest;                 ///< by node: latest last moment of the placed leaves below; -1: none
  std::vector<Range> busy;                     ///< what overlaps the slot at hand, by offset

  void insert(uint32_t slot);
  void findBusy(const SlotRequest &slot, const std::vector<uint64_t> &offsets);
  void collect(uint32_t node, uint32_t nodeFirst, uint32_t nodeWidth, uint32_t leafEnd, const Interval &interval,
               const std::vector<uint64_t> &offsets);
  uint64_t chooseGap(const SlotRequest &slot) const;
};

} // namespace mt::passes
#endif
