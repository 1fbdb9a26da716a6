// What the planner needs to know of a module in phase `layers`: its @main and templates as planner::Model.
#ifndef MT_PASSES_SCHEDULE_READMODEL_H
#define MT_PASSES_SCHEDULE_READMODEL_H
#include "compiler/planner/Model.h"
#include "compiler/target/Target.h"
#include "passes/Passes.h"
#include "runtime/plan/Program.h"

namespace mt::passes {

struct ReadModel {
  planner::Model model;
  llvm::SmallVector<mlir::func::FuncOp> functions; ///< by template of the model
  llvm::SmallVector<mlir::func::CallOp> calls;     ///< by layer
};

/// Reads @main, whose templates were given workspaces (mt-plan-templates); seconds are those of `target`. The number of
/// micro-batches, the optimizer and clipping are not in @main: they stay as planner::Model has them. Fails with a
/// diagnostic.
mlir::FailureOr<ReadModel> readModel(mlir::ModuleOp module, const target::Target &target);

/// Tells the model what settings say of a step, of which the target's ranks share the micro-batches. Fails where an
/// optimizer is named that there is none of, or where they cannot.
Status applySettings(const plan::Settings &settings, const target::Target &target, planner::Model &model);

} // namespace mt::passes
#endif
