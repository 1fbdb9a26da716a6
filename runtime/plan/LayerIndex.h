// Which parameters and which commands of a plan belong to which layer, so that a person can follow one layer through a
// schedule. Derived from spans and the commands' layer numbers; used by dumps only.
#ifndef MT_RUNTIME_PLAN_LAYERINDEX_H
#define MT_RUNTIME_PLAN_LAYERINDEX_H

#include "runtime/plan/Program.h"

#include <map>
#include <vector>

namespace mt::plan {

/// Parameters by the least layer whose commands of `step` touch their weights; -1: those of no numbered layer.
std::map<int32_t, std::vector<uint32_t>> parametersByLayer(const Plan &plan);

/// Indices of a program's commands by layer and role, in issue order.
std::map<int32_t, std::map<Role, std::vector<uint32_t>>> commandsByLayer(const Program &program);

/// Elements of a parameter, or bytes of its parts.
double elementsOf(const Parameter &parameter);
uint64_t bytesOf(const Parameter &parameter);
/// Bytes that a command moves, or that its arguments have together.
uint64_t bytesOf(const Command &command);

} // namespace mt::plan
#endif
