// Translation of a schedule for the algorithms without MLIR.
#include "passes/schedule/ScheduleView.h"

using namespace mlir;
using namespace mt::schedule;

namespace mt::passes {

FailureOr<Declarations> readDeclarations(ModuleOp module) {
  auto spaces = module->getAttrOfType<ArrayAttr>(kSpacesAttr), streams = module->getAttrOfType<ArrayAttr>(kStreamsAttr);
  if (!spaces || !streams)
    return module.emitError() << "declares no spaces and streams; run mt-build-schedule";
  Declarations declarations;
  for (auto [i, entry] : llvm::enumerate(spaces.getAsRange<DictionaryAttr>()))
    if (auto name = entry.getAs<StringAttr>("name"))
      declarations.spaces[name.getValue()] = i;
  declarations.streams = streams.size();
  return declarations;
}

func::FuncOp findSchedule(ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>(kScheduleName);
  if (!function)
    module.emitError() << "has no @schedule; run mt-build-schedule";
  return function;
}

FailureOr<plan::CommandAccesses> placedAccesses(Operation *command, const Declarations &declarations) {
  plan::CommandAccesses result;
  result.stream = streamOf(command);
  if (result.stream >= declarations.streams)
    return command->emitOpError() << "names stream " << result.stream << " of " << declarations.streams;
  for (Access access : accessesOf(command)) {
    SlotOp slot = access.slot;
    auto space = declarations.spaces.find(slot ? cast<SlotType>(slot.getType()).getSpace() : "");
    if (!slot || !slot.getOffset() || space == declarations.spaces.end())
      return command->emitOpError() << "uses a slot without an offset in a declared space; run mt-plan-memory";
    uint64_t begin = *slot.getOffset() + access.offset;
    result.accesses.push_back({space->second, begin, begin + access.bytes + access.rankReach, access.writes()});
  }
  return result;
}

static FailureOr<std::vector<plan::CommandAccesses>> placedAccesses(ArrayRef<Operation *> commands, const Declarations &declarations) {
  std::vector<plan::CommandAccesses> all;
  for (Operation *command : commands) {
    auto accesses = placedAccesses(command, declarations);
    if (failed(accesses))
      return failure();
    all.push_back(std::move(*accesses));
  }
  return all;
}

LogicalResult forEachProgram(ModuleOp module,
                             llvm::function_ref<LogicalResult(ArrayRef<Operation *>, const std::vector<plan::CommandAccesses> &,
                                                              uint32_t, bool)> each) {
  func::FuncOp function = findSchedule(module);
  auto declarations = readDeclarations(module);
  if (!function || failed(declarations))
    return failure();
  for (Program program : kPrograms) {
    SmallVector<Operation *> commands = commandsOf(function, program);
    auto accesses = placedAccesses(commands, *declarations);
    if (failed(accesses) || failed(each(commands, *accesses, declarations->streams, plan::isCyclic(plan::ProgramKind(program)))))
      return failure();
  }
  return success();
}

} // namespace mt::passes
