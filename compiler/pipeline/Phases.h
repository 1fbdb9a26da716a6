// The passes in order, phase by phase; shared by mtc and mtc-opt.
#ifndef MT_COMPILER_PIPELINE_PHASES_H
#define MT_COMPILER_PIPELINE_PHASES_H
#include "passes/Passes.h"
#include "mlir/Pass/PassManager.h"

namespace mt::pipeline {

/// From the importer's module, of a whole batch, to recovered operations and the loss.
void addLossPasses(mlir::OpPassManager &manager, const AppendLossOptions &loss);
/// Frozen parameters as a plan holds them, once it is known who uses them: several as one, and packed if `pack`.
void addBasePasses(mlir::OpPassManager &manager, bool pack);
/// To micro-batches of `microBatch` of `batch` rows (0: as many as the module has); `narrow`: with the types of bf16
/// training.
void addMicroBatchPasses(mlir::OpPassManager &manager, bool narrow, int64_t batch = 0, int64_t microBatch = 0);
/// To templates of layers and their gradients, fitted to kernels; `fuse`: with chains of elementwise operations as one.
void addLayerPasses(mlir::OpPassManager &manager, bool fuse = true);
/// What the planner counts of templates: their workspaces.
void addTemplatePasses(mlir::OpPassManager &manager);
/// To placed and verified commands, as the module states the choices (passes/Settings.h) and decisions
/// (passes/schedule/DecisionAttributes.h).
void addSchedulePasses(mlir::OpPassManager &manager, const PlanMemoryOptions &memory);

} // namespace mt::pipeline
#endif
