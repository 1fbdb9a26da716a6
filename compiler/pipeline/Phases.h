// The passes in order, phase by phase; shared by mtc and mtc-opt.
#ifndef MT_COMPILER_PIPELINE_PHASES_H
#define MT_COMPILER_PIPELINE_PHASES_H
#include "passes/Passes.h"
#include "mlir/Pass/PassManager.h"

namespace mt::pipeline {

/// From the importer's module to recovered operations and the loss of a batch of `batch` rows (0: the module's own);
/// `narrow`: with the types of bf16 training.
void addNnPasses(mlir::OpPassManager &manager, const std::string &loss, bool narrow, int64_t batch = 0);
/// To templates of layers and their gradients, fitted to kernels.
void addLayerPasses(mlir::OpPassManager &manager);
/// To placed and verified commands, as the module states the choices (passes/Settings.h).
void addSchedulePasses(mlir::OpPassManager &manager, const PlanMemoryOptions &memory);
/// The same without awaits: enough to know bytes and busy times, for the planner's search.
void addSearchPasses(mlir::OpPassManager &manager, const PlanMemoryOptions &memory);

} // namespace mt::pipeline
#endif
