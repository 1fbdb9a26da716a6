#include "compiler/planner/Decisions.h"

#include "compiler/planner/Emitter.h"
#include "kernels/Coverage.h"

#include <algorithm>

namespace mt::planner {

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
  // Phases from the last use in forward to the first in backward: that of the loss lies between them.
  int64_t loss = static_cast<int64_t>(model.layers.size()) - 1;
  return 2 * loss - readBack - entry.users.back() > 2;
}

} // namespace mt::planner
