// What a plan says beside its commands - the model, the user's settings, where initial weights are - as attributes of
// the module, so that the plan is a function of the IR: a saved schedule gives the identical plan.
#ifndef MT_COMPILER_PLAN_PLANATTRIBUTES_H
#define MT_COMPILER_PLAN_PLANATTRIBUTES_H
#include "mlir/IR/BuiltinOps.h"
#include "runtime/plan/Program.h"

namespace mt {

/// Writes `mt.model`, `mt.settings`, `mt.target` and `mt.parameters` (names, dims and initial values; one entry for each
/// parameter argument of @main, in order) on `module`.
void setPlanAttributes(mlir::ModuleOp module, const plan::Plan &described);
/// Reads them into the fields of a plan that setPlanAttributes took them from. Fails with a diagnostic.
llvm::LogicalResult readPlanAttributes(mlir::ModuleOp module, plan::Plan &plan);

} // namespace mt
#endif
