// What changed between two plans, for `mtc diff`: settings, spaces, templates, parameters, commands, bytes and
// predicted time. Reads plans only.
#ifndef MT_RUNTIME_PLAN_DIFF_H
#define MT_RUNTIME_PLAN_DIFF_H

#include "runtime/plan/Program.h"

#include <string>

namespace mt::plan {

/// Lines for people; empty if the plans do the same (producers may differ).
std::string diffPlans(const Plan &before, const Plan &after);

} // namespace mt::plan
#endif
