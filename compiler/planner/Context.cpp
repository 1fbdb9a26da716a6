#include "compiler/planner/Context.h"

namespace mt::planner {

kernels::Shares sharesOfMicroBatches(const Model &model) {
  kernels::Shares shares;
  shares.body = model.microBatches * model.ranks;
  shares.share = model.microBatches;
  return shares;
}

Context::Context(const Model &model, const Machine &machine, const Decisions &decisions, Extent extent)
    : model(model), machine(machine), decisions(decisions), extent(extent), hasPeers(machine.hasPeers()),
      out(model, machine, extent == Extent::plan) {
  for (uint32_t d = 0; d < deviceCount(); ++d)
    alone.push_back({d});
  for (int64_t m = 0; m < model.microBatches; ++m)
    if (const uint32_t device = deviceOf(0, m); sharers.empty() || sharers.back() != device)
      sharers.push_back(device);
  for (size_t v = 0; v < model.values.size(); ++v)
    parked.push_back(!machine.unified() && decisions.parked[v] && canPark(model, decisions, static_cast<int64_t>(v)));
  const std::vector<bool> canWait = canParkSaved(model, machine);
  for (int64_t l = 0; l < layerCount(); ++l) {
    int64_t bytes = 0;
    if (layer(l).isDifferentiated() && !layer(l).isLoss)
      for (const Result &result : code(rungOf(l).forward).results)
        bytes += result.kind == Result::saved ? aligned(result.type.bytes()) : 0;
    saved.push_back(bytes);
    parkedSaved.push_back(canWait[static_cast<size_t>(l)] && decision(l).parkedSaved && bytes > 0);
  }
  streams.assign(model.layers.size(), false);
  if (!sharesBatch() && std::ranges::any_of(decisions.layers,
                                            &LayerDecision::stateStreamed)) // which can takes a while to find out
    streams = canStreamState(model, machine);
  for (int64_t l = 0; l < layerCount(); ++l)
    streams[static_cast<size_t>(l)] = streams[static_cast<size_t>(l)] && decision(l).stateStreamed && !isResident(l);
  files.assign(model.layers.size(), false);
  if (std::ranges::any_of(decisions.layers, &LayerDecision::stateInFile))
    files = canBeInFile(model, machine);
  for (int64_t l = 0; l < layerCount(); ++l)
    files[static_cast<size_t>(l)] = files[static_cast<size_t>(l)] && decision(l).stateInFile && !streamsState(l);
  weightFiles.assign(model.layers.size(), false);
  if (!sharesBatch() && std::ranges::any_of(decisions.layers, &LayerDecision::weightsInFile))
    weightFiles = canHaveWeightsInFile(model, machine);
  for (int64_t l = 0; l < layerCount(); ++l)
    if (weightFiles[static_cast<size_t>(l)]) {
      const bool isTrained = std::ranges::any_of(layer(l).owned, [&](int64_t p) { return parameter(p).isTrained(); });
      weightFiles[static_cast<size_t>(l)] =
          decision(l).weightsInFile && !streamsState(l) && (!isTrained || hasStateInFile(l));
    }
}

std::string Context::named(const std::vector<int64_t> &parameters) const {
  if (parameters.size() == 1)
    return out.text("{}", parameter(parameters[0]).name);
  return out.text("{} and {} more", parameter(parameters[0]).name, parameters.size() - 1);
}

} // namespace mt::planner
