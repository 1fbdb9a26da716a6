// Placed intervals lie in a static tree over all intervals sorted by first moment, whose nodes hold the latest last
// moment placed below them: what overlaps a slot is found in time proportional to its number.
#include "passes/algorithms/Placer.h"

#include <algorithm>
#include <bit>

namespace mt::passes {
namespace {

uint64_t alignUp(uint64_t offset, uint64_t alignment) {
  return alignment > 1 ? (offset + alignment - 1) / alignment * alignment : offset;
}

/// Time to find and sort one overlapping range, in units of the time to look at one of all placed.
constexpr double kSortCost = 40;

/// Average number of slots that a slot overlaps, from the number alive by moment: a sum over the slots' beginnings.
double averageOverlap(std::span<const SlotRequest> slots, uint32_t moments) {
  std::vector<SlotRequest> ones(slots.begin(), slots.end());
  for (SlotRequest &slot : ones)
    slot.bytes = 1;
  const std::vector<uint64_t> alive = liveBytes(ones, moments);
  double sum = 0;
  for (const SlotRequest &slot : slots)
    sum += 2.0 * static_cast<double>(alive[slot.first]);
  return slots.empty() ? 0 : sum / static_cast<double>(slots.size());
}

} // namespace

Placer::Placer(std::span<const SlotRequest> slots, uint32_t moments, uint64_t base)
    : slots(slots), moments(moments), base(base), leavesOf(slots.size()) {
  crowded = averageOverlap(slots, moments) * kSortCost > static_cast<double>(slots.size());
  for (uint32_t i = 0; i < slots.size(); ++i)
    for (const Interval &interval : lifetimeOf(slots[i], moments))
      leaves.push_back({interval, i});
  std::stable_sort(leaves.begin(), leaves.end(),
                   [](const Leaf &a, const Leaf &b) { return a.interval.first < b.interval.first; });
  for (uint32_t leaf = 0; leaf < leaves.size(); ++leaf)
    leavesOf[leaves[leaf].slot].push_back(leaf);
  busy.resize(2 * leaves.size() + 1); // each leaf once for every interval of the slot at hand
  width = std::bit_ceil(static_cast<uint32_t>(std::max<size_t>(1, leaves.size())));
}

uint64_t Placer::place(std::span<const uint32_t> order, Fit fit, uint64_t limit, std::vector<uint64_t> &offsets) {
  reset();
  uint64_t size = base;
  for (uint32_t index : order) {
    findBusy(slots[index], offsets);
    offsets[index] = chooseGap(slots[index], fit);
    const uint64_t end = offsets[index] + slots[index].bytes;
    size = std::max(size, end);
    if (size >= limit)
      return UINT64_MAX;
    insert(index, offsets[index]);
  }
  return size;
}

void Placer::reset() {
  placed.clear();
  latest.assign(2 * size_t(width), -1);
}

void Placer::insert(uint32_t slot, uint64_t offset) {
  for (uint32_t leaf : leavesOf[slot]) {
    const Interval interval = leaves[leaf].interval;
    if (crowded) {
      const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                       [](uint64_t place, const Range &range) { return place < range.begin; });
      placed.insert(at, {offset, offset + slots[slot].bytes, interval});
    } else {
      for (uint32_t node = width + leaf; node > 0; node /= 2)
        latest[node] = std::max<int64_t>(latest[node], interval.last);
    }
  }
}

/// Fills `busy` with the placed ranges of slots that are alive together with `slot`, by offset.
void Placer::findBusy(const SlotRequest &slot, const std::vector<uint64_t> &offsets) {
  busyCount = 0;
  const Lifetime lifetime = lifetimeOf(slot, moments);
  if (crowded) {
    comparisons += placed.size() + 16;
    const auto meets = [](const Interval &a, const Interval &b) { return unsigned(a.first <= b.last) & unsigned(b.first <= a.last); };
    const Interval first = lifetime.parts[0], second = lifetime.parts[lifetime.count - 1];
    for (const Range &range : placed) { // without branches, which nothing could foretell
      busy[busyCount] = range;
      busyCount += meets(range.interval, first) | meets(range.interval, second);
    }
    return;
  }
  for (const Interval &interval : lifetime) {
    const auto leafEnd = std::upper_bound(leaves.begin(), leaves.end(), interval.last,
                                          [](uint32_t last, const Leaf &leaf) { return last < leaf.interval.first; });
    collect(1, 0, width, static_cast<uint32_t>(leafEnd - leaves.begin()), interval, offsets);
  }
  std::sort(busy.begin(), busy.begin() + static_cast<std::ptrdiff_t>(busyCount), [](const Range &a, const Range &b) { return a.begin < b.begin; });
  comparisons += busyCount * static_cast<size_t>(kSortCost) + 16;
}

/// Leaves [nodeFirst, nodeFirst + nodeWidth) lie below `node`; those before `leafEnd` begin early enough.
void Placer::collect(uint32_t node, uint32_t nodeFirst, uint32_t nodeWidth, uint32_t leafEnd, const Interval &interval,
                     const std::vector<uint64_t> &offsets) {
  if (nodeFirst >= leafEnd || latest[node] < static_cast<int64_t>(interval.first))
    return;
  if (nodeWidth == 1) {
    const uint32_t slot = leaves[nodeFirst].slot;
    busy[busyCount++] = {offsets[slot], offsets[slot] + slots[slot].bytes, leaves[nodeFirst].interval};
    return;
  }
  const uint32_t half = nodeWidth / 2;
  collect(2 * node, nodeFirst, half, leafEnd, interval, offsets);
  collect(2 * node + 1, nodeFirst + half, half, leafEnd, interval, offsets);
}

uint64_t Placer::chooseGap(const SlotRequest &slot, Fit fit) const {
  uint64_t best = UINT64_MAX, bestGap = UINT64_MAX, free = base;
  for (const Range &range : std::span(busy).first(busyCount)) {
    if (range.begin > free && range.begin - free >= slot.bytes && range.begin - free < bestGap)
      if (const uint64_t start = alignUp(free, slot.alignment); range.begin >= start && range.begin - start >= slot.bytes) {
        if (fit == Fit::lowest)
          return start;
        best = start;
        bestGap = range.begin - free;
      }
    free = std::max(free, range.end);
  }
  return best != UINT64_MAX ? best : alignUp(free, slot.alignment);
}

} // namespace mt::passes
