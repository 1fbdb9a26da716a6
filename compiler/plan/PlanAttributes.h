// What a plan says beside its commands - the model, where initial weights are, and what was chosen (passes/Settings.h) -
// as attributes of the module, so that the plan is a function of the IR: a saved schedule gives the identical plan.
#ifndef MT_COMPILER_PLAN_PLANATTRIBUTES_H
#define MT_COMPILER_PLAN_PLANATTRIBUTES_H
#include "mlir/IR/BuiltinOps.h"
#include "runtime/plan/Program.h"

namespace mt {

/// Writes `mt.model` and `mt.parameters` (names and initial values; one entry for each parameter argument of @main, in
/// order) on `module`.
void setPlanAttributes(mlir::ModuleOp module, const plan::Plan &described);
/// Reads them into the fields of a plan that setPlanAttributes took them from, and what was chosen. Fails with a
/// diagnostic.
llvm::LogicalResult readPlanAttributes(mlir::ModuleOp module, plan::Plan &plan);

} // namespace mt
#endif
