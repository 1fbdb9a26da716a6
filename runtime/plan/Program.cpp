#include "runtime/plan/Program.h"

#include <algorithm>

namespace mt::plan {

const Program *Plan::program(ProgramKind kind) const {
  auto found = std::ranges::find(programs, kind, &Program::kind);
  return found == programs.end() ? nullptr : &*found;
}

} // namespace mt::plan
