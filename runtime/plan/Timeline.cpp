#include "runtime/plan/Timeline.h"

#include "kernels/Optimizers.h"
#include "runtime/plan/Contention.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <array>
#include <cmath>

namespace mt::plan {
namespace {

/// Iterations run before measuring, and iterations measured: the period of a max-plus system settles after a few.
constexpr size_t kWarmup = 3, kMeasured = 4;

class Simulation {
public:
  Simulation(std::span<const TimedCommand> program, std::span<const Stream> streams, const Contention &contention, size_t iterations)
      : program(program), underWay(streams, contention), iterations(iterations), lanes(streams.size()),
        start(iterations, std::vector<double>(program.size(), -1)), finish(start) {
    for (uint32_t i = 0; i < program.size(); ++i)
      lanes[program[i].stream].commands.push_back(i);
  }

  void run() {
    while (true) {
      for (bool any = true; any;) {
        any = false;
        for (uint32_t stream = 0; stream < lanes.size(); ++stream)
          any |= begin(stream);
      }
      if (!underWay.any())
        return;
      for (uint32_t stream : underWay.advance()) {
        Lane &lane = lanes[stream];
        finish[lane.iteration()][lane.command()] = underWay.now();
        ++lane.next;
      }
    }
  }

  /// Seconds from one iteration to the next, of those after `settled`: of the slowest stream. What an iteration ends
  /// with may be of a stream that is still catching up.
  double period(size_t settled) const {
    double most = 0;
    for (const Lane &lane : lanes)
      if (!lane.commands.empty())
        most = std::max(most, finish.back()[lane.commands.back()] - finish[settled][lane.commands.back()]);
    return most / static_cast<double>(iterations - 1 - settled);
  }
  double took(size_t iteration, size_t command) const { return finish[iteration][command] - start[iteration][command]; }
  const std::vector<double> &starts() const { return start.back(); }
  const std::vector<double> &ends() const { return finish.back(); }

private:
  /// A stream: its commands in order, over and over.
  struct Lane {
    std::vector<uint32_t> commands;
    size_t next = 0;
    size_t iteration() const { return next / commands.size(); }
    uint32_t command() const { return commands[next % commands.size()]; }
  };
  std::span<const TimedCommand> program;
  UnderWay underWay;
  const size_t iterations;
  std::vector<Lane> lanes;
  std::vector<std::vector<double>> start, finish; ///< by iteration and command; negative: not yet

  bool begin(uint32_t stream) {
    const Lane &lane = lanes[stream];
    if (underWay.isBusy(stream) || lane.commands.empty() || lane.iteration() >= iterations)
      return false;
    const size_t iteration = lane.iteration();
    const uint32_t command = lane.command();
    for (const Await &await : program[command].awaits)
      if (await.back <= iteration && finish[iteration - await.back][await.command] < 0)
        return false;
    start[iteration][command] = underWay.now();
    underWay.begin(stream, program[command].seconds);
    return true;
  }
};

} // namespace

Timeline simulate(std::span<const TimedCommand> program, std::span<const Stream> streams, const Contention &contention, bool cyclic) {
  Timeline result;
  result.busy.assign(streams.size(), 0);
  if (program.empty())
    return result;
  const size_t iterations = cyclic ? kWarmup + kMeasured : 1;
  Simulation simulation(program, streams, contention, iterations);
  simulation.run();
  result.start = simulation.starts();
  result.end = simulation.ends();
  result.seconds = cyclic ? simulation.period(kWarmup - 1) : *std::max_element(result.end.begin(), result.end.end());
  const double origin = *std::min_element(result.start.begin(), result.start.end());
  for (size_t i = 0; i < program.size(); ++i) {
    result.start[i] -= origin;
    result.end[i] -= origin;
  }
  const size_t measured = cyclic ? kMeasured : 1; // where streams share something, iterations need not be alike
  for (size_t iteration = iterations - measured; iteration < iterations; ++iteration)
    for (size_t i = 0; i < program.size(); ++i)
      result.busy[program[i].stream] += simulation.took(iteration, i) / static_cast<double>(measured);
  return result;
}

Timeline simulate(const Plan &plan, const Program &program) {
  std::vector<TimedCommand> commands;
  commands.reserve(program.commands.size());
  for (const Command &command : program.commands)
    commands.push_back({command.stream, command.predictedSeconds, command.awaits});
  return simulate(commands, plan.streams, plan.target.contention, isCyclic(program.kind));
}

double clippedSeconds(const Plan &plan) {
  using kernels::Speculation;
  const Program *step = plan.program(ProgramKind::step);
  if (!step)
    return plan.prediction.stepSeconds;
  auto speculationOf = [&](const Command &command) {
    const bool isUpdate = !command.isCopy && command.role == Role::update;
    const std::vector<Call> *calls = isUpdate ? &plan.templates[command.templateIndex].calls : nullptr;
    return calls && !calls->empty() ? kernels::speculationOf(calls->front().signature) : Speculation::none;
  };
  auto piece = [&](const Command &command) { // the first of its pieces says which they are
    const kernels::Signature &call = plan.templates[command.templateIndex].calls.front().signature;
    return std::pair(call.integer("parameter"), call.integer("first"));
  };
  // An end that repeats the update reads the undo that the begin wrote, and all that the begin did.
  std::map<std::pair<int64_t, int64_t>, double> begun;
  for (const Command &command : step->commands)
    if (speculationOf(command) == Speculation::begins)
      begun[piece(command)] = command.predictedSeconds;
  if (begun.empty())
    return plan.prediction.stepSeconds;
  std::vector<TimedCommand> commands;
  for (const Command &command : step->commands) {
    const auto found = speculationOf(command) == Speculation::ends ? begun.find(piece(command)) : begun.end();
    commands.push_back(
        {command.stream, found != begun.end() ? found->second : command.predictedSeconds, command.awaits});
  }
  return simulate(commands, plan.streams, plan.target.contention, true).seconds;
}

std::vector<Wait> waits(const Plan &plan, const Program &program, const Timeline &timeline) {
  const double period = isCyclic(program.kind) ? timeline.seconds : 0;
  const auto endOf = [&](uint32_t command, uint32_t back) {
    return timeline.end[command] - back * period;
  };
  std::vector<double> free(plan.streams.size(), isCyclic(program.kind) ? -HUGE_VAL : 0);
  if (isCyclic(program.kind))
    for (uint32_t i = 0; i < program.commands.size(); ++i)
      free[program.commands[i].stream] = endOf(i, 1);
  std::vector<Wait> found;
  for (uint32_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    Wait wait{.command = i, .seconds = timeline.start[i] - free[command.stream]};
    free[command.stream] = endOf(i, 0);
    double until = -HUGE_VAL;
    for (const Await &await : command.awaits)
      if (double end = endOf(await.command, await.back); end > until) {
        until = end;
        wait.awaited = await.command;
        wait.back = await.back;
      }
    if (wait.seconds > 1e-9 * std::max(timeline.seconds, 1e-6) && until > -HUGE_VAL)
      found.push_back(wait);
  }
  return found;
}

namespace {
/// A label without numbers: what the commands of all layers have in common.
std::string withoutNumbers(const std::string &label) {
  std::string kind, word;
  for (std::stringstream words(label); words >> word;)
    if (!std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; }))
      kind += (kind.empty() ? "" : " ") + word;
  return kind;
}
} // namespace

