// What the parts of a builder (Builder.cpp) share: a model, what was decided about it and what follows from that, on
// which device each template runs, and the program that is being built.
#ifndef MT_COMPILER_PLANNER_CONTEXT_H
#define MT_COMPILER_PLANNER_CONTEXT_H

#include "compiler/planner/Builder.h"
#include "compiler/planner/Emitter.h"

#include <algorithm>
#include <string>
#include <vector>

namespace mt::planner {

/// All micro-batches of one layer in one direction.
struct Phase {
  int64_t layer = 0;
  bool backward = false;
};

/// How ranks share what there is one of for each micro-batch.
kernels::Shares sharesOfMicroBatches(const Model &model);

class Context {
public:
  Context(const Model &model, const Machine &machine, const Decisions &decisions, Extent extent);

  const Model &model;
  const Machine &machine;
  const Decisions &decisions;
  const Extent extent;
  const bool hasPeers; ///< see Machine
  Emitter out;

  // The program that is being built.
  std::vector<Phase> phases;
  int64_t running = 0; ///< of them
  bool evaluating = false;

  const Parameter &parameter(int64_t index) const { return model.parameters[static_cast<size_t>(index)]; }
  const Layer &layer(int64_t index) const { return model.layers[static_cast<size_t>(index)]; }
  const Value &value(int64_t index) const { return model.values[static_cast<size_t>(index)]; }
  const GradientPack &pack(int64_t index) const { return model.packs[static_cast<size_t>(index)]; }
  const LayerDecision &decision(int64_t index) const { return decisions.layers[static_cast<size_t>(index)]; }
  const Template &code(int64_t index) const { return model.templates[static_cast<size_t>(index)]; }
  const Rung &rungOf(int64_t index) const {
    return layer(index).rungs[layer(index).isLoss ? 0 : static_cast<size_t>(decision(index).rung)];
  }
  int64_t layerCount() const { return static_cast<int64_t>(model.layers.size()); }

  // What follows from the decisions.
  bool isResident(int64_t l) const { return l >= 0 && !machine.unified() && !sharesBatch() && decision(l).resident; }
  bool streamsState(int64_t l) const { return l >= 0 && streams[static_cast<size_t>(l)]; }
  /// Whether its weights are on the device from step to step.
  bool hasResidentWeights(int64_t l) const { return isResident(l) || (streamsState(l) && decision(l).kept); }
  /// Of the state that the host has: where the layer is resident, a copy.
  bool hasStateInFile(int64_t l) const { return l >= 0 && files[static_cast<size_t>(l)]; }
  /// Of gradients that wait on the host for the clip scale.
  bool hasGradientInFile(int64_t l) const {
    return hasStateInFile(l) && decision(l).gradientInFile && model.clip && !machine.unified() && !updatesOnDevice(l) &&
           std::ranges::none_of(layer(l).packs, [&](int64_t k) { return pack(k).isShared(); });
  }
  /// Whether its update is speculative: what it updates is in memory, and its gradient comes in its own step.
  bool speculates(int64_t l) const {
    return decision(l).speculative && model.clip && !machine.unified() && !hasRanks() && !updatesOnDevice(l) &&
           !hasStateInFile(l) && !hasWeightsInFile(l) && firstLateDown(l) == kNone;
  }
  bool hasWeightsInFile(int64_t l) const { return l >= 0 && weightFiles[static_cast<size_t>(l)]; }
  /// Of what waits on the host between forward and backward.
  bool isParkedInFile(int64_t l) const { return machine.file && decision(l).parkedInFile; }
  bool updatesOnDevice(int64_t l) const { return isResident(l) || streamsState(l); }
  /// A pack's gradient is wanted where its update runs.
  bool staysOnDevice(int64_t k) const { return updatesOnDevice(pack(k).complete()); }
  /// Whether the host adds up what the micro-batches of a layer give, or some of them: not where one of its updates is
  /// on a device.
  bool sumsOnHost(int64_t l) const {
    const bool mustBe =
        sharesBatch() &&
        (!hasPeers || std::ranges::any_of(layer(l).packs, [&](int64_t k) { return pack(k).isShared(); }));
    return !machine.unified() && (mustBe || decision(l).summed < model.microBatches) &&
           std::ranges::none_of(layer(l).packs, [&](int64_t k) { return staysOnDevice(k); });
  }
  /// Of a value. With the rungs that were decided, backward may not read it any more.
  bool isParked(int64_t v) const { return parked[static_cast<size_t>(v)]; }
  /// Bytes of all that the forward of a layer saves, one after another, and whether that waits on the host.
  int64_t savedBytes(int64_t l) const { return saved[static_cast<size_t>(l)]; }
  bool isSavedParked(int64_t l) const { return parkedSaved[static_cast<size_t>(l)]; }
  /// To a simulation it is one: what the one forward writes, the one backward reads.
  bool isSavedAsOne(int64_t l) const { return extent == Extent::step && savedBytes(l) > 0; }

