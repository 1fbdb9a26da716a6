#include "compiler/planner/Constraints.h"

#include "compiler/planner/Builder.h"
#include "compiler/planner/Order.h"

#include <algorithm>

namespace mt::planner {

bool setResidency(std::string_view residency, Constraints &constraints) {
  constraints.kept = residency == "weights";
  constraints.resident = residency == "state";
  return residency == "none" || *constraints.kept || *constraints.resident;
}

Status constrain(const Model &model, const Machine &machine, const Constraints &constraints, Decisions &decisions) {
  std::string names; // of a ladder
  bool known = false;
  for (size_t l = 0; l < model.layers.size() && constraints.saved; ++l) {
    const std::vector<Rung> &rungs = model.layers[l].rungs;
    auto rung = std::ranges::find(rungs, *constraints.saved, &Rung::name);
    if (model.layers[l].isLoss || rungs.empty())
      continue;
    known |= rung != rungs.end();
    decisions.layers[l].rung = rung != rungs.end() ? rung - rungs.begin() : 0;
    names.clear();
    for (const Rung &entry : rungs)
      names += (&entry == &rungs.front() ? "" : &entry == &rungs.back() ? " or " : ", ") + entry.name;
  }
  if (constraints.saved && !known && !names.empty())
    return fail("saved activations '{}': must be {}", *constraints.saved, names);
  const std::vector<bool> reside = canReside(model, machine), parkable = canParkSaved(model, machine),
                          cut = canCut(model), speculates = canSpeculate(model, machine);
  for (size_t l = 0; l < decisions.layers.size(); ++l) {
    LayerDecision &layer = decisions.layers[l];
    layer.kept = constraints.kept.value_or(layer.kept);
    layer.resident = constraints.resident.value_or(layer.resident) && reside[l] && !decisions.batchShared;
    layer.parkedSaved = constraints.parked.value_or(layer.parkedSaved || constraints.saved) && parkable[l];
    layer.speculative = constraints.speculative.value_or(layer.speculative) && speculates[l];
    layer.parts = cut[l] || layer.stateStreamed ? layer.parts : 1;
    layer.summed = constraints.summed.value_or(layer.summed);
  }
  if (constraints.parked)
    for (size_t v = 0; v < model.values.size(); ++v)
      decisions.parked[v] = *constraints.parked && canPark(model, decisions, static_cast<int64_t>(v));
  decisions.distance = constraints.distance.value_or(decisions.distance);
  decisions.batchShared = constraints.batchShared.value_or(decisions.batchShared);
  return {};
}

void settle(const Model &model, const Machine &machine, Decisions &decisions) {
  const std::vector<bool> reside = canReside(model, machine), streams = canStreamState(model, machine),
                          parkable = canParkSaved(model, machine), speculates = canSpeculate(model, machine),
                          state = canBeInFile(model, machine), weights = canHaveWeightsInFile(model, machine);
  decisions.batchShared = decisions.batchShared && machine.devices.size() > 1;
  for (size_t l = 0; l < decisions.layers.size(); ++l) {
    decisions.layers[l].late = decisions.layers[l].lateDown = LayerDecision::kOpen;
    decisions.layers[l].resident = decisions.layers[l].resident && reside[l] && !decisions.batchShared;
    decisions.layers[l].stateStreamed =
        decisions.layers[l].stateStreamed && streams[l] && !decisions.layers[l].resident && !decisions.batchShared;
    decisions.layers[l].parkedSaved = decisions.layers[l].parkedSaved && parkable[l] && decisions.layers[l].rung > 0;
    const bool isInFile =
        (decisions.layers[l].stateInFile && state[l]) || (decisions.layers[l].weightsInFile && weights[l]);
    decisions.layers[l].speculative = decisions.layers[l].speculative && speculates[l] && !isInFile &&
                                      !decisions.layers[l].resident && !decisions.layers[l].stateStreamed;
  }
  for (size_t v = 0; v < model.values.size(); ++v)
    decisions.parked[v] =
        !machine.unified() && decisions.parked[v] && canPark(model, decisions, static_cast<int64_t>(v));
  Timing timing;
  if (!machine.unified()) {
    Schedule schedule = build(model, machine, decisions, Extent::step);
    timing = time(schedule, schedule.step, machine, decisions, true);
  }
  for (size_t l = 0; l < decisions.layers.size(); ++l) {
    LayerDecision &layer = decisions.layers[l];
    const bool byHost = !machine.unified() && !layer.resident && !layer.stateStreamed && completes(model, l);
    layer.late = byHost ? std::min(timing.pending[l], layer.parts) : layer.parts;
    layer.lateDown = byHost ? std::clamp(timing.pendingDown[l], layer.late, layer.parts) : layer.parts;
    layer.speculative = layer.speculative && byHost && layer.lateDown == layer.parts && !timing.vain[l];
  }
}

} // namespace mt::planner
