// The search for decisions: from what needs least memory, bytes are spent where they buy most seconds of the simulated
// step, kind by kind and in several orders; from the best of what comes of that others are tried that differ in a layer
// or two; then as many bytes are given back as cost no time. Two such searches run at once, on two threads: what they
// find is the same on one.
#ifndef MT_COMPILER_PLANNER_SEARCH_H
#define MT_COMPILER_PLANNER_SEARCH_H

#include "compiler/planner/Order.h"
#include "runtime/base/Status.h"

#include <optional>
#include <string>

namespace mt::planner {

/// What is not the planner's to decide; what is absent is.
struct Constraints {
  std::optional<std::string> saved; ///< rung of every layer
  std::optional<bool> kept, resident; ///< of every layer
  std::optional<bool> parked;         ///< of every value that can be
  std::optional<bool> batchShared;    ///< by several devices
  std::optional<bool> speculative;    ///< of every layer
  double clipped = 0.1;               ///< of steps, those whose gradient is clipped, which speculation makes longer
  std::optional<int64_t> summed;      ///< micro-batches of every layer, on the device
  std::optional<int64_t> distance;  ///< phases that weights may be brought ahead
  int64_t deviceMemory = INT64_MAX, hostMemory = INT64_MAX; ///< bytes
  bool thorough = true;                                     ///< whether layers are changed by one and two, too
};

struct Found {
  Decisions decisions;
  Timing timing;
  size_t border = 0; ///< layers at either end, of those that the host updates, that are cut in parts
  std::vector<size_t> reached; ///< how many objects have each kind of decision, for a search that goes on from here
  int64_t simulations = 0;
  int64_t deviceMemory = INT64_MAX, hostMemory = INT64_MAX; ///< bytes that it was allowed
};

/// "none", "weights" (kept in a step) or "state" (resident): what layers have on the device. False: another word.
bool setResidency(std::string_view residency, Constraints &constraints);

/// Sets what the constraints say and leaves the rest. Fails where they name no rung.
Status constrain(const Model &model, const Machine &machine, const Constraints &constraints, Decisions &decisions);

/// The best decisions found; if their timing does not fit, nothing does. It goes on from what was found `before` with other
/// budgets, or another micro-batch, of the same model.
Found search(const Model &model, const Machine &machine, const Constraints &constraints, const Found *before = nullptr);
/// The same, and what is nearly as good, the best first: packing may lose less of another.
std::vector<Found> candidates(const Model &model, const Machine &machine, const Constraints &constraints,
                              const Found *before = nullptr);
/// What was found, but that weights are brought no more than so many phases ahead; if the timing does not fit, it does
/// not.
Found nearer(const Model &model, const Machine &machine, const Constraints &constraints, const Found &found,
             int64_t distance);
/// What needs least memory, with values on the device that the host has no room for, as far as that has: for the message that
/// names the smallest budget that would do.
Found leastOf(const Model &model, const Machine &machine, const Constraints &constraints);

/// Decides what follows from the rest: which updates are late, those that in the simulated step start after the next
/// step has; and that nothing is parked that backward does not read with the rungs that were decided.
void settle(const Model &model, const Machine &machine, Decisions &decisions);

/// Seconds that no decisions can do without: the load of every stream where everything is kept and nothing recomputed,
/// but for what resident layers take from it, as far as the device's bytes and the computing stream have room for them;
/// and the way of the state that no memory has room for, from a file and back.
double lowerBound(const Model &model, const Machine &machine, const Constraints &constraints);

/// "input 20, all 12", "12 kept, 20 streamed", "20 values", "18 late": a word for all layers alike, else how many.
struct Description {
  std::string saved, weights, parked, updates;
};
Description describe(const Model &model, const Machine &machine, const Decisions &decisions);

} // namespace mt::planner
#endif
