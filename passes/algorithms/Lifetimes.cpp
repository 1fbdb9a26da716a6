#include "passes/algorithms/Lifetimes.h"

#include <algorithm>

namespace mt::passes {

Lifetime lifetimeOf(const SlotRequest &slot, uint32_t moments) {
  if (slot.first <= slot.last)
    return {{{slot.first, slot.last}, {}}, 1};
  if (slot.first == slot.last + 1)
    return {{{0, moments - 1}, {}}, 1};
  return {{{0, slot.last}, {slot.first, moments - 1}}, 2};
}

uint32_t durationOf(const SlotRequest &slot, uint32_t moments) {
  return slot.first <= slot.last ? slot.last - slot.first + 1 : slot.last + 1 + moments - slot.first;
}

bool isPersistent(const SlotRequest &slot, uint32_t moments) { return durationOf(slot, moments) >= moments; }

uint32_t momentsOf(std::span<const SlotRequest> slots, uint32_t moments) {
  for (const SlotRequest &slot : slots)
    moments = std::max({moments, slot.first + 1, slot.last + 1});
  return moments;
}

std::vector<uint64_t> liveBytes(std::span<const SlotRequest> slots, uint32_t moments) {
  std::vector<uint64_t> change(moments + 1, 0); // unsigned differences: they wrap, their sums do not
  for (const SlotRequest &slot : slots)
    for (const Interval &interval : lifetimeOf(slot, moments)) {
      change[interval.first] += slot.bytes;
      change[interval.last + 1] -= slot.bytes;
    }
  for (uint32_t moment = 1; moment <= moments; ++moment)
    change[moment] += change[moment - 1];
  change.resize(moments);
  return change;
}

Peak findPeak(std::span<const SlotRequest> slots, uint32_t moments) {
  moments = momentsOf(slots, moments);
  const std::vector<uint64_t> live = liveBytes(slots, moments);
  Peak peak;
  if (live.empty())
    return peak;
  const auto top = std::max_element(live.begin(), live.end());
  peak.bytes = *top;
  peak.moment = static_cast<uint32_t>(top - live.begin());
  for (uint32_t i = 0; i < slots.size(); ++i)
    for (const Interval &interval : lifetimeOf(slots[i], moments))
      if (interval.first <= peak.moment && peak.moment <= interval.last && slots[i].bytes > 0)
        peak.slots.push_back(i);
  std::stable_sort(peak.slots.begin(), peak.slots.end(),
                   [&](uint32_t a, uint32_t b) { return slots[a].bytes > slots[b].bytes; });
  return peak;
}

} // namespace mt::passes
