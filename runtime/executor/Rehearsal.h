// A plan's step, executed without memory, kernels or data: every command takes its predicted time (device/rehearsal). What
// the executor delivers of the predicted timeline, and what it costs.
#ifndef MT_RUNTIME_EXECUTOR_REHEARSAL_H
#define MT_RUNTIME_EXECUTOR_REHEARSAL_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <string>

namespace mt::network {
class Network;
}

namespace mt::executor {

struct Rehearsed {
  double stepSeconds = 0;     ///< from one step to the next, in the steady state
  double overheadSeconds = 0; ///< of a command: of steps whose commands take no time
  size_t commands = 0;        ///< of a step
};

/// Runs `steps` steps, and as many again whose commands take no time. With a path, the first are traced there. With a
/// network all ranks of the plan rehearse, and send each other messages of the size of the plan's; without one a plan
/// of several ranks is rehearsed as one of them, and what they exchange takes its predicted time.
Result<Rehearsed> rehearse(const plan::Plan &plan, int64_t steps, const std::string &tracePath,
                           network::Network *network = nullptr);

} // namespace mt::executor
#endif
