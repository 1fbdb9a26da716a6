// The trace of a run: when each command was predicted to run and when it did, side by side, in Chrome's trace event
// format (one process of measured and one of planned rows, a row a stream), with the table of kernel calls. Keeps the
// first kMaxCommands commands of a run. Private to the executor.
#ifndef MT_RUNTIME_EXECUTOR_TRACE_H
#define MT_RUNTIME_EXECUTOR_TRACE_H

#include "runtime/device/Device.h"
#include "runtime/executor/CallTable.h"
#include "runtime/executor/Overlap.h"
#include "runtime/plan/Program.h"
#include "runtime/plan/Timeline.h"

#include <map>
#include <string>
#include <vector>

namespace mt::executor {

class Trace {
public:
  static constexpr uint64_t kMaxCommands = 1 << 20;

  explicit Trace(const plan::Plan &plan) : plan(plan), calls(plan), busy(plan.streams.size()) {}

  /// A further iteration of a program; `drained`: nothing was under way before it. Its command i carries the number
  /// that is returned plus i.
  uint64_t begin(plan::ProgramKind program, bool drained);
  void add(const std::vector<device::Measured> &measured);
  void add(const std::vector<device::CallTimes> &times) { calls.add(times); }

  /// Seconds that a stream spent on commands.
  double busySeconds(uint32_t stream) const { return busy[stream]; }
  /// Of the steps measured, not of evaluations.
  Shares overlap() const;
  const CallTable &callTable() const { return calls; }
  std::string json() const;

private:
  struct Iteration {
    const plan::Program *program;
    uint64_t first;  ///< number of its first command
    uint64_t place;  ///< how many iterations of it ran before it since the last drain
    uint64_t origin; ///< number of the first command after the last drain
  };
  const plan::Plan &plan;
  CallTable calls;
  std::vector<Iteration> iterations;
  std::vector<device::Measured> measured;
  std::vector<double> busy;
  uint64_t next = 0;

  const Iteration &iterationOf(uint64_t number) const;
  std::map<uint64_t, double> origins() const;
};

} // namespace mt::executor
#endif
