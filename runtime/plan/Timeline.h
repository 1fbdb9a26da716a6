// The predicted timeline of a program: when each command starts and ends if every command takes its predicted seconds,
// longer where streams slow each other down (Contention.h), streams are in order and awaits are honoured. It predicts nothing about single commands (the compiler's cost model does).
// Used by the planner, by reports, and by dumps and traces of plans.
#ifndef MT_RUNTIME_PLAN_TIMELINE_H
#define MT_RUNTIME_PLAN_TIMELINE_H

#include "runtime/plan/Program.h"

#include <span>
#include <string>
#include <vector>

namespace mt::plan {

struct TimedCommand {
  uint32_t stream = 0;
  double seconds = 0;
  std::span<const Await> awaits;
};

struct Timeline {
  /// By command, in seconds, of one iteration in the steady state; the earliest start of the iteration is 0. Iterations
  /// may overlap: a command may end after `seconds`.
  std::vector<double> start, end;
  double seconds = 0;       ///< of an iteration: the time by which consecutive iterations follow each other
  std::vector<double> busy; ///< seconds of work, by stream
  double took(size_t command) const { return end[command] - start[command]; }
};

/// Simulates a program; `cyclic` programs are run several times. Awaits must be valid.
Timeline simulate(std::span<const TimedCommand> program, std::span<const Stream> streams, const Contention &contention, bool cyclic);
/// The same for a program of a plan; `step` is cyclic.
Timeline simulate(const Plan &plan, const Program &program);

/// Seconds of a step whose gradient is clipped: speculative updates, which the prediction takes to hold, are repeated.
/// Of a plan that has none those of any step.
double clippedSeconds(const Plan &plan);

/// A stretch of time in which a stream has nothing to do: before `command`, until `awaited` ends, which was issued `back`
/// iterations before it.
struct Wait {
  uint32_t command = 0, awaited = 0, back = 0;
  double seconds = 0;
};
/// Every wait of a program in its steady state, in the order of its commands.
std::vector<Wait> waits(const Plan &plan, const Program &program, const Timeline &timeline);

/// What a stream waits for most, by label without numbers ("weights layer"): seconds of all such waits, the longest, and the
/// command before which that is. Nothing: it never waits.
struct WaitSum {
  std::string what, before;
  double seconds = 0, longest = 0;
};
/// By stream, of every wait of a program.
std::vector<WaitSum> longestWaits(const Plan &plan, const Program &program, std::span<const Wait> waits);

/// Fills the seconds and the bound of a prediction from the timeline of a step: "compute-bound", "copy-bound",
/// "host-bound", "disk-bound" or "network-bound" by the kind of the busiest stream. Flops and bytes are left alone.
void predict(const Timeline &timeline, std::span<const Stream> streams, Prediction &prediction);

} // namespace mt::plan
#endif
