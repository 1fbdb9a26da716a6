// The spaces and streams that a plan has on a target, and which of them serves what: the one place where they are named.
#ifndef MT_COMPILER_PLANNER_MACHINE_H
#define MT_COMPILER_PLANNER_MACHINE_H

#include "compiler/target/CostModel.h"
#include "runtime/plan/Program.h"

#include <string>
#include <vector>

namespace mt::planner {

struct Space {
  std::string name;
  plan::SpaceKind kind = plan::SpaceKind::device;
};

struct Machine {
  explicit Machine(const target::Target &target);

  target::Target target;
  std::vector<Space> spaces;
  std::vector<plan::Stream> streams;
  uint32_t device = 0, staging = 0, state = 0; ///< spaces
  /// Streams. What carries a few bytes that others wait for does not queue behind weights and gradients: inputs and the step's
  /// scalars go up on a stream of their own, norms and the loss come down on another. The next step's batch is fed while this
  /// step's updates and report still run, so feeding has one, too. `update` is where the host updates.
  uint32_t upload = 0, messagesUp = 0, compute = 0, download = 0, messagesDown = 0, host = 0, update = 0, feed = 0;

  bool unified() const { return target.unified; }
  kernels::Backend backend() const { return target.device == "cuda" ? kernels::Backend::cuda : kernels::Backend::cpu; }
  bool isDevice(uint32_t space) const { return spaces[space].kind == plan::SpaceKind::device; }
};

} // namespace mt::planner
#endif
