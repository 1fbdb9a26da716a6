// mt-verify-schedule: the rule of the schedule, checked by runtime/plan/VerifyHazards.h, which placement does not use.
#include "passes/ScheduleView.h"
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

  LogicalResult verify(ArrayRef<Operation *> commands, const passes::Declarations &declarations, bool cyclic) {
    auto accesses = passes::placedAccesses(commands, declarations);
    if (failed(accesses))
      return failure();
    std::vector<std::vector<plan::Await>> awaits;
    for (Operation *command : commands)
      awaits.push_back(awaitsOf(command));
    auto error = plan::verifyHazards(*accesses, awaits, declarations.streams, cyclic);
    if (!error)
      return success();
    auto label = [&](uint32_t i) { return i < commands.size() ? schedule::labelOf(commands[i]) : "no command"; };
    return commands[error->later]->emitOpError()
           << "'" << label(error->later) << "' is not ordered after '" << label(error->earlier) << "'"
           << (error->back ? " of the previous iteration" : "") << ": " << error->message;
  }

  void runOnOperation() override {
    func::FuncOp function = passes::findSchedule(getOperation());
    auto declarations = passes::readDeclarations(getOperation());
    if (!function || failed(declarations))
      return signalPassFailure();
    for (schedule::Program program : passes::kPrograms)
      if (failed(verify(schedule::commandsOf(function, program), *declarations, program == schedule::Program::step)))
        return signalPassFailure();
  }
};
} // namespace
} // namespace mt
