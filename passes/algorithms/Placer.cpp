// Placed intervals lie in a static tree over all intervals sorted by first moment, whose nodes hold the latest last
// moment placed below them: what overlaps a slot is found in time proportional to its number.
#include "passes/algorithms/Placer.h"

#include <algorithm>
#include <bit>

namespace mt::passes {

Placer::Placer(std::span<const SlotRequest> slots, uint32_t moments, uint64_t base)
    : slots(slots), moments(moments), base(base), leavesOf(slots.size()) {
  for (uint32_t i = 0; i < slots.size(); ++i)
    for (const Interval &interval : lifetimeOf(slots[i], moments))
      leaves.push_back({interval, i});
  std::stable_sort(leaves.begin(), leaves.end(),
                   [](const Leaf &a, const Leaf &b) { return a.interval.first < b.interval.first; });
  for (uint32_t leaf = 0; leaf < leaves.size(); ++leaf)
    leavesOf[leaves[leaf].slot].push_back(leaf);
  width = std::bit_ceil(static_cast<uint32_t>(std::max<size_t>(1, leaves.size())));
}

uint64_t Placer::place(std::span<const uint32_t> fixed, std::span<const uint32_t> order,
                       std::vector<uint64_t> &offsets) {
  latest.assign(2 * size_t(width), -1);
  for (uint32_t slot : fixed)
    insert(slot);
  uint64_t size = base;
  for (uint32_t slot : order) {
    findBusy(slots[slot], offsets);
    offsets[slot] = chooseGap(slots[slot]);
    size = std::max(size, offsets[slot] + slots[slot].bytes);
    insert(slot);
  }
  return size;
}

void Placer::insert(uint32_t slot) {
  for (uint32_t leaf : leavesOf[slot])
    for (uint32_t node = width + leaf; node > 0; node /= 2)
      latest[node] = std::max<int64_t>(latest[node], leaves[leaf].interval.last);
}

/// Fills `busy` with the placed ranges of slots that are alive together with `slot`, by offset.
void Placer::findBusy(const SlotRequest &slot, const std::vector<uint64_t> &offsets) {
  busy.clear();
  for (const Interval &interval : lifetimeOf(slot, moments)) {
    const auto leafEnd = std::upper_bound(leaves.begin(), leaves.end(), interval.last,
                                          [](uint32_t last, const Leaf &leaf) { return last < leaf.interval.first; });
    collect(1, 0, width, static_cast<uint32_t>(leafEnd - leaves.begin()), interval, offsets);
  }
  std::sort(busy.begin(), busy.end(), [](const Range &a, const Range &b) { return a.begin < b.begin; });
}

/// Leaves [nodeFirst, nodeFirst + nodeWidth) lie below `node`; those before `leafEnd` begin early enough.
void Placer::collect(uint32_t node, uint32_t nodeFirst, uint32_t nodeWidth, uint32_t leafEnd, const Interval &interval,
                     const std::vector<uint64_t> &offsets) {
  if (nodeFirst >= leafEnd || latest[node] < static_cast<int64_t>(interval.first))
    return;
  if (nodeWidth == 1) {
    const uint32_t slot = leaves[nodeFirst].slot;
    busy.push_back({offsets[slot], offsets[slot] + slots[slot].bytes});
    return;
  }
  const uint32_t half = nodeWidth / 2;
  collect(2 * node, nodeFirst, half, leafEnd, interval, offsets);
  collect(2 * node + 1, nodeFirst + half, half, leafEnd, interval, offsets);
}

uint64_t Placer::chooseGap(const SlotRequest &slot) const {
  uint64_t best = UINT64_MAX, bestGap = UINT64_MAX, free = base;
  for (const Range &range : busy) {
    const uint64_t start = alignUp(free, slot.alignment);
    if (range.begin > free && range.begin - free < bestGap && range.begin >= start &&
        range.begin - start >= slot.bytes) {
      best = start;
      bestGap = range.begin - free;
    }
    free = std::max(free, range.end);
  }
  return best != UINT64_MAX ? best : alignUp(free, slot.alignment);
}

} // namespace mt::passes
