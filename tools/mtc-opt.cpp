// mtc-opt: runs single passes on textual IR; how people and tests study one of them.
#include "compiler/nn/Nn.h"
#include "compiler/pipeline/Phases.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/Transforms/Passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mt::registerMtPasses();
  mlir::registerTransformsPasses();
  mlir::func::registerFuncPasses();
  mlir::PassPipelineRegistration<>("mt-nn-phase", "The passes of phase nn.", [](mlir::OpPassManager &manager) {
    mt::pipeline::addLossPasses(manager, {});
    mt::pipeline::addMicroBatchPasses(manager, false);
  });
  mlir::PassPipelineRegistration<>("mt-layers-phase", "The passes of phase layers.",
                                   [](mlir::OpPassManager &manager) { mt::pipeline::addLayerPasses(manager); });
  mlir::PassPipelineRegistration<>("mt-schedule-phase", "The passes of phase schedule, without budgets, as the module states the choices.",
                                   [](mlir::OpPassManager &manager) {
                                     mt::pipeline::addTemplatePasses(manager);
                                     mt::pipeline::addSchedulePasses(manager, {});
                                   });
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, mt::schedule::ScheduleDialect, mt::nn::NnDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "mt optimizer driver\n", registry));
}
