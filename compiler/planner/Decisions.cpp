#include "compiler/planner/Decisions.h"

#include "compiler/planner/Emitter.h"
#include "kernels/Coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace mt::planner {

/// So few of them pass through the last layers before what these save has gone to the host.
constexpr int64_t kFewMicroBatches = 4;

Decisions leastMemory(const Model &model) {
  Decisions decisions;
  decisions.layers.resize(model.layers.size());
  for (LayerDecision &layer : decisions.layers)
    layer.summed = 1;
  decisions.parked.assign(model.values.size(), false);
  for (size_t v = 0; v < model.values.size(); ++v)
    decisions.parked[v] = canPark(model, decisions, static_cast<int64_t>(v));
  return decisions;
}

std::vector<bool> canReside(const Model &model, const Machine &machine) {
  std::vector<bool> can(model.layers.size(), false), lacksCode(model.layers.size(), false);
  for (int64_t p = 0; p < static_cast<int64_t>(model.parameters.size()) && !machine.unified() && model.ranks == 1;
       ++p) {
    const int64_t home = model.homeOf(p);
    if (home < 0)
      continue;
    can[static_cast<size_t>(home)] = true;
    if (model.parameters[static_cast<size_t>(p)].isTrained() && !kernels::hasCode(model.updateOf(p), machine.devices.front().engine.backend))
      lacksCode[static_cast<size_t>(home)] = true;
  }
  for (size_t l = 0; l < can.size(); ++l)
    can[l] = can[l] && !lacksCode[l];
  return can;
}

std::vector<bool> canStreamState(const Model &model, const Machine &machine) {
  const std::vector<bool> reside = canReside(model, machine);
  std::vector<bool> can(model.layers.size(), false);
  for (size_t l = 0; l < can.size(); ++l)
    for (int64_t k : model.layers[l].packs) {
      const GradientPack &pack = model.packs[static_cast<size_t>(k)];
      if (pack.complete() != static_cast<int64_t>(l))
        continue;
      can[l] = reside[l] && !pack.isShared() && std::ranges::all_of(pack.parameters, [&](int64_t p) {
        return model.parameters[static_cast<size_t>(p)].owner == static_cast<int64_t>(l);
      });
      if (!can[l])
        break;
    }
  return can;
}

std::vector<bool> canBeInFile(const Model &model, const Machine &machine) {
  std::vector<bool> can(model.layers.size(), false);
  for (size_t l = 0; l < can.size() && machine.file; ++l) {
    auto isUpdatedHere = [&](int64_t p) {
      const Parameter &parameter = model.parameters[static_cast<size_t>(p)];
      return !parameter.isTrained() || model.packs[static_cast<size_t>(parameter.pack)].complete() == static_cast<int64_t>(l);
    };
    auto hasState = [&](int64_t p) {
      const Parameter &parameter = model.parameters[static_cast<size_t>(p)];
      return parameter.isTrained() && !parameter.rest.empty();
    };
    auto isOfHere = [&](int64_t k) {
      const GradientPack &pack = model.packs[static_cast<size_t>(k)];
      return pack.complete() != static_cast<int64_t>(l) || std::ranges::all_of(pack.parameters, [&](int64_t p) {
               return model.parameters[static_cast<size_t>(p)].owner == static_cast<int64_t>(l);
             });
    };
    can[l] = std::ranges::any_of(model.layers[l].owned, hasState) &&
             std::ranges::all_of(model.layers[l].owned, isUpdatedHere) &&
             std::ranges::all_of(model.layers[l].packs, isOfHere);
  }
  return can;
}

std::vector<bool> canHaveWeightsInFile(const Model &model, const Machine &machine) {
  std::vector<bool> can(model.layers.size(), false);
  const std::vector<bool> state = canBeInFile(model, machine);
  for (size_t l = 0; l < can.size() && machine.file && !machine.unified() && model.ranks == 1; ++l) {
    const std::vector<int64_t> &owned = model.layers[l].owned;
    const bool isFrozen =
        std::ranges::none_of(owned, [&](int64_t p) { return model.parameters[static_cast<size_t>(p)].isTrained(); });
    can[l] = !owned.empty() && (isFrozen || state[l]);
  }
  return can;
}

bool completes(const Model &model, size_t layer) {
  return std::ranges::any_of(model.layers[layer].packs, [&](int64_t k) {
    return model.packs[static_cast<size_t>(k)].complete() == static_cast<int64_t>(layer);
  });
}

std::vector<bool> canSpeculate(const Model &model, const Machine &machine) {
  std::vector<bool> can(model.layers.size(), false);
  for (size_t l = 0; l < can.size(); ++l)
    can[l] = model.clip && !machine.unified() && model.ranks == 1 && completes(model, l);
  return can;
}

bool canCut(const Parameter &parameter) {
  constexpr int64_t kElements = kSlotAlignment / 4;
  return parameter.spec->granularity > 0 && kElements % parameter.spec->granularity == 0;
}

std::vector<bool> canCut(const Model &model) {
  std::vector<bool> can(model.layers.size(), model.ranks == 1);
  for (const Parameter &parameter : model.parameters)
    if (parameter.isTrained() && !canCut(parameter))
      can[static_cast<size_t>(model.packs[static_cast<size_t>(parameter.pack)].complete())] = false;
  return can;
}

std::vector<bool> canParkSaved(const Model &model, const Machine &machine) {
  std::vector<bool> can(model.layers.size(), false);
  for (size_t l = 0; l + 2 < can.size() && !machine.unified(); ++l)
    can[l] = model.layers[l].rungs.size() > 1;
  return can;
}

