// The schedule dialect in C++, and the view of its commands that passes share: which bytes a command reads and
// writes. No pass is here; the dialect is described in ScheduleOps.td.
#ifndef MT_COMPILER_SCHEDULE_SCHEDULE_H
#define MT_COMPILER_SCHEDULE_SCHEDULE_H
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#include "compiler/schedule/ScheduleDialect.h.inc"
#include "compiler/schedule/ScheduleEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/schedule/ScheduleTypes.h.inc"
#define GET_OP_CLASSES
#include "compiler/schedule/ScheduleOps.h.inc"

namespace mt::schedule {
/// Slots, and the parameters within one, begin at multiples of so many bytes.
inline constexpr int64_t kSlotAlignment = 256;

/// The function that holds slots and commands, and the module's declarations.
inline constexpr llvm::StringLiteral kScheduleName = "schedule", kSpacesAttr = "schedule.spaces",
                                     kStreamsAttr = "schedule.streams";
/// On the module: predicted seconds from one step to the next, which starts of commands are within.
inline constexpr llvm::StringLiteral kPeriodAttr = "schedule.period";
/// On slots: what of which parameter lies where (triples: argument of @main that is a parameter, plan::kWeightPart and on,
/// offset); and which input of @main it is (-1: the scalars).
inline constexpr llvm::StringLiteral kHoldsAttr = "schedule.holds", kInputAttr = "schedule.input";
/// On slots: what the bytes are, a name of plan::ByteKind.
inline constexpr llvm::StringLiteral kKindAttr = "schedule.kind";

enum class Effect : int64_t { read = 0, write = 1, accumulate = 2, update = 3 };

/// Bytes that a command touches.
struct Access {
  SlotOp slot;
  int64_t offset, bytes;
  Effect effect;
  int64_t rankStride = 0, rankReach = 0; ///< see the operation's rankPlaces
  bool writes() const { return effect != Effect::read; }
};

/// True for the four kinds of commands.
bool isCommand(mlir::Operation *op);
/// Every access of a command, in operand order. Bytes of template operands come from the template's types.
llvm::SmallVector<Access> accessesOf(mlir::Operation *command);
/// The commands of one program in issue order.
llvm::SmallVector<mlir::Operation *> commandsOf(mlir::func::FuncOp schedule, Program program);
Program programOf(mlir::Operation *command);
int64_t streamOf(mlir::Operation *command);
llvm::StringRef labelOf(mlir::Operation *command);
/// Bytes of a tensor type; booleans take one byte.
int64_t bytesOf(mlir::Type tensor);

} // namespace mt::schedule
#endif
