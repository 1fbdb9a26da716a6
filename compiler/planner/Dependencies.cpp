#include "compiler/planner/Dependencies.h"

#include "compiler/planner/Emitter.h"

#include <algorithm>
#include <tuple>

namespace mt::planner {
namespace {

/// Bytes of a slot: who wrote them last, and who has read them since.
struct Range {
  int64_t begin, end;
  std::optional<Dependency> writer;
  std::vector<Dependency> readers;
};

/// What a command touches of a slot: its operands there, those side by side as one.
struct Touch {
  uint32_t slot;
  bool writes;
  int64_t begin, end;
};

class Walk {
public:
  Walk(const Schedule &schedule, std::span<const Command> program) : schedule(schedule), program(program), ranges(schedule.slots.size()) {
    firsts.reserve(program.size() + 1);
    for (const Command &command : program)
      touch(command);
    firsts.push_back(touches.size());
  }

  std::vector<std::vector<Dependency>> run(bool cyclic) {
    std::vector<std::vector<Dependency>> found(program.size());
    for (uint32_t pass = 0; pass < (cyclic ? 2 : 1); ++pass) {
      if (pass == 1)
        beginNext();
      for (uint32_t i = 0; i < program.size(); ++i) {
        const bool wanted = !cyclic || pass == 1; // the first iteration only leaves the second what it finds
        const auto own = std::span(touches).subspan(firsts[i], firsts[i + 1] - firsts[i]);
        for (const Touch &each : own)
          if (wanted)
            collect(each, found[i]);
        for (const Touch &each : own)
          record(each, i);
        if (!wanted)
          continue;
        std::ranges::sort(found[i]);
        found[i].erase(std::ranges::unique(found[i]).begin(), found[i].end());
      }
    }
    return found;
  }

private:
  const Schedule &schedule;
  std::span<const Command> program;
  std::vector<Touch> touches; ///< command by command
  std::vector<size_t> firsts; ///< by command: its first
  std::vector<std::vector<Range>> ranges; ///< by slot, sorted, without overlap

  /// Bytes between operands that are there for alignment are nobody's; scalars are not aligned.
  void touch(const Command &command) {
    const size_t first = touches.size();
    firsts.push_back(first);
    for (const Access &access : command.accesses)
      touches.push_back({access.slot, access.writes(), access.offset, access.offset + access.bytes + access.reach});
    std::sort(touches.begin() + static_cast<std::ptrdiff_t>(first), touches.end(), [](const Touch &a, const Touch &b) {
      return std::tie(a.slot, a.writes, a.begin) < std::tie(b.slot, b.writes, b.begin);
    });
    size_t last = first;
    for (size_t i = first + 1; i < touches.size(); ++i) {
      const bool joins = touches[i].slot == touches[last].slot && touches[i].writes == touches[last].writes &&
                         touches[i].begin <= (schedule.slots[touches[i].slot].kind == Kind::scalar ? touches[last].end : aligned(touches[last].end));
      if (joins)
        touches[last].end = std::max(touches[last].end, touches[i].end);
      else
        touches[++last] = touches[i];
    }
    if (first < touches.size())
      touches.resize(last + 1);
  }

  void beginNext() {
    for (size_t slot = 0; slot < ranges.size(); ++slot) {
      for (Range &range : ranges[slot]) {
        if (range.writer)
          range.writer->back = 1;
        for (Dependency &reader : range.readers)
          reader.back = 1;
      }
    }
  }

  /// Makes range borders of both ends of a touch and fills gaps between; returns [first, last) of what it covers.
  std::pair<size_t, size_t> cover(const Touch &touch) {
    std::vector<Range> &list = ranges[touch.slot];
    const int64_t begin = touch.begin, end = touch.end;
    auto splitAt = [&](int64_t place) {
      auto at = std::ranges::partition_point(list, [&](const Range &range) { return range.end <= place; });
      if (at == list.end() || at->begin >= place)
        return;
      Range right = *at;
      at->end = right.begin = place;
      list.insert(at + 1, std::move(right));
    };
    splitAt(begin);
    splitAt(end);
    auto at = static_cast<size_t>(std::ranges::partition_point(list, [&](const Range &range) { return range.end <= begin; }) - list.begin());
    const size_t first = at;
    for (int64_t place = begin; place < end; ++at) {
      if (at == list.size() || list[at].begin > place) {
        int64_t until = at == list.size() ? end : std::min(end, list[at].begin);
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), {place, until, {}, {}});
      }
      place = list[at].end;
    }
    return {first, at};
  }

  void collect(const Touch &touch, std::vector<Dependency> &found) const {
    const std::vector<Range> &list = ranges[touch.slot];
    for (auto range = std::ranges::partition_point(list, [&](const Range &each) { return each.end <= touch.begin; });
         range != list.end() && range->begin < touch.end; ++range) {
      if (range->writer)
        found.push_back(*range->writer);
      if (touch.writes)
        found.insert(found.end(), range->readers.begin(), range->readers.end());
    }
  }

  void record(const Touch &touch, uint32_t command) {
    auto [first, last] = cover(touch);
    for (size_t i = first; i < last; ++i) {
      Range &range = ranges[touch.slot][i];
      if (touch.writes) {
        range.writer = Dependency{command, 0};
        range.readers.clear();
      } else if (range.writer != Dependency{command, 0}) {
        range.readers.push_back({command, 0});
      }
    }
  }
};
} // namespace

std::vector<std::vector<Dependency>> dependencies(const Schedule &schedule, std::span<const Command> program, bool cyclic) {
  return Walk(schedule, program).run(cyclic);
}

} // namespace mt::planner
