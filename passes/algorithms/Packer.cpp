// Slots that are always alive are stacked at the bottom: no place is better for them. Of the others, large ones are
// packed by a skyline (Skyline.h) in the orders of several keys, and the best few orders are improved by chance, the
// better half of them for longer, until no more than enough bytes are needed or the allowed work is done: each for
// itself, on as many threads as there are. Small ones fill the gaps between them (Placer.h).
#include "passes/algorithms/Packer.h"

#include "passes/algorithms/Lifetimes.h"
#include "passes/algorithms/Placer.h"
#include "passes/algorithms/Skyline.h"
#include "runtime/base/Threads.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

namespace mt::passes {
namespace {

/// Of the Skyline's work, allowed at effort 1 for each slot, and in all: about a second of one thread.
constexpr double kWorkOfSlot = 1e5, kWork = 1.3e8;
/// Orders that are improved at first, and the most slots that a change moves.
constexpr size_t kImproved = 16, kMoves = 8;
constexpr int kSlackAttempts = 4;
/// Of the most that is alive: the part that all small slots together may need.
constexpr uint64_t kSmall = 200;
/// Where there is room for slack, sizes are rounded up to this many significant bits.
constexpr int kRoundedBits = 5;

using Order = std::vector<uint32_t>;

class Search {
public:
  /// Looks on for as long as it may while it needs more than `enough` bytes.
  Search(std::span<const SlotRequest> slots, uint32_t moments, double effort, uint64_t enough)
      : slots(slots), moments(moments),
        allowance(std::min(kWork, kWorkOfSlot * static_cast<double>(slots.size())) * effort), enough(enough) {
    result.offsets.assign(slots.size(), 0);
    const std::vector<uint64_t> live = liveBytes(slots, moments);
    result.lowerBound = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  }

  Packing run() {
    const uint64_t base = stackPersistent();
    Order large;
    for (uint32_t i = 0; i < slots.size(); ++i)
      if (slots[i].bytes > 0 && !isPersistent(slots[i], moments))
        large.push_back(i);
    const Order small = takeSmall(large);
    result.bytes = base;
    if (!large.empty())
      packLarge(large, base, enough - std::min(enough, most(small)));
    if (!small.empty())
      result.bytes = std::max(result.bytes, Placer(slots, moments, base).place(large, small, result.offsets));
    return result;
  }

private:
  /// An order of the large slots, and what comes of it.
  struct Candidate {
    Order order; ///< places in `large`
    uint64_t bytes;
    std::vector<uint64_t> offsets;
    uint64_t high = 0; ///< bytes by which slots end above what is alive at most, added up
  };
  std::span<const SlotRequest> slots;
  const uint32_t moments;
  const double allowance;
  const uint64_t enough;
  Packing result;

  /// Places slots that are always alive from offset 0 on, widest alignment first; returns their end.
  uint64_t stackPersistent() {
    Order persistent;
    for (uint32_t i = 0; i < slots.size(); ++i)
      if (slots[i].bytes > 0 && isPersistent(slots[i], moments))
        persistent.push_back(i);
    std::stable_sort(persistent.begin(), persistent.end(),
                     [&](uint32_t a, uint32_t b) { return slots[a].alignment > slots[b].alignment; });
    uint64_t end = 0;
    for (uint32_t i : persistent) {
      result.offsets[i] = alignUp(end, slots[i].alignment);
      end = result.offsets[i] + slots[i].bytes;
    }
    return end;
  }

  /// The most bytes of some slots that are alive at one moment.
  uint64_t most(const Order &some) const {
    std::vector<SlotRequest> requests;
    for (uint32_t i : some)
      requests.push_back(slots[i]);
    return findPeak(requests, moments).bytes;
  }

  /// Takes away from `large` the smallest slots, as many as may be, and returns them, the largest first.
  Order takeSmall(Order &large) const {
    std::stable_sort(large.begin(), large.end(),
                     [&](uint32_t a, uint32_t b) { return slots[a].bytes > slots[b].bytes; });
    const auto from = [&](size_t count) {
      return Order(large.begin() + static_cast<std::ptrdiff_t>(count), large.end());
    };
    size_t least = 0, enoughLarge = large.size();
    while (least < enoughLarge) {
      const size_t count = (least + enoughLarge) / 2;
      if (most(from(count)) <= result.lowerBound / kSmall)
        enoughLarge = count;
      else
        least = count + 1;
    }
    const Order small = from(enoughLarge);
    large.resize(enoughLarge);
    return small;
  }

