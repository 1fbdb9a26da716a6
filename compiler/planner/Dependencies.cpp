#include "compiler/planner/Dependencies.h"

#include "compiler/planner/Emitter.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace mt::planner {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// A command of an iteration.
struct User {
  uint32_t command = kNone;
  uint32_t iteration = 0;
};

/// Bytes of a slot: who wrote them last, and who has read them since.
struct Range {
  int64_t begin, end;
  User writer = {};
  uint32_t reader = kNone; ///< the last of a list
};

/// One that has read. Ranges that were one have the rest of their lists in common.
struct Reader {
  User user;
  uint32_t before; ///< in the list, or none
};

/// What a command touches of a slot: its operands there, those side by side as one.
struct Touch {
  uint32_t command;
  bool writes;
  int64_t begin, end;
};

class Walk {
public:
  Walk(const Schedule &schedule, std::span<const Command> program) : schedule(schedule), program(program) {
    size_t accesses = 0;
    for (const Command &command : program)
      accesses += command.accesses.size();
    touches.reserve(accesses);
    for (uint32_t i = 0; i < program.size(); ++i)
      touch(i);
  }

  Grouped<Dependency> run(bool cyclic) {
    const Grouped<Touch> bySlot(schedule.slots.size(), touches);
    for (size_t slot = 0; slot < bySlot.size(); ++slot) {
      ranges.clear(), readers.clear();
      // The first iteration only leaves the second what it finds.
      for (uint32_t iteration = 0; iteration < (cyclic ? 2 : 1); ++iteration)
        walk(bySlot[slot], iteration, !cyclic || iteration == 1);
    }
    Grouped<Dependency> dependencies(program.size(), found);
    // By command, of this and the last iteration: who waits for it, as yet.
    std::vector<uint32_t> waiting(2 * program.size(), kNone);
    dependencies.filter([&](uint32_t command, const Dependency &dependency) {
      return std::exchange(waiting[2 * dependency.command + dependency.back], command) != command;
    });
    return dependencies;
  }

private:
  const Schedule &schedule;
  std::span<const Command> program;
  std::vector<std::pair<uint32_t, Touch>> touches;    ///< by slot, in the order of commands; of each, reads first
  std::vector<std::pair<uint32_t, Dependency>> found; ///< by command

  // Of one slot.
  std::vector<Range> ranges; ///< sorted, without overlap
  std::vector<Reader> readers;

  /// Bytes between operands that are there for alignment are nobody's; scalars are not aligned.
  void touch(uint32_t command) {
    const size_t first = touches.size();
    for (const Access &access : program[command].accesses)
      touches.push_back(
          {access.slot, {command, access.writes(), access.offset, access.offset + access.bytes + access.reach}});
    auto order = [](const std::pair<uint32_t, Touch> &each) {
      return std::tuple(each.first, each.second.writes, each.second.begin);
    };
    std::ranges::sort(std::span(touches).subspan(first), {}, order);
    size_t last = first;
    for (size_t i = first + 1; i < touches.size(); ++i) {
      Touch &before = touches[last].second;
      const auto &[slot, each] = touches[i];
      const bool joins = slot == touches[last].first && each.writes == before.writes &&
                         each.begin <= (schedule.slots[slot].kind == Kind::scalar ? before.end : aligned(before.end));
      if (joins)
        before.end = std::max(before.end, each.end);
      else
        touches[++last] = touches[i];
    }
    if (first < touches.size())
      touches.resize(last + 1);
  }

  void walk(std::span<const Touch> all, uint32_t iteration, bool wanted) {
    for (size_t first = 0, last; first < all.size(); first = last) {
      for (last = first + 1; last < all.size() && all[last].command == all[first].command;)
        ++last;
      const auto own = all.subspan(first, last - first);
      for (const Touch &each : own)
        if (wanted)
          collect(each, iteration);
      for (const Touch &each : own)
        record(each, iteration);
    }
  }

  /// The first range that ends after a place.
  std::vector<Range>::iterator after(int64_t place) {
    constexpr size_t kFew = 8;
    if (ranges.size() <= kFew)
      return std::ranges::find_if(ranges, [&](const Range &range) { return range.end > place; });
    return std::ranges::partition_point(ranges, [&](const Range &range) { return range.end <= place; });
  }

  /// Makes range borders of both ends of a touch and fills gaps between; returns [first, last) of what it covers.
  std::pair<size_t, size_t> cover(const Touch &touch) {
    if (auto same = after(touch.begin); same != ranges.end() && same->begin == touch.begin && same->end == touch.end)
      return {same - ranges.begin(), same - ranges.begin() + 1};
    auto splitAt = [&](int64_t place) {
      auto at = after(place);
      if (at == ranges.end() || at->begin >= place)
        return;
      Range right = *at;
      at->end = right.begin = place;
      ranges.insert(at + 1, right);
    };
    splitAt(touch.begin);
    splitAt(touch.end);
    auto at = static_cast<size_t>(after(touch.begin) - ranges.begin());
    const size_t first = at;
    for (int64_t place = touch.begin; place < touch.end; ++at) {
      if (at == ranges.size() || ranges[at].begin > place) {
        const int64_t until = at == ranges.size() ? touch.end : std::min(touch.end, ranges[at].begin);
        ranges.insert(ranges.begin() + static_cast<std::ptrdiff_t>(at), {place, until});
      }
      place = ranges[at].end;
    }
    return {first, at};
  }

  void collect(const Touch &touch, uint32_t iteration) {
    auto waitsFor = [&](const User &user) {
      found.push_back({touch.command, {user.command, iteration - user.iteration}});
    };
    for (auto range = after(touch.begin); range != ranges.end() && range->begin < touch.end; ++range) {
      if (range->writer.command != kNone)
        waitsFor(range->writer);
      for (uint32_t reader = touch.writes ? range->reader : kNone; reader != kNone; reader = readers[reader].before)
        waitsFor(readers[reader].user);
    }
  }

  void record(const Touch &touch, uint32_t iteration) {
    auto [first, last] = cover(touch);
    for (size_t i = first; i < last; ++i) {
      Range &range = ranges[i];
      if (touch.writes) {
        range.writer = {touch.command, iteration};
        range.reader = kNone;
      } else {
        readers.push_back({{touch.command, iteration}, range.reader});
        range.reader = static_cast<uint32_t>(readers.size() - 1);
      }
    }
  }
};
} // namespace

Grouped<Dependency> dependencies(const Schedule &schedule, std::span<const Command> program, bool cyclic) {
  return Walk(schedule, program).run(cyclic);
}

} // namespace mt::planner
