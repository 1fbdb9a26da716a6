#include "runtime/executor/Rehearsal.h"

#include "runtime/device/rehearsal/RehearsalDevice.h"
#include "runtime/executor/Executor.h"
#include "runtime/plan/Timeline.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace mt::executor {
namespace {

/// Steps before the steady state.
constexpr int64_t kFirst = 2;
/// Commands that take nothing: enough of them that what they take can be told.
constexpr int64_t kEmptyCommands = 100'000;

Result<double> secondsOf(Executor &executor, int64_t steps) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < steps; ++i)
    MT_TRY(executor.run(plan::ProgramKind::step));
  MT_TRY(executor.drain());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Seconds of a step among others: without those that it takes to fill the streams and to empty them.
Result<double> periodOf(const plan::Plan &plan, double pace, int64_t steps, const std::string &tracePath) {
  ExecutorOptions options;
  options.tracePath = tracePath;
  MT_ASSIGN(auto executor, Executor::create(plan, device::makeRehearsalDevice({pace, !tracePath.empty()}), options, {}));
  MT_ASSIGN(double few, secondsOf(*executor, kFirst));
  MT_ASSIGN(double all, secondsOf(*executor, kFirst + steps));
  if (!tracePath.empty())
    MT_TRY(executor->writeTrace());
  return (all - few) / static_cast<double>(steps);
}

/// The same plan, in which every command takes as long as it is predicted to beside the others.
plan::Plan besideOthers(plan::Plan plan) {
  for (plan::Program &program : plan.programs) {
    const plan::Timeline timeline = plan::simulate(plan, program);
    for (size_t i = 0; i < program.commands.size(); ++i)
      program.commands[i].predictedSeconds = timeline.took(i);
  }
  plan.target.contention = {};
  return plan;
}
} // namespace

Result<Rehearsed> rehearse(const plan::Plan &compiled, int64_t steps, const std::string &tracePath) {
  const plan::Plan plan = besideOthers(compiled);
  const plan::Program *step = plan.program(plan::ProgramKind::step);
  if (!step || step->commands.empty())
    return fail("the plan has no step: compile the model again with this version of mtc");
  Rehearsed result;
  result.commands = step->commands.size();
  MT_ASSIGN(result.stepSeconds, periodOf(plan, 1, steps, tracePath));
  std::array<double, 3> tries;
  for (double &empty : tries) {
    MT_ASSIGN(empty, periodOf(plan, 0, kEmptyCommands / static_cast<int64_t>(result.commands) + 1, ""));
  }
  std::ranges::sort(tries);
  result.overheadSeconds = tries[1] / static_cast<double>(result.commands);
  return result;
}

} // namespace mt::executor
