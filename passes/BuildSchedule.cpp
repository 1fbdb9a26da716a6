// mt-build-schedule: the pass around ScheduleBuilder.
#include "passes/ScheduleBuilder.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "passes/Passes.h.inc"

namespace {
struct BuildSchedule : impl::BuildScheduleBase<BuildSchedule> {
  using BuildScheduleBase::BuildScheduleBase;

  LogicalResult build() {
    ModuleOp module = getOperation();
    auto found = target::findTarget(target);
    if (!found.ok())
      return module.emitError() << found.status().message();
    auto model = passes::readLayerModel(module, rung);
    if (failed(model))
      return failure();
    int64_t rows = batch > 0 ? int64_t(batch) : model->microBatch;
    if (rows % model->microBatch)
      return module.emitError() << "a batch of " << rows << " rows is no multiple of the micro-batch of " << model->microBatch;
    if (optimizer != "adamw" && optimizer != "sgd")
      return module.emitError() << "optimizer '" << optimizer << "': must be adamw or sgd";
    if (distance < 0)
      return module.emitError() << "prefetch distance " << int64_t(distance) << ": must not be negative";
    passes::ScheduleOptions options{rows / model->microBatch, distance, resident, park, clip, optimizer};
    passes::CommandWriter writer(module, *found);
    passes::ScheduleBuilder(module, *model, options, writer).build();
    return success();
  }

  void runOnOperation() override {
    if (failed(build()))
      signalPassFailure();
  }
};
} // namespace
} // namespace mt
