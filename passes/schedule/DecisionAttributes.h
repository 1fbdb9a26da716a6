// The planner's decisions (Decisions.h) as attributes: of a layer on its call in @main (`mt.saved`, `mt.kept`, ...), of
// the step on the module (`mt.limits`, `mt.batch_shared`, ...). A saved file gives the same plan because they are in
// it.
#ifndef MT_PASSES_SCHEDULE_DECISIONATTRIBUTES_H
#define MT_PASSES_SCHEDULE_DECISIONATTRIBUTES_H
#include "compiler/planner/Decisions.h"
#include "passes/schedule/ReadModel.h"

namespace mt::passes {

/// Whether the module states decisions.
bool hasDecisions(mlir::ModuleOp module);
/// What the module states; a layer that states nothing is as in planner::leastMemory. Fails with a diagnostic on a call
/// whose layer has no such rung or result.
mlir::FailureOr<planner::Decisions> readDecisions(mlir::ModuleOp module, const ReadModel &read);
void stateDecisions(mlir::ModuleOp module, const ReadModel &read, const planner::Decisions &decisions);

} // namespace mt::passes
#endif
