// Sums over the micro-batches of a step (nn.step_sum) and what they are computed from, outlined to a function of their
// own that runs before all layers: its results add up over the micro-batches. Part of mt-partition-layers.
#ifndef MT_PASSES_NN_STEPSUMS_H
#define MT_PASSES_NN_STEPSUMS_H
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt::passes {

/// Copies what all nn.step_sum of `main` depend on into `@step_sums`, and puts its call, which carries `nn.step_sums`, at
/// the start of `main`. Does nothing where there are none.
void outlineStepSums(mlir::func::FuncOp main);

} // namespace mt::passes
#endif
