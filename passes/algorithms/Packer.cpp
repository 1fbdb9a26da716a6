// Slots that are always alive are stacked at the bottom: no place is better for them. The others are placed greedily
// in several orders, and the best order is improved by moving the slots that ended too high to its front ("squeaky
// wheel" search, Joslin and Clements, 1999) until the size is the lower bound or the allowed work is done.
#include "passes/algorithms/Packer.h"

#include "passes/algorithms/Lifetimes.h"
#include "passes/algorithms/Placer.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

namespace mt::passes {
namespace {

/// Comparisons allowed at effort 1: about a second.
constexpr double kWork = 1.5e8;
constexpr uint32_t kRounds = 200;
constexpr int kSlackAttempts = 4;
/// Of the bytes of a packing: how much more than enough is far from it.
constexpr uint64_t kFar = 32;
/// Where there is room for slack, sizes are rounded up to this many significant bits.
constexpr int kRoundedBits = 5;

using Order = std::vector<uint32_t>;

uint64_t alignUp(uint64_t offset, uint64_t alignment) {
  return alignment > 1 ? (offset + alignment - 1) / alignment * alignment : offset;
}

class Search {
public:
  /// Looks on for as long as it may while it needs more than `enough` bytes.
  Search(std::span<const SlotRequest> slots, uint32_t moments, double effort, uint64_t enough)
      : slots(slots), moments(moments), live(liveBytes(slots, moments)), allowance(kWork * effort), enough(enough) {
    result.offsets.assign(slots.size(), 0);
    peak = static_cast<uint32_t>(std::max_element(live.begin(), live.end()) - live.begin());
    result.lowerBound = live.empty() ? 0 : live[peak];
  }

  Packing run() {
    const uint64_t base = stackPersistent();
    if (transient.empty()) {
      result.bytes = base;
      return result;
    }
    Placer tool(slots, moments, base);
    placer = &tool;
    result.bytes = UINT64_MAX;
    for (const Order &order : orders())
      for (Fit fit : {Fit::smallest, Fit::lowest})
        attempt(order, fit);
    improve();
    wander();
    return result;
  }

private:
  std::span<const SlotRequest> slots;
  const uint32_t moments;
  const std::vector<uint64_t> live;
  uint32_t peak = 0; ///< the first moment at which most is alive
  double allowance;
  const uint64_t enough;
  Order transient;
  Placer *placer = nullptr;
  Packing result;
  Order bestOrder;
  Fit bestFit = Fit::smallest;

  /// Places slots that are always alive from offset 0 on, widest alignment first; the others become `transient`.
  uint64_t stackPersistent() {
    Order persistent;
    for (uint32_t i = 0; i < slots.size(); ++i)
      if (slots[i].bytes > 0)
        (isPersistent(slots[i], moments) ? persistent : transient).push_back(i);
    std::stable_sort(persistent.begin(), persistent.end(),
                     [&](uint32_t a, uint32_t b) { return slots[a].alignment > slots[b].alignment; });
    uint64_t end = 0;
    for (uint32_t i : persistent) {
      result.offsets[i] = alignUp(end, slots[i].alignment);
      end = result.offsets[i] + slots[i].bytes;
    }
    return end;
  }

  bool done() const {
    return result.bytes != UINT64_MAX &&
           (result.bytes == result.lowerBound || static_cast<double>(placer->work()) > allowance);
  }

  /// Greater keys first; equal ones by size, then in the order given.
  template <typename Key> Order orderedBy(Key key) const {
    Order order = transient;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const double keyA = key(a), keyB = key(b);
      return keyA != keyB ? keyA > keyB : slots[a].bytes > slots[b].bytes;
    });
    return order;
  }

  std::vector<Order> orders() const {
    const auto bytes = [&](uint32_t i) { return static_cast<double>(slots[i].bytes); };
    const auto duration = [&](uint32_t i) { return static_cast<double>(durationOf(slots[i], moments)); };
    return {
        orderedBy(bytes),
        orderedBy([&](uint32_t i) { return bytes(i) * duration(i); }),
        orderedBy(duration),
        orderedBy([&](uint32_t i) { return static_cast<double>(crowding(i)); }),
        orderedBy([&](uint32_t i) { return -static_cast<double>(slots[i].first); }),
        orderedBy([&](uint32_t i) { return static_cast<double>(slots[i].last); }),
        orderedBy([&](uint32_t i) { return -static_cast<double>(distanceFromPeak(i)); }),
    };
  }

  uint32_t distanceFromPeak(uint32_t slot) const {
    const SlotRequest &request = slots[slot];
    return request.first > peak ? request.first - peak : request.last < peak ? peak - request.last : 0;
  }

  /// Bytes alive at the ends of a slot's lifetime, the greater: slots of crowded moments have the least choice.
  uint64_t crowding(uint32_t slot) const { return std::max(live[slots[slot].first], live[slots[slot].last]); }

  Fit otherFit() const { return bestFit == Fit::lowest ? Fit::smallest : Fit::lowest; }

