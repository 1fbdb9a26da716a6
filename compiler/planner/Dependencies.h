// Which commands of a program use what which others made: dependencies of data, by ranges of slots.
#ifndef MT_COMPILER_PLANNER_DEPENDENCIES_H
#define MT_COMPILER_PLANNER_DEPENDENCIES_H

#include "compiler/planner/Grouped.h"
#include "compiler/planner/Schedule.h"

namespace mt::planner {

struct Dependency {
  uint32_t command = 0;
  uint32_t back = 0; ///< iterations
};

/// By command: those that must have ended before it starts, each once, for a program in the order of data. A slot has
/// one place: what opens it in one iteration waits for those that used it in the iteration before.
Grouped<Dependency> dependencies(const Schedule &schedule, std::span<const Command> program, bool cyclic);

} // namespace mt::planner
#endif
