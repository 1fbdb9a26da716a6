// The table of built-in targets; findTarget (Target.h) looks names up here. Numbers only, with their sources.
#ifndef MT_COMPILER_TARGET_BUILTINS_H
#define MT_COMPILER_TARGET_BUILTINS_H

#include "compiler/target/Target.h"

namespace mt::target {

/// All built-in targets, in the order in which messages list them.
std::vector<Target> builtinTargets();

} // namespace mt::target
#endif
