#include "passes/algorithms/VerifyContents.h"

#include <algorithm>
#include <map>

namespace mt::passes {
namespace {

/// Ranges that do not overlap, each with a value.
template <typename Value> class Ranges {
public:
  /// Takes [begin, end) out; calls use(begin, end, value) for what of it was there.
  template <typename Use> void take(uint64_t begin, uint64_t end, const Use &use) {
    auto at = firstBehind(begin);
    while (at != ranges.end() && at->first < end) {
      const auto [first, old] = *at;
      at = ranges.erase(at);
      if (first < begin)
        ranges.insert({first, {begin, old.value}});
      if (end < old.end)
        at = ranges.insert({end, {old.end, old.value}}).first;
      use(std::max(first, begin), std::min(old.end, end), old.value);
    }
  }
  void put(uint64_t begin, uint64_t end, const Value &value) { ranges.insert({begin, {end, value}}); }

  struct Found {
    uint64_t begin, end;
    Value value;
  };
  std::optional<Found> within(uint64_t begin, uint64_t end) {
    const auto at = firstBehind(begin);
    if (at == ranges.end() || at->first >= end)
      return std::nullopt;
    return Found{std::max(begin, at->first), std::min(end, at->second.end), at->second.value};
  }

private:
  struct Range {
    uint64_t end;
    Value value;
  };
  std::map<uint64_t, Range> ranges;

  /// The first that ends behind `begin`.
  auto firstBehind(uint64_t begin) {
    auto at = ranges.upper_bound(begin);
    if (at != ranges.begin() && std::prev(at)->second.end > begin)
      --at;
    return at;
  }
};

} // namespace

std::optional<Overwritten> verifyContents(std::span<const Touches *const> programs) {
  std::map<uint32_t, Ranges<uint32_t>> written; // by space: the slot that wrote last
  std::map<uint32_t, Ranges<uint32_t>> lost;    // by slot: of its bytes, the command that wrote over them
  uint32_t number = 0;
  for (const Touches *program : programs)
    for (const std::vector<Touch> &command : *program) {
      for (const Touch &touch : command)
        if (touch.reads)
          if (auto found = lost[touch.slot].within(touch.begin, touch.end))
            return Overwritten{number, found->value, touch.slot, found->begin, found->end};
      for (const Touch &touch : command) {
        if (!touch.writes || touch.begin == touch.end)
          continue;
        written[touch.space].take(touch.begin, touch.end, [&](uint64_t begin, uint64_t end, uint32_t slot) {
          if (slot != touch.slot)
            lost[slot].put(begin, end, number);
        });
        written[touch.space].put(touch.begin, touch.end, touch.slot);
        lost[touch.slot].take(touch.begin, touch.end, [](uint64_t, uint64_t, uint32_t) {});
      }
      ++number;
    }
  return std::nullopt;
}

} // namespace mt::passes
