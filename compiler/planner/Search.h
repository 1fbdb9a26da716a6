// The search for decisions: from what needs least memory, bytes are spent where they buy most seconds of the simulated
// step, kind by kind and in several orders; from the best of what comes of that others are tried that differ in a layer
// or two; then as many bytes are given back as cost no time. Two such searches run at once, on two threads: what they
// find is the same on one.
#ifndef MT_COMPILER_PLANNER_SEARCH_H
#define MT_COMPILER_PLANNER_SEARCH_H

#include "compiler/planner/Constraints.h"
#include "compiler/planner/Order.h"

namespace mt::planner {

/// A plan that is slower by so much of its step counts as fast as another.
inline constexpr double kAlike = 5e-4;

struct Found {
  Decisions decisions;
  Timing timing;
  size_t border = 0; ///< layers at either end, of those that the host updates, that are cut in parts
  std::vector<size_t> reached; ///< how many objects have each kind of decision, for a search that goes on from here
  int64_t simulations = 0;
  int64_t deviceMemory = INT64_MAX, hostMemory = INT64_MAX; ///< bytes that it was allowed
};

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
/// Whether what needs least memory fits devices that have a memory of their own, if the host has all that it takes, and
/// the host, if those have: what a smaller micro-batch may change, and what it does not.
struct Room {
  bool devices = false, host = false;
};
Room roomFor(const Model &model, const Machine &machine, const Constraints &constraints);

} // namespace mt::planner
#endif
