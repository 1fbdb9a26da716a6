#include "runtime/tokenizer/Splits.h"

namespace mt::tokenizer {

Result<SplitBehaviour> readBehaviour(const Fields &fields, std::optional<SplitBehaviour> usual) {
  if (usual && !fields.find("behavior"))
    return *usual;
  MT_ASSIGN(std::string_view name, fields.text("behavior"));
  constexpr std::pair<std::string_view, SplitBehaviour> kNames[] = {
      {"Removed", SplitBehaviour::removed},
      {"Isolated", SplitBehaviour::isolated},
      {"Contiguous", SplitBehaviour::contiguous},
      {"MergedWithPrevious", SplitBehaviour::withPrevious},
      {"MergedWithNext", SplitBehaviour::withNext}};
  for (auto [known, behaviour] : kNames)
    if (name == known)
      return behaviour;
  return fields.fail("\"behavior\" {} is not supported", name);
}

bool Splits::part(size_t begin, size_t end, bool match) {
  bool previous = before;
  before = match;
  switch (behaviour) {
  case SplitBehaviour::removed:
    return match || emit(begin, end);
  case SplitBehaviour::isolated:
    return emit(begin, end);
  case SplitBehaviour::contiguous:
  case SplitBehaviour::withPrevious: {
    bool joins = waits && (behaviour == SplitBehaviour::contiguous ? match == previous : match && !previous);
    if (joins) {
      to = end;
      return true;
    }
    return (!waits || emit()) && hold(begin, end);
  }
  case SplitBehaviour::withNext:
    if (match)
      return (!waits || emit()) && hold(begin, end);
    if (!waits)
      return emit(begin, end);
    to = end;
    return emit();
  }
  return true;
}

} // namespace mt::tokenizer
