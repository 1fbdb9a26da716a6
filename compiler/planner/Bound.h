// What no plan of a step can do without, beside which the report puts what was found.
#ifndef MT_COMPILER_PLANNER_BOUND_H
#define MT_COMPILER_PLANNER_BOUND_H

#include "compiler/planner/Constraints.h"

namespace mt::planner {

/// Seconds that no decisions can do without: the load of every stream where everything is kept and nothing recomputed,
/// but for what resident layers take from it, as far as the device's bytes and the computing stream have room for them;
/// and the way of the state that no memory has room for, from a file and back.
double lowerBound(const Model &model, const Machine &machine, const Constraints &constraints);

/// Bytes that no decisions can do without, of host, devices and files together: weights and state all along, and, when
/// forward ends, what backward reads of the layers' results, of all micro-batches.
struct LeastBytes {
  int64_t kept = 0, values = 0;
  int64_t all() const { return kept + values; }
};
LeastBytes leastBytes(const Model &model);

} // namespace mt::planner
#endif
