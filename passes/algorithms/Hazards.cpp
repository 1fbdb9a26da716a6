// One walk over the commands in issue order. Per space, an interval map holds the last writer of every byte and the
// readers since; per command, a vector clock holds how much of every stream is known to be complete when it is.
// A cyclic program is walked twice: the second walk's awaits are those of every iteration. Awaits within an iteration
// come out the same in both walks, because a path between two commands of one iteration cannot leave it.
#include "passes/algorithms/Hazards.h"

#include <algorithm>
#include <map>

namespace mt::passes {
namespace {

/// Issue number of a command, counted through both iterations.
using Ticket = uint32_t;
constexpr Ticket kNone = UINT32_MAX;

/// Who touched a range of bytes: its last writer, and the newest reader since on each stream that has read it.
struct Owners {
  Ticket writer = kNone;
  std::vector<Ticket> readers;
};

/// The bytes of one space, cut where owners change. Keys are begins; bytes outside all segments are untouched.
class IntervalMap {
public:
  /// Calls visit(owners) for every segment within [begin, end).
  template <typename Visit> void visit(uint64_t begin, uint64_t end, Visit visit) {
    for (auto at = firstOverlap(begin); at != segments.end() && at->first < end; ++at)
      visit(at->second.owners);
  }

  void write(uint64_t begin, uint64_t end, Ticket writer) {
    splitAt(begin);
    splitAt(end);
    auto at = segments.erase(segments.lower_bound(begin), segments.lower_bound(end));
    segments.emplace_hint(at, begin, Segment{end, {writer, {}}});
  }

  /// `addReader(owners)` is applied to every segment within [begin, end), new ones made where nothing was.
  template <typename AddReader> void read(uint64_t begin, uint64_t end, AddReader addReader) {
    splitAt(begin);
    splitAt(end);
    auto at = segments.lower_bound(begin);
    for (uint64_t place = begin; place < end;) {
      if (at == segments.end() || at->first > place) {
        const uint64_t gapEnd = at == segments.end() ? end : std::min(end, at->first);
        at = segments.emplace_hint(at, place, Segment{gapEnd, {}});
      }
      addReader(at->second.owners);
      place = at->second.end;
      ++at;
    }
  }

private:
  struct Segment {
    uint64_t end;
    Owners owners;
  };
  std::map<uint64_t, Segment> segments;

  std::map<uint64_t, Segment>::iterator firstOverlap(uint64_t begin) {
    auto at = segments.upper_bound(begin);
    if (at != segments.begin() && std::prev(at)->second.end > begin)
      --at;
    return at;
  }

  void splitAt(uint64_t place) {
    auto at = firstOverlap(place);
    if (at == segments.end() || at->first >= place)
      return;
    Segment right = at->second;
    at->second.end = place;
    segments.emplace_hint(std::next(at), place, std::move(right));
  }
};

class Placement {
public:
  Placement(std::span<const CommandAccesses> program, uint32_t streams)
      : program(program), streams(streams), newest(streams, kNone), lastOfStream(streams, kNone) {}

  /// Walks the program once more; awaits are appended to `awaits`, by command.
  void walk(std::vector<std::vector<Await>> &awaits) {
    const Ticket base = static_cast<Ticket>(clocks.size() / streams);
    for (uint32_t command = 0; command < program.size(); ++command) {
      awaits[command].clear();
      findConflicts(program[command]);
      placeAwaits(base + command, base, awaits[command]);
      record(base + command);
    }
  }

private:
  std::span<const CommandAccesses> program;
  const uint32_t streams;
  std::vector<IntervalMap> spaces;
  /// clocks[ticket * streams + s]: one more than the newest command of stream s complete when `ticket` is; 0: none.
  std::vector<Ticket> clocks;
  std::vector<Ticket> newest;       ///< by stream: newest conflicting command of the command at hand
  std::vector<Ticket> lastOfStream; ///< by stream: last command issued
  std::vector<Ticket> candidates;

  uint32_t streamOf(Ticket ticket) const { return program[ticket % program.size()].stream; }

  IntervalMap &spaceOf(const Access &access) {
    if (access.space >= spaces.size())
      spaces.resize(access.space + 1);
    return spaces[access.space];
  }

  void addConflict(Ticket ticket) {
    if (ticket == kNone)
      return;
    Ticket &place = newest[streamOf(ticket)];
    if (place == kNone || place < ticket)
      place = ticket;
  }

  /// Streams are in order, so only the newest conflict on each of them matters.
  void findConflicts(const CommandAccesses &command) {
    std::fill(newest.begin(), newest.end(), kNone);
    for (const Access &access : command.accesses)
      spaceOf(access).visit(access.begin, access.end, [&](const Owners &owners) {
        addConflict(owners.writer);
        if (access.write)
          for (Ticket reader : owners.readers)
            addConflict(reader);
      });
    newest[command.stream] = kNone;
    candidates.clear();
    for (Ticket ticket : newest)
      if (ticket != kNone)
        candidates.push_back(ticket);
    std::sort(candidates.rbegin(), candidates.rend());
  }

  /// Newest first: an older candidate that a newer one has seen complete needs no await of its own.
  void placeAwaits(Ticket ticket, Ticket base, std::vector<Await> &awaits) {
    const uint32_t stream = streamOf(ticket);
    std::vector<Ticket> clock(streams, 0);
    if (const Ticket previous = lastOfStream[stream]; previous != kNone)
      mergeClock(clock, previous);
    for (Ticket candidate : candidates) {
      if (clock[streamOf(candidate)] > candidate)
        continue;
      const bool earlierIteration = candidate < base;
      awaits.push_back({static_cast<uint32_t>(candidate % program.size()), earlierIteration ? 1u : 0u});
      mergeClock(clock, candidate);
    }
    clock[stream] = ticket + 1;
    clocks.insert(clocks.end(), clock.begin(), clock.end());
    lastOfStream[stream] = ticket;
  }

  void mergeClock(std::vector<Ticket> &clock, Ticket other) const {
    for (uint32_t s = 0; s < streams; ++s)
      clock[s] = std::max(clock[s], clocks[size_t(other) * streams + s]);
  }

  void record(Ticket ticket) {
    const CommandAccesses &command = program[ticket % program.size()];
    for (const Access &access : command.accesses)
      if (!access.write && access.begin < access.end)
        spaceOf(access).read(access.begin, access.end, [&](Owners &owners) { addReader(owners, ticket); });
    for (const Access &access : command.accesses)
      if (access.write && access.begin < access.end)
        spaceOf(access).write(access.begin, access.end, ticket);
  }

  void addReader(Owners &owners, Ticket ticket) const {
    for (Ticket &reader : owners.readers)
      if (streamOf(reader) == streamOf(ticket)) {
        reader = ticket;
        return;
      }
    owners.readers.push_back(ticket);
  }
};

} // namespace

std::vector<std::vector<Await>> placeAwaits(std::span<const CommandAccesses> program, uint32_t streams, bool cyclic) {
  std::vector<std::vector<Await>> awaits(program.size());
  Placement placement(program, streams);
  placement.walk(awaits);
  if (cyclic)
    placement.walk(awaits);
  return awaits;
}

} // namespace mt::passes
