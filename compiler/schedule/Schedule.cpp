// Registration and verification of the schedule dialect, and the accesses of its commands.
#include "compiler/schedule/Schedule.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mt::schedule;

#include "compiler/schedule/ScheduleDialect.cpp.inc"
#include "compiler/schedule/ScheduleEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/schedule/ScheduleTypes.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/schedule/ScheduleOps.cpp.inc"

void ScheduleDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/schedule/ScheduleTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/schedule/ScheduleOps.cpp.inc"
      >();
}

bool mt::schedule::isCommand(Operation *op) { return isa<PrefetchOp, OffloadOp, ComputeOp, UpdateOp>(op); }

int64_t mt::schedule::bytesOf(Type type) {
  auto tensor = cast<ShapedType>(type);
  return tensor.getNumElements() * llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
}

namespace {
SlotOp slotOf(Value value) { return value.getDefiningOp<SlotOp>(); }
int64_t slotBytes(Value value) { return cast<SlotType>(value.getType()).getBytes(); }

template <typename Op> LogicalResult verifyCopy(Op op) {
  if (op.getBytes() <= 0 || op.getSourceOffset() < 0 || op.getTargetOffset() < 0 ||
      op.getSourceOffset() + op.getBytes() > static_cast<uint64_t>(slotBytes(op.getSource())) ||
      op.getTargetOffset() + op.getBytes() > static_cast<uint64_t>(slotBytes(op.getTarget())))
    return op.emitOpError() << "copies " << op.getBytes() << " bytes that do not lie in both slots";
  if (cast<SlotType>(op.getSource().getType()).getSpace() == cast<SlotType>(op.getTarget().getType()).getSpace())
    return op.emitOpError("must copy between two spaces");
  return success();
}

/// Types of the tensors that operands bind: of a template's arguments and results, or as listed; a workspace has none.
template <typename Op> SmallVector<Type> operandTypes(Op op) {
  if (op.getTypes())
    return llvm::to_vector(op.getTypes()->template getAsValueRange<TypeAttr>());
  auto callee = op.getCallee() ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr()) : nullptr;
  SmallVector<Type> types;
  if (callee) {
    llvm::append_range(types, callee.getArgumentTypes());
    llvm::append_range(types, callee.getResultTypes());
  }
  return types;
}

template <typename Op> LogicalResult verifyRun(Op op) {
  size_t count = op.getOperands().size();
  if (op.getOffsets().size() != count || op.getEffects().size() != count)
    return op.emitOpError("needs an offset and an effect for each operand");
  if (!op.getCallee() == !op.getKernel())
    return op.emitOpError("runs either a template or a kernel");
  size_t typed = op.getTypes() ? op.getTypes()->size() : 0;
  if (op.getKernel() && (typed == 0 || typed > count || count > typed + 1 || op.getGroups() < 1 || typed % op.getGroups()))
    return op.emitOpError("needs a type for each operand of its kernels, and as many operands for each");
  for (const auto &list : {op.getParameters(), op.getFirsts()})
    if (list && int64_t(list->size()) != int64_t(op.getGroups()))
      return op.emitOpError("needs a parameter, and a first element if any, for each group");
  const auto places = op.getRankPlaces();
  if (places && places->size() != 2 * count)
    return op.emitOpError("needs a pair of places of ranks for each operand");
  SmallVector<Type> types = operandTypes(op);
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    int64_t bytes = i < types.size() ? bytesOf(types[i]) : 0;
    if (places && ((*places)[2 * i] < 0 || (*places)[2 * i + 1] < (*places)[2 * i]))
      return op.emitOpError() << "operand " << i << " is not at such places on ranks";
    bytes += places ? (*places)[2 * i + 1] : 0;
    if (op.getOffsets()[i] < 0 || op.getOffsets()[i] + bytes > slotBytes(value))
      return op.emitOpError() << "operand " << i << " does not lie in its slot";
    if (op.getEffects()[i] < 0 || op.getEffects()[i] > 3)
      return op.emitOpError() << "operand " << i << " has no such effect";
  }
  return success();
}

template <typename Op> LogicalResult verifyCallee(Op op, SymbolTableCollection &symbols) {
  if (op.getCallee() && !symbols.lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr()))
    return op.emitOpError() << "names no layer template '" << *op.getCallee() << "'";
  return success();
}

template <typename Op> void addRun(Op op, SmallVectorImpl<Access> &accesses) {
  SmallVector<Type> types = operandTypes(op);
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    int64_t bytes = i < types.size() ? bytesOf(types[i]) : slotBytes(value) - op.getOffsets()[i];
    accesses.push_back({slotOf(value), op.getOffsets()[i], bytes, static_cast<Effect>(op.getEffects()[i])});
    if (auto places = op.getRankPlaces())
      accesses.back().rankStride = (*places)[2 * i], accesses.back().rankReach = (*places)[2 * i + 1];
  }
}
template <typename Op> void addCopy(Op op, SmallVectorImpl<Access> &accesses) {
  int64_t bytes = op.getBytes();
  accesses.push_back({slotOf(op.getSource()), static_cast<int64_t>(op.getSourceOffset()), bytes, Effect::read});
  accesses.push_back({slotOf(op.getTarget()), static_cast<int64_t>(op.getTargetOffset()), bytes, Effect::write});
}
} // namespace

LogicalResult PrefetchOp::verify() { return verifyCopy(*this); }
LogicalResult OffloadOp::verify() { return verifyCopy(*this); }
LogicalResult ComputeOp::verify() { return verifyRun(*this); }
LogicalResult UpdateOp::verify() { return verifyRun(*this); }
LogicalResult ComputeOp::verifySymbolUses(SymbolTableCollection &symbols) { return verifyCallee(*this, symbols); }
LogicalResult UpdateOp::verifySymbolUses(SymbolTableCollection &symbols) { return verifyCallee(*this, symbols); }

SmallVector<Access> mt::schedule::accessesOf(Operation *command) {
  SmallVector<Access> accesses;
  llvm::TypeSwitch<Operation *>(command)
      .Case<PrefetchOp, OffloadOp>([&](auto op) { addCopy(op, accesses); })
      .Case<ComputeOp, UpdateOp>([&](auto op) { addRun(op, accesses); });
  return accesses;
}

Program mt::schedule::programOf(Operation *command) {
  return static_cast<Program>(cast<ProgramAttr>(command->getAttr("program")).getValue());
}
int64_t mt::schedule::streamOf(Operation *command) { return cast<IntegerAttr>(command->getAttr("stream")).getInt(); }
StringRef mt::schedule::labelOf(Operation *command) { return cast<StringAttr>(command->getAttr("label")).getValue(); }

SmallVector<Operation *> mt::schedule::commandsOf(func::FuncOp schedule, Program program) {
  SmallVector<Operation *> commands;
  for (Operation &op : schedule.front())
    if (isCommand(&op) && programOf(&op) == program)
      commands.push_back(&op);
  return commands;
}