  /// Takes what is better, or `sideways` no worse.
  bool attempt(const Order &order, Fit fit, bool sideways = false) {
    if (done())
      return false;
    std::vector<uint64_t> offsets = result.offsets;
    const uint64_t limit = result.bytes + (sideways && result.bytes < UINT64_MAX ? 1 : 0);
    const uint64_t bytes = placer->place(order, fit, limit, offsets);
    if (bytes >= limit)
      return false;
    result.bytes = bytes;
    result.offsets = std::move(offsets);
    bestOrder = order;
    bestFit = fit;
    return true;
  }

  /// Moves the slots that end above a mark to the front, the mark sinking from the top where that no longer helps.
  void improve() {
    double share = 0;
    for (uint32_t round = 0; round < kRounds && !done(); ++round) {
      const uint64_t excess = result.bytes - result.lowerBound;
      const uint64_t mark = result.bytes - 1 - static_cast<uint64_t>(share * static_cast<double>(excess));
      Order order = bestOrder;
      std::stable_partition(order.begin(), order.end(),
                            [&](uint32_t i) { return result.offsets[i] + slots[i].bytes > mark; });
      const bool better =
          attempt(order, bestFit) || attempt(order, otherFit());
      share = better ? 0 : share + 0.125;
      if (share > 2)
        return;
    }
  }

  /// Moves a few slots, those that end high rather than others, to other places of the order, and keeps what is no
  /// worse. What is tried does not depend on what is enough, but for how long: what was found once for a small budget
  /// is found again for just that. Far from there it is not worth much.
  void wander() {
    std::mt19937 random(1);
    if (result.bytes > enough && result.bytes - enough > result.bytes / kFar)
      allowance = std::min(allowance, static_cast<double>(placer->work()) + allowance / 4);
    auto below = [&](size_t count) { return random() % count; };
    while (!done() && result.bytes > enough) {
      Order order = bestOrder;
      for (size_t moves = 1 + below(3); moves > 0; --moves) {
        size_t from = below(order.size());
        for (int tries = 0;
             tries < 8 && below(2) && result.offsets[order[from]] + slots[order[from]].bytes <= result.lowerBound;
             ++tries)
          from = below(order.size());
        const size_t to = below(order.size());
        const auto begin = order.begin();
        const auto at = [&](size_t i) { return begin + static_cast<std::ptrdiff_t>(i); };
        if (to < from)
          std::rotate(at(to), at(from), at(from + 1));
        else
          std::rotate(at(from), at(from + 1), at(to + 1));
      }
      attempt(order, below(4) ? bestFit : otherFit(), true);
    }
  }
};

/// Puts off the slots' ends, all by one moment before any by two, as long as no more than `budget` bytes are alive
/// together. Returns the most that an end was put off.
uint32_t stretchWithin(std::vector<SlotRequest> &slots, uint32_t slack, uint32_t moments, bool cyclic,
                       uint64_t budget) {
  std::vector<uint64_t> live = liveBytes(slots, moments);
  std::vector<bool> stuck(slots.size(), false);
  uint32_t kept = 0;
  for (uint32_t distance = 1; distance <= slack; ++distance)
    for (size_t i = 0; i < slots.size(); ++i) {
      SlotRequest &slot = slots[i];
      const uint32_t next = slot.last + 1 < moments ? slot.last + 1 : 0;
      stuck[i] = stuck[i] || (next == 0 && !cyclic) || isPersistent(slot, moments) || slot.bytes > budget ||
                 live[next] > budget - slot.bytes;
      if (stuck[i])
        continue;
      slot.last = next;
      live[next] += slot.bytes;
      kept = distance;
    }
  return kept;
}

/// Slots of layers that differ by little take the same places: what repeats with a model's depth packs alike however
/// often it does, at the cost of a thirty-second.
std::vector<SlotRequest> rounded(std::vector<SlotRequest> slots) {
  for (SlotRequest &slot : slots) {
    const auto bits = static_cast<int>(std::bit_width(slot.bytes));
    slot.bytes = alignUp(slot.bytes, uint64_t(1) << std::max(0, bits - kRoundedBits - 1));
  }
  return slots;
}

} // namespace

Packing pack(std::span<const SlotRequest> slots, const PackOptions &options) {
  const uint32_t moments = momentsOf(slots, options.moments);
  const Packing tight = Search(slots, moments, options.effort, options.budget).run();
  uint64_t affordable = options.budget;
  for (int attempt = 0; attempt < kSlackAttempts && options.slack > 0 && tight.bytes <= options.budget; ++attempt) {
    std::vector<SlotRequest> loose(slots.begin(), slots.end());
    const uint32_t kept = stretchWithin(loose, options.slack, moments, options.cyclic, affordable);
    if (kept == 0)
      break;
    Packing packing = Search(rounded(loose), moments, options.effort / kSlackAttempts, UINT64_MAX).run();
    if (packing.bytes > options.budget)
      packing = Search(loose, moments, options.effort / kSlackAttempts, UINT64_MAX).run();
    packing.lowerBound = tight.lowerBound;
    packing.slack = kept;
    if (packing.bytes <= options.budget)
      return packing;
    // What fragmentation took is not there to stretch into.
    affordable -= std::min(affordable, packing.bytes - options.budget);
  }
  return tight;
}

} // namespace mt::passes
