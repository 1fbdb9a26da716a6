// The order of passes, and why each stands where it does.
#include "compiler/pipeline/Phases.h"

#include "mlir/Dialect/Func/Transforms/Passes.h"
#include "mlir/Transforms/Passes.h"

namespace mt::pipeline {

void addLossPasses(mlir::OpPassManager &manager, const AppendLossOptions &loss) {
  manager.addPass(mlir::createCanonicalizerPass()); // identities that exporters leave: patterns need not know them
  manager.addPass(mlir::createCSEPass());           // one value for what is computed once a block: tables, masks
  manager.addPass(createRecoverOps());              // before the loss: it looks for a head product
  manager.addPass(mlir::createCanonicalizerPass()); // transposes that recovery moved cancel
  manager.addPass(mlir::createCSEPass());
  manager.addPass(createAppendLoss(loss));
  manager.addPass(createAddAdapters()); // after the loss, which the head is one operation with
}

void addBasePasses(mlir::OpPassManager &manager, bool pack) {
  manager.addPass(createJoinWeights());
  if (pack)
    manager.addPass(createPackWeights()); // after the loss and adapters: it sees which products there are
}

void addMicroBatchPasses(mlir::OpPassManager &manager, bool narrow, int64_t batch, int64_t microBatch) {
  manager.addPass(createNumberRows());                    // needs the whole batch: micro-batches have its rows' numbers
  manager.addPass(createSplitBatch({batch, microBatch})); // needs the loss; before types and layers, which its changes are part of
  manager.addPass(createRemarkAttention());
  if (narrow)
    manager.addPass(createLowerPrecision()); // after recovery: patterns see no casts, and rules see whole operations
  manager.addPass(createFuseEpilogues());   // before layers are cut and differentiated: one operation in every rung
  manager.addPass(createVerifyLookups());   // closes the phase
}

void addLayerPasses(mlir::OpPassManager &manager, bool fuse) {
  manager.addPass(createPartitionLayers());
  manager.addPass(mlir::func::createDuplicateFunctionEliminationPass()); // equal layers become one template
  manager.addPass(mlir::createSymbolDCEPass());                          // the others go, before each is differentiated
  manager.addPass(createDifferentiate());
  manager.addPass(createStripLossTerms()); // gradients have them by now, and compute the loss again
  manager.addPass(createAddPredictions()); // of the template that has its gradient already: what predicts has none
  manager.addNestedPass<mlir::func::FuncOp>(mlir::createCSEPass()); // gradients repeat what forward computed
  manager.addPass(createFuseEpilogues());                           // what gradients left side by side
  if (fuse)
    manager.addPass(createFuseElementwise()); // what products and norms have left
  manager.addPass(createSelectKernels());                           // last: it looks at who uses what
}

void addTemplatePasses(mlir::OpPassManager &manager) {
  manager.addPass(createPlanTemplates()); // workspaces are slots of the schedule, and the planner counts them
}

void addSchedulePasses(mlir::OpPassManager &manager, const PlanMemoryOptions &memory) {
  manager.addPass(createBuildSchedule());       // after the planner has stated its decisions
  manager.addPass(mlir::createSymbolDCEPass()); // templates of rungs that were not chosen
  manager.addPass(createPlanMemory(memory));
  manager.addPass(createPlaceEvents());    // after offsets: hazards are between bytes
  manager.addPass(createVerifySchedule()); // closes the phase
}

} // namespace mt::pipeline
