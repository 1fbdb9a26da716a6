#include "compiler/planner/Dependencies.h"

#include <algorithm>

namespace mt::planner {
namespace {

/// Bytes of a slot: who wrote them last, and who has read them since.
struct Range {
  int64_t begin, end;
  std::optional<Dependency> writer;
  std::vector<Dependency> readers;
};

class Walk {
public:
  Walk(const Schedule &schedule, std::span<const Command> program) : schedule(schedule), program(program), ranges(schedule.slots.size()) {}

  std::vector<std::vector<Dependency>> run(bool cyclic) {
    std::vector<std::vector<Dependency>> found(program.size());
    for (uint32_t pass = 0; pass < (cyclic ? 2 : 1); ++pass) {
      if (pass == 1)
        beginNext();
      for (uint32_t i = 0; i < program.size(); ++i) {
        found[i].clear();
        for (const Access &access : program[i].accesses)
          collect(access, i, found[i]);
        for (const Access &access : program[i].accesses)
          record(access, i);
        std::ranges::sort(found[i]);
        found[i].erase(std::ranges::unique(found[i]).begin(), found[i].end());
      }
    }
    return found;
  }

private:
  const Schedule &schedule;
  std::span<const Command> program;
  std::vector<std::vector<Range>> ranges; ///< by slot, sorted, without overlap

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

  /// Makes range borders of both ends of an access and fills gaps between; returns [first, last) of what it covers.
  std::pair<size_t, size_t> cover(const Access &access) {
    std::vector<Range> &list = ranges[access.slot];
    const int64_t begin = access.offset, end = begin + access.bytes;
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

  void collect(const Access &access, uint32_t, std::vector<Dependency> &found) {
    const int64_t begin = access.offset, end = begin + access.bytes;
    for (const Range &range : ranges[access.slot]) {
      if (range.begin >= end)
        break;
      if (range.end <= begin)
        continue;
      if (range.writer)
        found.push_back(*range.writer);
      if (access.writes())
        found.insert(found.end(), range.readers.begin(), range.readers.end());
    }
  }

  void record(const Access &access, uint32_t command) {
    auto [first, last] = cover(access);
    for (size_t i = first; i < last; ++i) {
      Range &range = ranges[access.slot][i];
      if (access.writes()) {
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
