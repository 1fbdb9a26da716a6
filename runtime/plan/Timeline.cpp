#include "runtime/plan/Timeline.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <array>
#include <cmath>

namespace mt::plan {
namespace {

/// Iterations run before measuring, and iterations measured: the period of a max-plus system settles after a few.
constexpr size_t kWarmup = 3, kMeasured = 4;

/// Runs one iteration: fills start and finish from the finish times of the iteration before and of the streams.
void runIteration(std::span<const TimedCommand> program, const std::vector<double> &before, std::vector<double> &free,
                  std::vector<double> &start, std::vector<double> &finish) {
  for (size_t i = 0; i < program.size(); ++i) {
    double ready = free[program[i].stream];
    for (const Await &await : program[i].awaits)
      if (await.back == 0)
        ready = std::max(ready, finish[await.command]);
      else if (!before.empty())
        ready = std::max(ready, before[await.command]);
    start[i] = ready;
    finish[i] = free[program[i].stream] = ready + program[i].seconds;
  }
}

double greatest(const std::vector<double> &values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

} // namespace

Timeline simulate(std::span<const TimedCommand> program, uint32_t streams, bool cyclic) {
  Timeline result;
  result.start.resize(program.size());
  result.busy.assign(streams, 0);
  for (const TimedCommand &command : program)
    result.busy[command.stream] += command.seconds;
  std::vector<double> before, finish(program.size()), free(streams, 0);
  double measuredFrom = 0;
  const size_t iterations = cyclic ? kWarmup + kMeasured : 1;
  for (size_t i = 0; i < iterations; ++i) {
    runIteration(program, before, free, result.start, finish);
    before = finish;
    if (i + 1 == kWarmup)
      measuredFrom = greatest(finish);
  }
  result.seconds = cyclic ? (greatest(finish) - measuredFrom) / kMeasured : greatest(finish);
  if (!program.empty()) {
    const double origin = *std::min_element(result.start.begin(), result.start.end());
    for (double &start : result.start)
      start -= origin;
  }
  return result;
}

Timeline simulate(const Plan &plan, const Program &program) {
  std::vector<TimedCommand> commands;
  commands.reserve(program.commands.size());
  for (const Command &command : program.commands)
    commands.push_back({command.stream, command.predictedSeconds, command.awaits});
  return simulate(commands, static_cast<uint32_t>(plan.streams.size()), isCyclic(program.kind));
}

std::vector<Wait> waits(const Plan &plan, const Program &program, const Timeline &timeline) {
  const double period = isCyclic(program.kind) ? timeline.seconds : 0;
  const auto endOf = [&](uint32_t command, uint32_t back) {
    return timeline.start[command] + program.commands[command].predictedSeconds - back * period;
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
  std::array<double, 4> busiest{};
  for (size_t i = 0; i < streams.size(); ++i) {
    double &kind = busiest[static_cast<size_t>(streams[i].kind)];
    kind = std::max(kind, timeline.busy[i]);
  }
  prediction.stepSeconds = timeline.seconds;
  prediction.uploadSeconds = busiest[static_cast<size_t>(StreamKind::upload)];
  prediction.computeSeconds = busiest[static_cast<size_t>(StreamKind::compute)];
  prediction.downloadSeconds = busiest[static_cast<size_t>(StreamKind::download)];
  prediction.hostSeconds = busiest[static_cast<size_t>(StreamKind::host)];
  const double copy = std::max(prediction.uploadSeconds, prediction.downloadSeconds);
  prediction.bound = prediction.computeSeconds >= std::max(copy, prediction.hostSeconds) ? "compute-bound"
                     : copy >= prediction.hostSeconds                                    ? "copy-bound"
                                                                                         : "host-bound";
}

} // namespace mt::plan
