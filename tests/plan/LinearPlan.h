// A small plan built by hand, for tests of plan files, devices and executors: a linear layer [6, 5] without bias,
// squared error, SGD with momentum, 8 rows in 2 micro-batches. Discrete: weight, inputs and gradient cross the link on
// upload and download streams. Unified: no copies. Awaits are placed on every conflict, which needs no cleverness.
#ifndef MT_TESTS_PLAN_LINEARPLAN_H
#define MT_TESTS_PLAN_LINEARPLAN_H

#include "runtime/plan/Program.h"

namespace mt::tests {

/// Sizes of the linear plan.
struct Linear {
  static constexpr int64_t kBatch = 8, kMicroBatches = 2, kIn = 6, kOut = 5;
};

/// Valid, with programs step, finish (of no commands) and evaluate. `split`: the weight is bf16 with a remainder, and
/// widened where it is used.
plan::Plan linearPlan(bool unified, bool split = false);

} // namespace mt::tests
#endif
