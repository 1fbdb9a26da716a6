#include "runtime/plan/Accesses.h"

namespace mt::plan {
namespace {

void add(CommandAccesses &result, const Span &span, bool write) {
  if (span.bytes > 0)
    result.accesses.push_back({span.space, span.offset, span.offset + span.bytes, write});
}

} // namespace

CommandAccesses accessesOf(const Command &command) {
  CommandAccesses result;
  result.stream = command.stream;
  if (command.isCopy) {
    add(result, command.from, false);
    add(result, command.to, true);
    return result;
  }
  for (const Binding &binding : command.arguments)
    add(result, everyRank(binding), binding.effect != BindingEffect::read);
  add(result, command.workspace, true);
  return result;
}

} // namespace mt::plan