std::vector<WaitSum> longestWaits(const Plan &plan, const Program &program, std::span<const Wait> waits) {
  std::vector<std::map<std::string, WaitSum>> sums(plan.streams.size());
  for (const Wait &wait : waits) {
    const Command &command = program.commands[wait.command];
    const std::string what = withoutNumbers(program.commands[wait.awaited].label);
    WaitSum &sum = sums[command.stream][what];
    sum.what = what;
    sum.seconds += wait.seconds;
    if (wait.seconds > sum.longest) {
      sum.longest = wait.seconds;
      sum.before = command.label;
    }
  }
  std::vector<WaitSum> most(plan.streams.size());
  for (size_t s = 0; s < sums.size(); ++s)
    for (const auto &[what, sum] : sums[s])
      if (sum.seconds > most[s].seconds)
        most[s] = sum;
  return most;
}

void predict(const Timeline &timeline, std::span<const Stream> streams, Prediction &prediction) {
  std::array<double, kStreamKinds> busiest{};
  for (size_t i = 0; i < streams.size(); ++i) {
    double &kind = busiest[static_cast<size_t>(streams[i].kind)];
    kind = std::max(kind, timeline.busy[i]);
  }
  prediction.stepSeconds = timeline.seconds;
  prediction.uploadSeconds = busiest[static_cast<size_t>(StreamKind::upload)];
  prediction.computeSeconds = busiest[static_cast<size_t>(StreamKind::compute)];
  prediction.downloadSeconds = busiest[static_cast<size_t>(StreamKind::download)];
  prediction.hostSeconds = busiest[static_cast<size_t>(StreamKind::host)];
  prediction.diskSeconds =
      std::max(busiest[static_cast<size_t>(StreamKind::read)], busiest[static_cast<size_t>(StreamKind::write)]);
  prediction.networkSeconds = std::max(busiest[static_cast<size_t>(StreamKind::network)],
                                       busiest[static_cast<size_t>(StreamKind::deviceNetwork)]);
  const double copy = std::max(prediction.uploadSeconds, prediction.downloadSeconds);
  const double most = std::max(
      {copy, prediction.computeSeconds, prediction.hostSeconds, prediction.diskSeconds, prediction.networkSeconds});
  prediction.bound = prediction.computeSeconds == most ? "compute-bound"
                     : copy == most                    ? "copy-bound"
                     : prediction.hostSeconds == most  ? "host-bound"
                     : prediction.diskSeconds == most  ? "disk-bound"
                                                       : "network-bound";
}

} // namespace mt::plan