  void packLarge(const Order &large, uint64_t base, uint64_t aim) {
    const Skyline empty(slots, large, moments, base);
    const uint64_t least = empty.lowerBound();
    const auto pack = [&](Skyline &skyline, Candidate &candidate, uint64_t limit) {
      std::vector<uint32_t> ranks(large.size());
      for (uint32_t rank = 0; rank < large.size(); ++rank)
        ranks[candidate.order[rank]] = rank;
      candidate.bytes = skyline.place(ranks, limit, candidate.offsets);
      candidate.high = 0;
      for (uint32_t i : large)
        candidate.high += std::max(candidate.offsets[i] + slots[i].bytes, least) - least;
    };
    std::vector<Candidate> candidates = orders(empty, large);
    const auto keepBest = [&](size_t count) {
      std::stable_sort(candidates.begin(), candidates.end(),
                       [](const Candidate &a, const Candidate &b) { return a.bytes < b.bytes; });
      candidates.resize(std::min(candidates.size(), count));
    };
    Skyline skyline = empty;
    size_t tried = 0;
    do
      pack(skyline, candidates[tried], UINT64_MAX);
    while (candidates[tried++].bytes > least && tried < candidates.size() &&
           static_cast<double>(skyline.work()) < allowance);
    candidates.resize(tried);
    keepBest(kImproved);
    double left = allowance - static_cast<double>(skyline.work());
    const uint64_t threads = coreCount(), enoughBytes = std::max(aim, least);
    for (size_t count = candidates.size(); candidates.front().bytes > enoughBytes; count /= 2) {
      keepBest(count);
      const int rounds = std::max(1, static_cast<int>(std::bit_width(count)) - 1); // the last one with two, or one if there is no other
      const double share = left / rounds / static_cast<double>(count);
      left -= share * static_cast<double>(count);
      std::atomic<size_t> next = 0;
      onThreads(std::min<uint64_t>(threads, count), [&] {
        for (size_t i = next++; i < count; i = next++) {
          Candidate &candidate = candidates[i], other = candidate;
          Skyline own = empty;
          std::mt19937 random(static_cast<uint32_t>(count * kImproved + i));
          while (static_cast<double>(own.work()) < share && candidate.bytes > enoughBytes) {
            other.order = candidate.order;
            change(other.order, random, candidate, large, least);
            pack(own, other, candidate.bytes + 1);
            if (other.bytes < candidate.bytes || (other.bytes == candidate.bytes && other.high <= candidate.high))
              std::swap(candidate, other);
          }
        }
      });
      keepBest(count);
      if (rounds == 1)
        break;
    }
    result.bytes = candidates.front().bytes;
    for (uint32_t i : large)
      result.offsets[i] = candidates.front().offsets[i];
  }

  /// Larger, longer, and in more crowded moments first, by several weights of the three. Only products and square
  /// roots, which are the same on every machine.
  std::vector<Candidate> orders(const Skyline &skyline, const Order &large) const {
    std::vector<Candidate> candidates;
    std::vector<double> keys(large.size());
    for (int crowding : {0, 2, 4})
      for (int bytes : {0, 1, 2, 3})
        for (int duration : {0, 1, 2, 4}) {
          for (uint32_t i = 0; i < large.size(); ++i) {
            const double size = std::sqrt(static_cast<double>(slots[large[i]].bytes)),
                         length = std::sqrt(skyline.duration(i));
            keys[i] = 1;
            for (int k = 0; k < bytes; ++k)
              keys[i] *= size;
            for (int k = 0; k < duration; ++k)
              keys[i] *= length;
            double crowded = skyline.crowding(i); // to the power of 4 or 16
            for (int k = 0; k < crowding; ++k)
              crowded *= crowded;
            keys[i] *= crowding > 0 ? crowded : 1;
          }
          Candidate candidate{Order(large.size()), 0, result.offsets};
          std::iota(candidate.order.begin(), candidate.order.end(), 0);
          std::stable_sort(candidate.order.begin(), candidate.order.end(),
                           [&](uint32_t a, uint32_t b) { return keys[a] > keys[b]; });
          candidates.push_back(std::move(candidate));
        }
    return candidates;
  }

  bool meet(uint32_t a, uint32_t b) const {
    for (const Interval &one : lifetimeOf(slots[a], moments))
      for (const Interval &other : lifetimeOf(slots[b], moments))
        if (one.first <= other.last && other.first <= one.last)
          return true;
    return false;
  }

  /// Moves a few slots, those that end high rather than others, to the places of others in an order, those alive at the
  /// same time rather than others.
  void change(Order &order, std::mt19937 &random, const Candidate &now, const Order &large, uint64_t bound) const {
    const auto below = [&](size_t count) { return random() % count; };
    const auto slotAt = [&](size_t place) { return large[order[place]]; };
    for (size_t moves = 1 + below(kMoves); moves > 0; --moves) {
      size_t from = below(order.size()), to = below(order.size());
      const auto high = [&] { return now.offsets[slotAt(from)] + slots[slotAt(from)].bytes > bound; };
      for (int tries = 0; tries < 8 && below(2) && !high(); ++tries)
        from = below(order.size());
      for (int tries = 0; tries < 8 && !meet(slotAt(from), slotAt(to)); ++tries)
        to = below(order.size());
      const auto at = [&](size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
      if (to < from)
        std::rotate(at(to), at(from), at(from + 1));
      else
        std::rotate(at(from), at(from + 1), at(to + 1));
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
      stuck[i] = stuck[i] || !slot.stretches || (next == 0 && !cyclic) || isPersistent(slot, moments) ||
                 slot.bytes > budget || live[next] > budget - slot.bytes;
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
