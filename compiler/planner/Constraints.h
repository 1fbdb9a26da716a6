// Decisions that are the user's, or follow from others, and those that fit neither model nor machine taken back.
#ifndef MT_COMPILER_PLANNER_CONSTRAINTS_H
#define MT_COMPILER_PLANNER_CONSTRAINTS_H

#include "compiler/planner/Decisions.h"
#include "runtime/base/Status.h"

#include <cmath>
#include <optional>
#include <string>

namespace mt::planner {

/// What is not the planner's to decide; what is absent is.
struct Constraints {
  std::optional<std::string> saved;   ///< rung of every layer
  std::optional<bool> kept, resident; ///< of every layer
  std::optional<bool> parked;         ///< of every value that can be
  std::optional<bool> batchShared;    ///< by several devices
  std::optional<bool> speculative;    ///< of every layer
  double clipped = 0.1;               ///< of steps, those whose gradient is clipped, which speculation makes longer
  std::optional<int64_t> summed;      ///< micro-batches of every layer, on the device
  std::optional<int64_t> distance;    ///< phases that weights may be brought ahead
  int64_t deviceMemory = INT64_MAX, hostMemory = INT64_MAX; ///< bytes
  bool thorough = true;                                     ///< whether layers are changed by one and two, too
  double enough = HUGE_VAL; ///< seconds of a step that a search gives up reaching if it is far from them at first
};

/// "none", "weights" (kept in a step) or "state" (resident): what layers have on the device. False: another word.
bool setResidency(std::string_view residency, Constraints &constraints);

/// Sets what the constraints say and leaves the rest. Fails where they name no rung.
Status constrain(const Model &model, const Machine &machine, const Constraints &constraints, Decisions &decisions);

/// Decides what follows from the rest: which updates are late, those that in the simulated step start after the next
/// step has; and that nothing is parked that backward does not read with the rungs that were decided.
void settle(const Model &model, const Machine &machine, Decisions &decisions);

} // namespace mt::planner
#endif
