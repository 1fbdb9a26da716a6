// Plan structs to and from the messages of plan.proto, field by field. Checks only what the structs cannot express
// (unknown enumerators); Validate.h checks the rest. Private to runtime/plan.
#ifndef MT_RUNTIME_PLAN_PLANPROTO_H
#define MT_RUNTIME_PLAN_PLANPROTO_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"
#include "runtime/plan/plan.pb.h"

namespace mt::plan {

proto::Plan toProto(const Plan &plan);
/// Errors name the place, not the file.
Result<Plan> fromProto(const proto::Plan &message);

} // namespace mt::plan
#endif
