// What a plan's templates are for, in words that another plan of the model shares: "backward of layers 1 to 4". Names of
// templates say how they were made and differ where rungs or numbers do. For people; used by dumps only.
#ifndef MT_RUNTIME_PLAN_TEMPLATEUSE_H
#define MT_RUNTIME_PLAN_TEMPLATEUSE_H

#include "runtime/plan/Program.h"

namespace mt::plan {

/// For each template of the plan: what the commands that run it do, and in which layers; its name where none runs it.
std::vector<std::string> templateUses(const Plan &plan);

} // namespace mt::plan
#endif
