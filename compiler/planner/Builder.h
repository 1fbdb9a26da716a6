// From a model and decisions to the slots and commands of step, finish and evaluate, in the order of data: each command
// after everything whose results it uses, and no earlier than it is needed. When things happen is Order.h's.
//
// A step is a sequence of phases - the forward of each layer, the loss, the backward of each layer - and every phase takes
// all micro-batches in turn, in an order that alternates, so that the boundary made last is used first.
#ifndef MT_COMPILER_PLANNER_BUILDER_H
#define MT_COMPILER_PLANNER_BUILDER_H

#include "compiler/planner/Decisions.h"
#include "compiler/planner/Machine.h"
#include "compiler/planner/Schedule.h"

namespace mt::planner {

/// Everything that a plan has, or what a simulation of a step needs: no names and no other programs, and what the forward of a
/// layer saves, which one backward reads, as one.
enum class Extent : uint8_t { plan, step };

/// The schedule refers to types of `model`, which must outlive it.
Schedule build(const Model &model, const Machine &machine, const Decisions &decisions, Extent extent);

} // namespace mt::planner
#endif