bool canPark(const Model &model, const Decisions &decisions, int64_t value) {
  const Value &entry = model.values[static_cast<size_t>(value)];
  if (entry.isStepSum || entry.users.empty())
    return false;
  int64_t readBack = -1; // the first layer in backward, the last in forward, that reads it again
  for (int64_t user : entry.users) {
    const Layer &layer = model.layers[static_cast<size_t>(user)];
    for (size_t number = 0; number < layer.operands.size(); ++number) {
      const Operand &operand = layer.operands[number];
      if (!layer.isLoss && operand.kind == Operand::value && operand.index == value &&
          model.backwardReads(user, decisions.layers[static_cast<size_t>(user)].rung, static_cast<int64_t>(number)))
        readBack = std::max(readBack, user);
    }
  }
  if (readBack < 0)
    return false;
  // Phases from the last use in forward to the first in backward: that of the loss lies between them. Each takes as
  // long as it has micro-batches, and what waits is of all of them.
  const int64_t loss = static_cast<int64_t>(model.layers.size()) - 1;
  return 2 * loss - readBack - entry.users.back() > (model.microBatches > kFewMicroBatches ? 1 : 2);
}

Description describe(const Model &model, const Machine &machine, const Decisions &decisions) {
  std::map<int64_t, int64_t> rungs;
  std::map<int64_t, std::string> names;
  int64_t kept = 0, resident = 0, weighted = 0, late = 0, onDevice = 0, streamed = 0, updated = 0, parkedSaved = 0,
          speculative = 0, byHost = 0, inFile = 0, gradients = 0, exchanged = 0, weightFiles = 0, parkedFiles = 0;
  const std::vector<bool> can = canBeInFile(model, machine), canWeights = canHaveWeightsInFile(model, machine);
  for (size_t l = 0; l < model.layers.size(); ++l) {
    const Layer &layer = model.layers[l];
    const LayerDecision &decision = decisions.layers[l];
    if (layer.isDifferentiated() && !layer.isLoss) {
      ++rungs[decision.rung];
      parkedSaved += decision.parkedSaved && decision.rung > 0;
      names[decision.rung] = layer.rungs[static_cast<size_t>(decision.rung)].name;
    }
    weighted += !layer.owned.empty();
    resident += !layer.owned.empty() && decision.resident;
    kept += !layer.owned.empty() && decision.kept && !decision.resident;
    const bool updates = completes(model, l);
    updated += updates;
    onDevice += updates && decision.resident;
    streamed += updates && decision.stateStreamed && !decision.resident;
    speculative += updates && decision.speculative;
    late += updates && !decision.resident && !decision.stateStreamed && !decision.speculative &&
            decision.late < decision.parts;
    inFile += can[l] && decision.stateInFile && !decision.stateStreamed;
    gradients += can[l] && updates && decision.stateInFile && decision.gradientInFile && !decision.stateStreamed &&
                 !decision.resident;
    weightFiles += canWeights[l] && decision.weightsInFile && !decision.stateStreamed;
    parkedFiles += decision.parkedInFile &&
                   ((decision.parkedSaved && decision.rung > 0) || std::ranges::any_of(layer.results, [&](int64_t v) {
                      return decisions.parked[static_cast<size_t>(v)];
                    }));
    exchanged += !layer.packs.empty() && decision.exchangedOnDevice && decision.summed >= model.microBatches &&
                 machine.devices.front().network && !decisions.batchShared;
    byHost += updates && !decision.resident && !decision.stateStreamed && decision.summed < model.microBatches;
  }
  Description text;
  for (auto [rung, count] : rungs)
    text.saved +=
        (text.saved.empty() ? "" : ", ") + (rungs.size() == 1 ? names[rung] : fmt::format("{} {}", names[rung], count));
  if (text.saved.empty())
    text.saved = "none";
  /// "kept" of all, else "resident 4, kept 12, streamed 20".
  auto shares = [](std::initializer_list<std::pair<const char *, int64_t>> counts) {
    std::string some;
    int64_t all = 0;
    for (auto [name, count] : counts)
      all += count;
    for (auto [name, count] : counts)
      if (count == all)
        return std::string(name);
      else if (count > 0)
        some += (some.empty() ? "" : ", ") + fmt::format("{} {}", name, count);
    return some;
  };
  text.weights = machine.unified()
                     ? "in place"
                     : shares({{"streamed", weighted - kept - resident}, {"kept", kept}, {"resident", resident}});
  if (weightFiles > 0)
    text.weights += fmt::format(", of {} layers in a file", weightFiles);
  if (decisions.batchShared)
    text.weights += ", the batch shared by devices";
  const auto parked = std::ranges::count(decisions.parked, true);
  text.parked = parked > 0 ? fmt::format("{} values", parked) : "";
  if (parkedSaved > 0)
    text.parked += fmt::format("{}what {} layers save", text.parked.empty() ? "" : ", ", parkedSaved);
  if (machine.unified() || text.parked.empty())
    text.parked = "none";
  else if (parkedFiles > 0 && machine.file)
    text.parked += fmt::format(", of {} layers in a file", parkedFiles);
  text.updates = machine.unified() ? "early"
                                   : shares({{"speculative", speculative},
                                             {"early", updated - late - onDevice - streamed - speculative},
                                             {"late", late},
                                             {"on the device", onDevice},
                                             {"on the device with streamed state", streamed}});
  if (inFile > 0)
    text.updates += fmt::format(", state of {} layers in a file", inFile);
  if (gradients > 0 && model.clip && !machine.unified())
    text.updates += fmt::format(", gradients of {} layers there, too", gradients);
  if (exchanged > 0)
    text.updates += fmt::format(", gradients of {} layers exchanged by devices", exchanged);
  if (byHost > 0 && !machine.unified())
    text.updates += fmt::format(", gradients of {} layers summed by the host", byHost);
  return text;
}

} // namespace mt::planner
