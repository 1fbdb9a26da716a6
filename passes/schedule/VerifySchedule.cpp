// mt-verify-schedule: the rule of the schedule, checked by runtime/plan/VerifyHazards.h, which placement does not use.
#include "passes/schedule/ScheduleView.h"
#include "runtime/plan/VerifyHazards.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "passes/Passes.h.inc"

namespace {
struct VerifySchedule : impl::VerifyScheduleBase<VerifySchedule> {
  using VerifyScheduleBase::VerifyScheduleBase;

  static std::vector<plan::Await> awaitsOf(Operation *command) {
    std::vector<plan::Await> awaits;
    if (auto pairs = command->getAttrOfType<DenseI64ArrayAttr>("awaits"))
      for (int64_t i = 0; i + 1 < pairs.size(); i += 2)
        awaits.push_back({uint32_t(pairs[i]), uint32_t(pairs[i + 1])});
    return awaits;
  }

  static LogicalResult verify(ArrayRef<Operation *> commands, const std::vector<plan::CommandAccesses> &accesses,
                              uint32_t streams, bool cyclic) {
    std::vector<std::vector<plan::Await>> awaits;
    for (Operation *command : commands)
      awaits.push_back(awaitsOf(command));
    auto error = plan::verifyHazards(accesses, awaits, streams, cyclic);
    if (!error)
      return success();
    auto label = [&](uint32_t i) { return i < commands.size() ? schedule::labelOf(commands[i]) : "no command"; };
    return commands[error->later]->emitOpError()
           << "'" << label(error->later) << "' is not ordered after '" << label(error->earlier) << "'"
           << (error->back ? " of the previous iteration" : "") << ": " << error->message;
  }

  void runOnOperation() override {
    if (failed(passes::forEachProgram(getOperation(), verify)))
      signalPassFailure();
  }
};
} // namespace
} // namespace mt
