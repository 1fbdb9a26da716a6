// mt-verify-schedule: the rule of the schedule, checked by runtime/plan/VerifyHazards.h, which placement does not use,
// and what slots hold, by passes/algorithms/VerifyContents.h.
#include "passes/algorithms/VerifyContents.h"
#include "passes/schedule/ScheduleView.h"
#include "runtime/plan/VerifyHazards.h"

#include "llvm/ADT/MapVector.h"

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

  /// Of what all ranks gather, the bytes that the first one has before, by operand; empty: the command is no such
  /// exchange.
  static SmallVector<int64_t> ownBytes(Operation *command) {
    SmallVector<int64_t> bytes;
    auto compute = dyn_cast<schedule::ComputeOp>(command);
    if (!compute || compute.getKernel() != "all_gather")
      return bytes;
    auto settings = compute->getAttrOfType<DictionaryAttr>("settings");
    auto shares = settings ? settings.getAs<DenseI64ArrayAttr>("shares") : DenseI64ArrayAttr();
    if (!shares || !compute.getTypes() || shares.size() != static_cast<int64_t>(compute.getOperands().size()))
      return bytes;
    for (auto [share, type] : llvm::zip(shares.asArrayRef(), compute.getTypes()->getAsValueRange<TypeAttr>()))
      bytes.push_back(share * cast<ShapedType>(type).getElementTypeBitWidth() / 8);
    return bytes;
  }

  /// What of slots the commands of a program touch, as a run of the first rank does.
  static passes::Touches touchesOf(ArrayRef<Operation *> commands, const passes::Declarations &declarations,
                                   llvm::MapVector<Operation *, uint32_t> &slots) {
    passes::Touches touches;
    for (Operation *command : commands) {
      std::vector<passes::Touch> &list = touches.emplace_back();
      const SmallVector<int64_t> own = ownBytes(command);
      for (auto [i, access] : llvm::enumerate(schedule::accessesOf(command))) {
        schedule::SlotOp slot = access.slot;
        const uint32_t number = slots.insert({slot, uint32_t(slots.size())}).first->second;
        const uint64_t begin = *slot.getOffset() + access.offset;
        const uint32_t space = declarations.spaces.lookup(cast<schedule::SlotType>(slot.getType()).getSpace());
        const bool reads = access.effect != schedule::Effect::write;
        list.push_back({number, space, begin, begin + access.bytes, reads && own.empty(), access.writes()});
        if (!own.empty())
          list.push_back({number, space, begin, begin + own[i], true, false});
      }
    }
    return touches;
  }

  /// What is kept is there all along. A step uses what the one before left to it, and finish what the last did.
  LogicalResult verifySlots() {
    func::FuncOp function = passes::findSchedule(getOperation());
    auto declarations = passes::readDeclarations(getOperation());
    if (!function || failed(declarations))
      return failure();
    llvm::MapVector<Operation *, uint32_t> slots;
    std::vector<passes::Touches> touches{{{}}};
    for (auto slot : function.front().getOps<schedule::SlotOp>())
      if (slot.getPersistent() && slot.getOffset()) {
        const auto type = cast<schedule::SlotType>(slot.getType());
        const uint64_t begin = *slot.getOffset();
        touches.front().front().push_back({slots.insert({slot, uint32_t(slots.size())}).first->second,
                                           declarations->spaces.lookup(type.getSpace()), begin, begin + type.getBytes(),
                                           false, true});
      }
    SmallVector<Operation *> commands{nullptr}; // what is kept
    using enum schedule::Program;
    for (schedule::Program program : {load, step, step, finish, evaluate, store}) {
      SmallVector<Operation *> some = schedule::commandsOf(function, program);
      touches.push_back(touchesOf(some, *declarations, slots));
      commands.append(some);
    }
    touches.push_back(touches.front()); // and read at last
    for (passes::Touch &touch : touches.back().front())
      std::swap(touch.reads, touch.writes);
    commands.push_back(nullptr);
    std::vector<const passes::Touches *> all;
    for (const passes::Touches &each : touches)
      all.push_back(&each);
    auto error = passes::verifyContents(all);
    if (!error)
      return success();
    auto slot = cast<schedule::SlotOp>((slots.begin() + error->slot)->first);
    Operation *reader = commands[error->reader], *writer = commands[error->writer];
    auto name = [](Operation *command) {
      return command ? "'" + schedule::labelOf(command).str() + "'" : "what is kept";
    };
    return (reader ? reader : slot.getOperation())->emitOpError()
           << name(reader) << " reads bytes [" << error->begin << ", " << error->end << ") of slot '" << slot.getName()
           << "', which " << name(writer) << " has written over";
  }

  void runOnOperation() override {
    if (failed(passes::forEachProgram(getOperation(), verify)) || failed(verifySlots()))
      signalPassFailure();
  }
};
} // namespace
} // namespace mt
