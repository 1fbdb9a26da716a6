// What may be decided about a step, as data: one decision per object, never one switch for the model. All of them are
// bitwise neutral. They travel as attributes of the calls of @main (passes/DecisionAttributes.h).
#ifndef MT_COMPILER_PLANNER_DECISIONS_H
#define MT_COMPILER_PLANNER_DECISIONS_H

#include "compiler/planner/Machine.h"
#include "compiler/planner/Model.h"

namespace mt::planner {

struct LayerDecision {
  int64_t rung = 0;   ///< of the layer's ladder: what forward saves, and backward recomputes
  bool kept = false;  ///< its weights stay on the device from their first use in a step to the last
  /// Its weights and the state of their updates live on the device from step to step: the update runs there, and neither
  /// weights nor gradients cross the link. What the host holds is brought up before the first step and down where it is
  /// wanted.
  bool resident = false;
  /// When its update runs, where that is on the host: early, in its step; late, in the next one, under its
  /// forward, with the scalars that its own step left. Open: whenever it is its turn, which a simulation tells, but
  /// no plan can be made of.
  enum Turn : uint8_t { open, early, late } turn = open;
  bool operator==(const LayerDecision &) const = default;
};

struct Decisions {
  std::vector<LayerDecision> layers;
  std::vector<bool> parked; ///< by value: waits on the host between its last use in forward and its first in backward
  /// Bytes that uploads may fill ahead of need, and that what has been downloaded may take: no more than a budget, less
  /// where a plan that needs less is as fast.
  int64_t deviceLimit = INT64_MAX, hostLimit = INT64_MAX;
  int64_t distance = INT64_MAX; ///< phases that weights may be brought ahead

  bool operator==(const Decisions &) const = default;
};

/// What needs least memory: everything streamed, parked and recomputed.
Decisions leastMemory(const Model &model);

/// Whether a layer can be resident: something is held with it, and where that is trained the device has code for the update.
bool canReside(const Model &model, const Machine &machine, int64_t layer);

/// Whether a value can wait on the host: backward reads it again, and not right after forward has.
bool canPark(const Model &model, const Decisions &decisions, int64_t value);

} // namespace mt::planner
#endif
