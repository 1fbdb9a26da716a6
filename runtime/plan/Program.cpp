#include "runtime/plan/Program.h"

#include <algorithm>

namespace mt::plan {

const Program *Plan::program(ProgramKind kind) const {
  auto found = std::ranges::find(programs, kind, &Program::kind);
  return found == programs.end() ? nullptr : &*found;
}

const Part *Parameter::part(std::string_view partName) const {
  auto found = std::ranges::find(parts, partName, &Part::name);
  return found == parts.end() ? nullptr : &*found;
}

} // namespace mt::plan
