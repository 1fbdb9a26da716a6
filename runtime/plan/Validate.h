// Whether a plan can be executed without touching a byte outside its spaces: indices, sizes, spans, types, effects,
// awaits, and that kinds of streams and spaces fit what commands do. Treats every field as hostile. Not whether
// commands are ordered (VerifyHazards.h), nor whether the result is the right one.
#ifndef MT_RUNTIME_PLAN_VALIDATE_H
#define MT_RUNTIME_PLAN_VALIDATE_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

namespace mt::plan {

/// All of the below, in that order. Errors name the place: `step command 17 "compute block 3 mb 0", argument 2: ...`.
Status validate(const Plan &plan);

/// Spaces, streams, parameters and inputs.
Status validateTables(const Plan &plan);
/// Every call of every template by itself. Needs valid tables.
Status validateTemplates(const Plan &plan);
/// Every command of every program. Needs valid tables and templates.
Status validatePrograms(const Plan &plan);

/// Fails if the span leaves its space, or the space does not exist.
Status checkSpan(const Plan &plan, const Span &span);
/// Whether a type of integers has the value; others have every one.
bool holds(DType type, int64_t value);
/// Bytes of a tensor; fails if a dimension is not positive, or the size leaves all bounds.
Result<uint64_t> checkedBytes(const kernels::Dims &dims, DType type);

} // namespace mt::plan
#endif
