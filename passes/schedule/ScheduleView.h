// A placed schedule as the algorithms without MLIR see it: spaces and streams by index, accesses as byte ranges.
#ifndef MT_PASSES_SCHEDULE_SCHEDULEVIEW_H
#define MT_PASSES_SCHEDULE_SCHEDULEVIEW_H
#include "passes/Passes.h"
#include "runtime/plan/Accesses.h"

namespace mt::passes {

/// The module's spaces by name, and the number of its streams.
struct Declarations {
  llvm::StringMap<uint32_t> spaces;
  uint32_t streams = 0;
};
/// Fails with a diagnostic if the module declares none.
mlir::FailureOr<Declarations> readDeclarations(mlir::ModuleOp module);
/// @schedule; null after a diagnostic.
mlir::func::FuncOp findSchedule(mlir::ModuleOp module);
/// What one command touches; its slots must have offsets. Fails with a diagnostic on the command.
mlir::FailureOr<plan::CommandAccesses> placedAccesses(mlir::Operation *command, const Declarations &declarations);
/// Calls `each` for every program of the module's schedule until one fails: its commands, what they touch, how many
/// streams there are, and whether the program repeats. Fails with a diagnostic.
mlir::LogicalResult
forEachProgram(mlir::ModuleOp module,
               llvm::function_ref<mlir::LogicalResult(llvm::ArrayRef<mlir::Operation *> commands,
                                                      const std::vector<plan::CommandAccesses> &accesses,
                                                      uint32_t streams, bool cyclic)> each);
/// All programs, in the order of the enumeration.
inline constexpr schedule::Program kPrograms[] = {schedule::Program::step, schedule::Program::finish, schedule::Program::evaluate,
                                                  schedule::Program::load, schedule::Program::store};

} // namespace mt::passes
#endif
