// From a verified schedule to a plan: the only place that sees both MLIR and the plan's format.
#ifndef MT_COMPILER_PLAN_EMITPLAN_H
#define MT_COMPILER_PLAN_EMITPLAN_H
#include "mlir/IR/BuiltinOps.h"
#include "runtime/plan/Program.h"

namespace mt {

/// The plan of a module after mt-verify-schedule, with the attributes of PlanAttributes.h. Fails with a diagnostic.
/// `producer` names the program and version that writes it.
llvm::FailureOr<plan::Plan> emitPlan(mlir::ModuleOp module, const std::string &producer);

} // namespace mt
#endif
