// mt-build-schedule: the pass around ScheduleBuilder.
#include "compiler/nn/KernelCall.h"
#include "kernels/Optimizers.h"
#include "passes/ScheduleBuilder.h"
#include "passes/Settings.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "passes/Passes.h.inc"

namespace {
struct BuildSchedule : impl::BuildScheduleBase<BuildSchedule> {
  using BuildScheduleBase::BuildScheduleBase;

  LogicalResult build() {
    ModuleOp module = getOperation();
    auto where = chooseTarget();
    if (failed(where))
      return failure();
    plan::Settings settings = choose();
    auto model = passes::readLayerModel(module, settings.savedActivations);
    if (failed(model))
      return failure();
    settings.microBatch = model->microBatch;
    if (settings.batch == 0)
      settings.batch = model->microBatch;
    if (failed(check(settings)))
      return failure();
    passes::CommandWriter writer(module, *where);
    passes::ScheduleBuilder(module, *model, settings, writer).build();
    passes::stateSettings(module, settings);
    passes::stateTarget(module, *where);
    return success();
  }

  /// An option that was given, else what the module states, else the option's default.
  plan::Settings choose() {
    plan::Settings settings;
    auto take = [&](bool onlyGiven) {
      auto set = [&](auto &option, auto &setting) {
        if (!onlyGiven || option.hasValue())
          setting = option.getValue();
      };
      set(batch, settings.batch), set(rung, settings.savedActivations), set(resident, settings.resident);
      set(park, settings.park), set(distance, settings.prefetchDistance), set(clip, settings.clip);
      set(optimizer, settings.optimizer);
    };
    take(false);
    passes::readSettings(getOperation(), settings);
    take(true);
    return settings;
  }

  LogicalResult check(const plan::Settings &settings) {
    if (settings.batch < 1 || settings.batch % settings.microBatch)
      return getOperation().emitError() << "a batch of " << settings.batch << " rows is no multiple of the micro-batch of "
                                        << settings.microBatch;
    if (!llvm::is_contained(kernels::optimizers(), settings.optimizer))
      return getOperation().emitError() << "optimizer '" << settings.optimizer << "': must be " << kernels::optimizerList();
    if (settings.prefetchDistance < 0)
      return getOperation().emitError() << "prefetch distance " << settings.prefetchDistance << ": must not be negative";
    return success();
  }

  /// Templates' workspaces were planned for the kind of device that the module states: another kind is refused.
  FailureOr<target::Target> chooseTarget() {
    ModuleOp module = getOperation();
    bool stated = bool(module->getAttr(nn::kTargetAttr));
    if (stated && !target.hasValue())
      return passes::readTarget(module);
    auto found = target::findTarget(target);
    if (!found.ok())
      return module.emitError() << found.status().message();
    kernels::Backend planned = nn::backendOf(module);
    passes::stateTarget(module, *found);
    if (nn::backendOf(module) != planned)
      return module.emitError() << "target '" << found->name << "' is for " << found->device << ", and the workspaces of the "
                                << "templates were planned for another device; compile with --target " << found->name;
    return std::move(*found);
  }

  void runOnOperation() override {
    if (failed(build()))
      signalPassFailure();
  }
};
} // namespace
} // namespace mt