  /// Whether ranks share gradients and state.
  bool hasRanks() const { return model.ranks > 1; }
  /// Whether they exchange what a layer gives from the memory of its device.
  bool exchangesOnDevice(int64_t l) const {
    return decision(l).exchangedOnDevice && hasRanks() && device(deviceOf(l)).network && !sharesBatch() &&
           !sumsOnHost(l);
  }
  // Updates on the host in parts.
  static constexpr int64_t kNone = INT64_MAX;
  bool isOpen(int64_t l) const {
    return !machine.unified() && !updatesOnDevice(l) && decision(l).late == LayerDecision::kOpen;
  }
  /// The first part of a layer that is updated in the next step; kNone: there is none.
  int64_t firstLate(int64_t l) const { return firstOf(l, decision(l).late); }
  /// The same of gradients that come down.
  int64_t firstLateDown(int64_t l) const { return firstOf(l, decision(l).lateDown); }
  /// Bytes of one of the parts of a layer that the host updates, of so many.
  int64_t sizeOfPart(int64_t l, int64_t bytes) const {
    return updatesOnDevice(l) ? bytes : aligned((bytes + decision(l).parts - 1) / decision(l).parts);
  }

  // Where templates run.
  uint32_t deviceCount() const { return static_cast<uint32_t>(machine.devices.size()); }
  const Device &device(uint32_t index) const { return machine.devices[index]; }
  /// Whether each device computes all layers of some micro-batches; else some layers of all micro-batches.
  bool sharesBatch() const { return decisions.batchShared && deviceCount() > 1; }
  /// Where a layer runs or, where devices share the batch, where what there is one of is.
  uint32_t deviceOf(int64_t l) const { return static_cast<uint32_t>(l % deviceCount()); }
  uint32_t deviceOf(int64_t l, int64_t microBatch) const {
    return sharesBatch() ? static_cast<uint32_t>(microBatch * deviceCount() / model.microBatches) : deviceOf(l);
  }
  /// All on which a layer runs.
  const std::vector<uint32_t> &devicesOf(int64_t l) const {
    return sharesBatch() ? sharers : alone[static_cast<size_t>(deviceOf(l))];
  }
  /// Micro-batches of a phase in the order in which they run. It alternates, so that the boundary made last is used
  /// first, but where the next phase runs on another device, which begins as soon as the first of them is there.
  int64_t microBatchAt(int64_t phase, int64_t place) const {
    return phase % 2 && (deviceCount() == 1 || sharesBatch()) ? model.microBatches - 1 - place : place;
  }

  std::string named(const std::vector<int64_t> &parameters) const;
  /// " mb 3", or nothing where there is but one.
  std::string ofMicroBatch(int64_t microBatch) const {
    return model.microBatches > 1 ? out.text(" mb {}", microBatch) : std::string();
  }

private:
  std::vector<uint32_t> sharers;            ///< devices that have micro-batches, where they share them
  std::vector<std::vector<uint32_t>> alone; ///< by device: it
  std::vector<int64_t> saved;
  std::vector<bool> parkedSaved, streams, files, weightFiles, parked;

  int64_t firstOf(int64_t l, int64_t part) const {
    return machine.unified() || updatesOnDevice(l) || isOpen(l) || part >= decision(l).parts ? kNone : part;
  }
};

} // namespace mt::planner
#endif
