// Two questions, answered apart. Which commands touch the same bytes: a sweep over the addresses of each space, with
// the ranges that are open at the sweep's place. Are two of them ordered: for every command and stream, the first
// command of that stream that can only start after it, found backwards from the end over two unrolled iterations.
//
// Of a new range at the sweep's place only its nearest conflicting neighbours in issue order, before and after, on
// every other stream need a test: those beyond are ordered with the neighbours by their stream. Two iterations
// suffice: a conflict between iterations further apart is ordered through the same command one iteration on.
#include "runtime/plan/VerifyHazards.h"

#include "runtime/plan/Dump.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace mt::plan {
namespace {

std::string_view describe(HazardKind kind) {
  switch (kind) {
  case HazardKind::readAfterWrite:
    return "read after write";
  case HazardKind::writeAfterRead:
    return "write after read";
  case HazardKind::writeAfterWrite:
    return "write after write";
  case HazardKind::invalidAwait:
    return "invalid await";
  }
  return "";
}

/// For every command X of the first iteration and stream s: the least unrolled position of a command on s that starts
/// only after X is complete.
class Reachability {
public:
  Reachability(std::span<const CommandAccesses> program, std::span<const std::vector<Await>> awaits, uint32_t streams,
               bool cyclic)
      : streams(streams), size(program.size()), positions(cyclic ? 2 * size : size),
        reached(positions * streams, kNever) {
    std::vector<std::vector<uint32_t>> awaiters(positions);
    for (size_t later = 0; later < positions; ++later)
      for (const Await &await : awaits[later % size])
        if (const size_t back = size * await.back; await.command + (later / size) * size >= back)
          awaiters[await.command + (later / size) * size - back].push_back(static_cast<uint32_t>(later));
    std::vector<uint32_t> nextOnStream(streams, kNever);
    for (size_t at = positions; at-- > 0;) {
      const uint32_t stream = program[at % size].stream;
      for (uint32_t later : awaiters[at])
        follow(at, later, program[later % size].stream);
      if (nextOnStream[stream] != kNever)
        follow(at, nextOnStream[stream], stream);
      nextOnStream[stream] = static_cast<uint32_t>(at);
    }
  }

  /// Whether the command at unrolled position `later`, on `stream`, starts only after `earlier` is complete.
  bool ordered(uint32_t earlier, uint32_t later, uint32_t stream) const {
    return reached[size_t(earlier) * streams + stream] <= later;
  }

private:
  static constexpr uint32_t kNever = UINT32_MAX;
  const uint32_t streams;
  const size_t size, positions;
  std::vector<uint32_t> reached;

  void follow(size_t at, uint32_t later, uint32_t laterStream) {
    uint32_t *mine = &reached[at * streams];
    const uint32_t *theirs = &reached[size_t(later) * streams];
    for (uint32_t s = 0; s < streams; ++s)
      mine[s] = std::min(mine[s], theirs[s]);
    mine[laterStream] = std::min(mine[laterStream], later);
  }
};

/// A multiset of command indices as a sorted array with counts: open sets are small or grow in issue order.
class OpenCommands {
public:
  void add(uint32_t command) { ++counts[command]; }
  void remove(uint32_t command) {
    auto at = counts.find(command);
    if (--at->second == 0)
      counts.erase(at);
  }
  /// Nearest command before and after `command`, or the last and first of all; nothing if empty.
  std::optional<uint32_t> before(uint32_t command) const {
    auto at = counts.lower_bound(command);
    return at == counts.begin() ? std::nullopt : std::optional(std::prev(at)->first);
  }
  std::optional<uint32_t> after(uint32_t command) const {
    auto at = counts.upper_bound(command);
    return at == counts.end() ? std::nullopt : std::optional(at->first);
  }
  std::optional<uint32_t> first() const { return counts.empty() ? std::nullopt : std::optional(counts.begin()->first); }
  std::optional<uint32_t> last() const { return counts.empty() ? std::nullopt : std::optional(counts.rbegin()->first); }

private:
  std::map<uint32_t, uint32_t> counts;
};

/// One end of a range. Ends sort before begins at the same address.
struct Edge {
  uint64_t address = 0;
  bool opens = false;
  uint32_t command = 0, access = 0;
  auto operator<=>(const Edge &) const = default;
};

class Sweep {
public:
  Sweep(std::span<const CommandAccesses> program, const Reachability &reachability, uint32_t streams, bool cyclic)
      : program(program), reachability(reachability), streams(streams), cyclic(cyclic), open(streams) {}

  std::optional<HazardError> run() {
    std::map<uint32_t, std::vector<Edge>> spaces;
    for (uint32_t command = 0; command < program.size(); ++command)
      for (uint32_t i = 0; i < program[command].accesses.size(); ++i)
        if (const Access &access = program[command].accesses[i]; access.begin < access.end) {
          spaces[access.space].push_back({access.begin, true, command, i});
          spaces[access.space].push_back({access.end, false, command, i});
        }
    for (auto &[space, edges] : spaces) {
      std::sort(edges.begin(), edges.end());
      for (const Edge &edge : edges)
        cross(edge);
    }
    return worst;
  }

private:
  enum Kind { kReads = 0, kWrites = 1 };
  std::span<const CommandAccesses> program;
  const Reachability &reachability;
  const uint32_t streams;
  const bool cyclic;
  std::vector<std::array<OpenCommands, 2>> open; ///< by stream and kind
  std::optional<HazardError> worst;

