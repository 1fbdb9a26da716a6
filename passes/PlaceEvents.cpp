// mt-place-events: the awaits of every command, by Hazards.h.
#include "passes/Hazards.h"
#include "passes/ScheduleView.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_PLACEEVENTS
#include "passes/Passes.h.inc"

namespace {
struct PlaceEvents : impl::PlaceEventsBase<PlaceEvents> {
  using PlaceEventsBase::PlaceEventsBase;

  LogicalResult place(ArrayRef<Operation *> commands, const passes::Declarations &declarations, bool cyclic) {
    auto accesses = passes::placedAccesses(commands, declarations);
    if (failed(accesses))
      return failure();
    auto awaits = passes::placeAwaits(*accesses, declarations.streams, cyclic);
    Builder builder(&getContext());
    for (auto [command, list] : llvm::zip(commands, awaits)) {
      SmallVector<int64_t> pairs;
      for (plan::Await await : list)
        pairs.append({int64_t(await.command), int64_t(await.back)});
      if (pairs.empty())
        command->removeAttr("awaits");
      else
        command->setAttr("awaits", builder.getDenseI64ArrayAttr(pairs));
    }
    return success();
  }

  void runOnOperation() override {
    func::FuncOp function = passes::findSchedule(getOperation());
    auto declarations = passes::readDeclarations(getOperation());
    if (!function || failed(declarations))
      return signalPassFailure();
    for (schedule::Program program : passes::kPrograms)
      if (failed(place(schedule::commandsOf(function, program), *declarations, program == schedule::Program::step)))
        return signalPassFailure();
  }
};
} // namespace
} // namespace mt
