// mt-place-events: the awaits of every command, by Hazards.h.
#include "passes/algorithms/Hazards.h"
#include "passes/schedule/ScheduleView.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_PLACEEVENTS
#include "passes/Passes.h.inc"

namespace {
struct PlaceEvents : impl::PlaceEventsBase<PlaceEvents> {
  using PlaceEventsBase::PlaceEventsBase;

  static LogicalResult place(ArrayRef<Operation *> commands, const std::vector<plan::CommandAccesses> &accesses,
                             uint32_t streams, bool cyclic) {
    for (auto [command, list] : llvm::zip(commands, passes::placeAwaits(accesses, streams, cyclic))) {
      SmallVector<int64_t> pairs;
      for (plan::Await await : list)
        pairs.append({int64_t(await.command), int64_t(await.back)});
      if (pairs.empty())
        command->removeAttr("awaits");
      else
        command->setAttr("awaits", DenseI64ArrayAttr::get(command->getContext(), pairs));
    }
    return success();
  }

  void runOnOperation() override {
    if (failed(passes::forEachProgram(getOperation(), place)))
      signalPassFailure();
  }
};
} // namespace
} // namespace mt
