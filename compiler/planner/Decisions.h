// What may be decided about a step, as data: one decision per object, never one switch for the model. All of them are
// bitwise neutral. They travel as attributes of the calls of @main (passes/schedule/DecisionAttributes.h).
#ifndef MT_COMPILER_PLANNER_DECISIONS_H
#define MT_COMPILER_PLANNER_DECISIONS_H

#include "compiler/planner/Machine.h"
#include "compiler/planner/Model.h"
#include "kernels/Blocks.h"

namespace mt::planner {

/// Parts that a layer is cut in at most.
inline constexpr int64_t kMostParts = 8;

struct LayerDecision {
  int64_t rung = 0;   ///< of the layer's ladder: what forward saves, and backward recomputes
  bool parkedSaved = false; ///< what forward saves waits on the host until backward reads it
  /// Its weights stay on the device from their first use in a step to the last; where its state is streamed, that is
  /// the update, whose result the next step uses first: then they are always there.
  bool kept = false;
  /// Its weights and the state of their updates live on the device from step to step: the update runs there, and neither
  /// weights nor gradients cross the link. What the host holds is brought up before the first step and down where it is
  /// wanted.
  bool resident = false;
  /// The update runs on the device, for which the state comes up from the host, and goes down again with the weights: the gradient
  /// stays there. The host's memory is read and written less often than by an update there.
  bool stateStreamed = false;
  /// With clipping: the host updates it as soon as its gradient is there, as if nothing was clipped, and keeps what
  /// that replaces until the norm is known (kernels::Speculation).
  bool speculative = false;
  /// The state that the host has is in a file, and in its memory only while it updates with it, or brings it to a
  /// device or back.
  bool stateInFile = false;
  /// With that, and where gradients wait for their norm: they do so in the file.
  bool gradientInFile = false;
  /// Where the state is, or nothing of it is trained: its weights are, too, and in the host's memory only on their way
  /// to a device, or while they are updated.
  bool weightsInFile = false;
  /// What it gives and saves that waits on the host does so in the file.
  bool parkedInFile = false;
  /// Micro-batches whose gradients are added up on the device, a power of two, before the sum comes down; the host adds
  /// up the rest. The more, the more sums are there at once.
  int64_t summed = kAll;
  static constexpr int64_t kAll = INT64_MAX;
  /// Sums that are added to one at a time, 2, 4 or 8: the more, the less often memory is read and written for it.
  int64_t together = 2;
  static constexpr int64_t kMostTogether = kernels::kSumTerms;
  /// Where ranks have a network of devices: they exchange its gradients from the device's memory, and each brings down
  /// but its own share of their sum.
  bool exchangedOnDevice = false;
  /// In how many parts its gradients come down, are updated on the host, and its weights go up again, or its state comes to
  /// the device and goes: what one part waits for passes under the others.
  int64_t parts = 1;
  /// The first of its parts whose update is late, where that is on the host: in the next step, under its forward, with the
  /// scalars that its own step left. Those before it are early, in their step. kOpen: each whenever it is its turn, which a
  /// simulation tells, but no plan can be made of.
  static constexpr int64_t kOpen = -1;
  int64_t late = kOpen;
  int64_t lateDown = kOpen; ///< the same of its gradient's way down to the host
  bool operator==(const LayerDecision &) const = default;
};

struct Decisions {
  std::vector<LayerDecision> layers;
  std::vector<bool> parked; ///< by value, a result of a layer: waits on the host between its last use in forward and its first in backward
  /// Bytes that uploads may fill ahead of need, and that what has been downloaded may take: no more than a budget, less
  /// where a plan that needs less is as fast.
  int64_t deviceLimit = INT64_MAX, hostLimit = INT64_MAX;
  int64_t distance = INT64_MAX; ///< phases that weights may be brought ahead
  /// Several devices each compute all layers of some of the micro-batches; else each computes some layers of all of
  /// them.
  bool batchShared = false;
  /// Gradients of speculative updates come down before others, which wait for the norm; else what is needed first does.
  bool speculativeFirst = false;

  bool operator==(const Decisions &) const = default;
};

/// Whether a layer's backward completes gradients, which are then updated.
bool completes(const Model &model, size_t layer);

/// What needs least memory: everything streamed, parked and recomputed.
Decisions leastMemory(const Model &model);

/// By layer: whether it can be resident. There are no other ranks, something is held with it, and where that is trained
/// the device has code for the update.
std::vector<bool> canReside(const Model &model, const Machine &machine);

/// By layer: whether its state can be streamed: as above, and it alone gives gradients to all that its backward completes.
std::vector<bool> canStreamState(const Model &model, const Machine &machine);

/// By layer: whether its state can be in a file: the machine has one, and what it has state of is updated when its backward
/// ends.
std::vector<bool> canBeInFile(const Model &model, const Machine &machine);

/// By layer: whether its weights can be: as above, or it is not trained; devices have a memory of their own, and there
/// are no other ranks, which exchange weights from the host's.
std::vector<bool> canHaveWeightsInFile(const Model &model, const Machine &machine);

/// By layer: whether its update can be speculative: updates wait for a norm, on a host that computes nothing itself,
/// and there are no other ranks, to which weights go when they are updated.
std::vector<bool> canSpeculate(const Model &model, const Machine &machine);

/// Whether a parameter can be updated in runs of elements, each a multiple of kSlotAlignment bytes of its gradient.
bool canCut(const Parameter &parameter);
/// By layer: whether its updates can be cut in parts: there are no other ranks. Those begin at multiples of
/// kSlotAlignment bytes of a gradient.
std::vector<bool> canCut(const Model &model);

/// By layer: whether what forward saves can wait on the host, at some rung: backward does not come right after.
std::vector<bool> canParkSaved(const Model &model, const Machine &machine);

/// Whether a value can wait on the host: backward reads it again, and not right after forward has.
bool canPark(const Model &model, const Decisions &decisions, int64_t value);

/// "input 20, all 12", "12 kept, 20 streamed", "20 values", "18 late": a word for all layers alike, else how many.
struct Description {
  std::string saved, weights, parked, updates;
};
Description describe(const Model &model, const Machine &machine, const Decisions &decisions);

} // namespace mt::planner
#endif