  void cross(const Edge &edge) {
    const CommandAccesses &command = program[edge.command];
    const Access &access = command.accesses[edge.access];
    OpenCommands &mine = open[command.stream][access.write ? kWrites : kReads];
    if (!edge.opens)
      return mine.remove(edge.command);
    for (uint32_t stream = 0; stream < streams; ++stream) {
      if (stream == command.stream)
        continue;
      testNeighbours(edge, access, open[stream][kWrites], true);
      if (access.write)
        testNeighbours(edge, access, open[stream][kReads], false);
    }
    mine.add(edge.command);
  }

  /// Positions are unrolled: the second iteration's begin at program.size().
  void testNeighbours(const Edge &edge, const Access &access, const OpenCommands &others, bool othersWrite) {
    const uint32_t size = static_cast<uint32_t>(program.size());
    const uint32_t self = edge.command;
    if (auto earlier = others.before(self))
      test(*earlier, self, othersWrite, access.write, access, edge.address);
    else if (auto last = others.last(); last && cyclic)
      test(*last, size + self, othersWrite, access.write, access, edge.address);
    if (auto later = others.after(self))
      test(self, *later, access.write, othersWrite, access, edge.address);
    else if (auto first = others.first(); first && cyclic)
      test(self, size + *first, access.write, othersWrite, access, edge.address);
  }

  void test(uint32_t earlier, uint32_t later, bool earlierWrites, bool laterWrites, const Access &access,
            uint64_t address) {
    const uint32_t size = static_cast<uint32_t>(program.size());
    const uint32_t laterCommand = later % size;
    if (reachability.ordered(earlier, later, program[laterCommand].stream))
      return;
    HazardError error;
    error.kind = earlierWrites && laterWrites ? HazardKind::writeAfterWrite
                 : earlierWrites              ? HazardKind::readAfterWrite
                                              : HazardKind::writeAfterRead;
    error.earlier = earlier;
    error.later = laterCommand;
    error.back = later / size;
    error.span = overlap(earlier, laterCommand, earlierWrites, laterWrites, access.space, address);
    if (!worst ||
        std::tuple(error.later, error.back, error.earlier) < std::tuple(worst->later, worst->back, worst->earlier))
      worst = error;
  }

  /// The bytes from `address` on that both commands touch in these ways.
  Span overlap(uint32_t earlier, uint32_t later, bool earlierWrites, bool laterWrites, uint32_t space,
               uint64_t address) const {
    const uint64_t end =
        std::min(endAt(earlier, earlierWrites, space, address), endAt(later, laterWrites, space, address));
    return {space, address, end - address};
  }
  uint64_t endAt(uint32_t command, bool write, uint32_t space, uint64_t address) const {
    uint64_t end = address;
    for (const Access &access : program[command].accesses)
      if (access.space == space && access.write == write && access.begin <= address && address < access.end)
        end = std::max(end, access.end);
    return end;
  }
};

std::optional<HazardError> findInvalidAwait(std::span<const CommandAccesses> program,
                                            std::span<const std::vector<Await>> awaits, bool cyclic) {
  for (uint32_t command = 0; command < program.size(); ++command)
    for (const Await &await : awaits[command]) {
      const bool valid =
          await.back == 0 ? await.command < command : cyclic && await.back == 1 && await.command < program.size();
      if (!valid)
        return HazardError{HazardKind::invalidAwait,
                           await.command,
                           command,
                           await.back,
                           {},
                           fmt::format("command {} awaits command {} of {} iteration(s) back, which is not issued "
                                       "before it; the plan is damaged: compile it again",
                                       command, await.command, await.back)};
    }
  return std::nullopt;
}

std::string describe(const HazardError &error, const std::string &earlier, const std::string &later,
                     const std::string &space) {
  return fmt::format("{}: {} is not ordered after {}{}: no chain of awaits and streams leads to it, and both touch "
                     "bytes [{}, {}) of {}",
                     describe(error.kind), later, earlier, error.back ? " of the iteration before" : "",
                     error.span.offset, error.span.offset + error.span.bytes, space);
}

Status verifyProgram(const Plan &plan, const Program &program) {
  std::vector<CommandAccesses> accesses;
  std::vector<std::vector<Await>> awaits;
  for (const Command &command : program.commands) {
    accesses.push_back(accessesOf(command));
    awaits.push_back(command.awaits);
  }
  const uint32_t streams = static_cast<uint32_t>(plan.streams.size());
  auto error = verifyHazards(accesses, awaits, streams, isCyclic(program.kind));
  if (!error)
    return {};
  if (error->kind == HazardKind::invalidAwait)
    return Status::error(error->message);
  auto describeCommand = [&](uint32_t index) {
    return fmt::format("command {} ({})", index, program.commands[index].label);
  };
  return Status::error(describe(*error, describeCommand(error->earlier), describeCommand(error->later),
                                fmt::format("space {} ({})", error->span.space, plan.spaces[error->span.space].name)));
}

} // namespace

std::optional<HazardError> verifyHazards(std::span<const CommandAccesses> program,
                                         std::span<const std::vector<Await>> awaits, uint32_t streams, bool cyclic) {
  if (auto invalid = findInvalidAwait(program, awaits, cyclic))
    return invalid;
  const Reachability reachability(program, awaits, streams, cyclic);
  auto error = Sweep(program, reachability, streams, cyclic).run();
  if (error)
    error->message = describe(*error, fmt::format("command {}", error->earlier),
                              fmt::format("command {}", error->later), fmt::format("space {}", error->span.space));
  return error;
}

Status verifyPlan(const Plan &plan) {
  for (const Program &program : plan.programs)
    if (Status status = verifyProgram(plan, program); !status.ok())
      return status.within(fmt::format("hazard in program {}", name(program.kind)));
  return {};
}

} // namespace mt::plan
