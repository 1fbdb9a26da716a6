// A sweep over moments: slots enter and leave an ordered set by offset; a slot that enters is compared with its two
// neighbours there.
#include "passes/algorithms/VerifyPacking.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace mt::passes {
namespace {

struct Placed {
  uint64_t offset;
  uint32_t slot;
  auto operator<=>(const Placed &) const = default;
};

/// A slot begins to live before a moment's checks or stops after them.
struct Change {
  uint32_t moment;
  bool enters;
  uint32_t slot;
};

void addLifetime(std::vector<Change> &changes, uint32_t first, uint32_t last, uint32_t slot) {
  changes.push_back({first, true, slot});
  changes.push_back({last + 1, false, slot});
}

Status verifySlot(const SlotRequest &slot, uint32_t index, uint64_t offset, uint64_t bytes, uint32_t moments) {
  if (slot.alignment > 1 && offset % slot.alignment != 0)
    return fail("slot {} lies at {}, which is not a multiple of its alignment {}", index, offset, slot.alignment);
  if (slot.bytes > bytes || offset > bytes - slot.bytes)
    return fail("slot {} takes bytes [{}, {}) of a space of {}", index, offset, offset + slot.bytes, bytes);
  if (slot.first >= moments || slot.last >= moments)
    return fail("slot {} lives from {} to {} in a program of {} commands", index, slot.first, slot.last, moments);
  return {};
}

} // namespace

Status verifyPacking(std::span<const SlotRequest> slots, std::span<const uint64_t> offsets, uint64_t bytes,
                     uint32_t moments) {
  if (offsets.size() != slots.size())
    return fail("{} offsets for {} slots", offsets.size(), slots.size());
  std::vector<Change> changes;
  for (uint32_t i = 0; i < slots.size(); ++i) {
    if (slots[i].bytes == 0)
      continue;
    MT_TRY(verifySlot(slots[i], i, offsets[i], bytes, moments));
    if (slots[i].first <= slots[i].last) {
      addLifetime(changes, slots[i].first, slots[i].last, i);
    } else {
      addLifetime(changes, slots[i].first, moments - 1, i);
      addLifetime(changes, 0, slots[i].last, i);
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change &a, const Change &b) {
    return std::tuple(a.moment, a.enters, a.slot) < std::tuple(b.moment, b.enters, b.slot);
  });
  std::set<Placed> alive;
  for (const Change &change : changes) {
    const Placed placed{offsets[change.slot], change.slot};
    if (!change.enters) {
      alive.erase(placed);
      continue;
    }
    const auto at = alive.insert(placed).first;
    const auto shares = [&](uint32_t lower, uint32_t upper) {
      return offsets[lower] + slots[lower].bytes > offsets[upper];
    };
    if (at != alive.begin() && shares(std::prev(at)->slot, change.slot))
      return fail("slots {} and {} are both alive at command {} and share bytes", std::prev(at)->slot, change.slot,
                  change.moment);
    if (std::next(at) != alive.end() && shares(change.slot, std::next(at)->slot))
      return fail("slots {} and {} are both alive at command {} and share bytes", change.slot, std::next(at)->slot,
                  change.moment);
  }
  return {};
}

} // namespace mt::passes
