#include "passes/schedule/DecisionAttributes.h"

using namespace mlir;

namespace mt::passes {
namespace {
constexpr StringLiteral kSaved = "mt.saved", kLate = "mt.late", kLateDown = "mt.late_down", kParts = "mt.parts",
                        kSummed = "mt.summed", kTogether = "mt.together", kParked = "mt.parked", kLimits = "mt.limits",
                        kBatchShared = "mt.batch_shared", kSpeculativeFirst = "mt.speculative_first";

/// What of a layer is decided by yes or no.
struct Flag {
  StringLiteral name;
  bool planner::LayerDecision::*member;
};
constexpr Flag kFlags[] = {{"mt.kept", &planner::LayerDecision::kept},
                           {"mt.resident", &planner::LayerDecision::resident},
                           {"mt.state_streamed", &planner::LayerDecision::stateStreamed},
                           {"mt.speculative", &planner::LayerDecision::speculative},
                           {"mt.state_in_file", &planner::LayerDecision::stateInFile},
                           {"mt.gradient_in_file", &planner::LayerDecision::gradientInFile},
                           {"mt.weights_in_file", &planner::LayerDecision::weightsInFile},
                           {"mt.parked_in_file", &planner::LayerDecision::parkedInFile},
                           {"mt.parked_saved", &planner::LayerDecision::parkedSaved},
                           {"mt.exchanged_on_device", &planner::LayerDecision::exchangedOnDevice}};
} // namespace

bool hasDecisions(ModuleOp module) { return module->hasAttr(kLimits); }

FailureOr<planner::Decisions> readDecisions(ModuleOp module, const ReadModel &read) {
  const planner::Model &model = read.model;
  planner::Decisions decisions = planner::leastMemory(model);
  if (!hasDecisions(module))
    return decisions;
  decisions.parked.assign(model.values.size(), false);
  for (auto [l, each] : llvm::enumerate(read.calls)) {
    func::CallOp call = each;
    const planner::Layer &layer = model.layers[l];
    planner::LayerDecision &decision = decisions.layers[l];
    if (auto saved = call->getAttrOfType<StringAttr>(kSaved)) {
      auto rung = llvm::find_if(layer.rungs, [&](const planner::Rung &rung) { return rung.name == saved.getValue(); });
      if (rung == layer.rungs.end())
        return call.emitError() << "saved activations '" << saved.getValue() << "': the layer has no such templates";
      decision.rung = rung - layer.rungs.begin();
    }
    for (const Flag &flag : kFlags)
      decision.*flag.member = call->hasAttr(flag.name);
    decision.summed = planner::LayerDecision::kAll;
    if (auto summed = call->getAttrOfType<IntegerAttr>(kSummed)) {
      decision.summed = summed.getInt();
      if (decision.summed < 1 || !llvm::isPowerOf2_64(decision.summed))
        return call.emitError() << "has the gradients of " << decision.summed
                                << " micro-batches added up on the device: it must be a power of two";
    }
    if (auto together = call->getAttrOfType<IntegerAttr>(kTogether)) {
      decision.together = together.getInt();
      if (decision.together < 2 || decision.together > planner::LayerDecision::kMostTogether ||
          !llvm::isPowerOf2_64(decision.together))
        return call.emitError() << "has " << decision.together << " gradients added up together: it must be 2, 4 or 8";
    }
    if (auto parts = call->getAttrOfType<IntegerAttr>(kParts)) {
      decision.parts = parts.getInt();
      if (decision.parts < 1 || decision.parts > planner::kMostParts)
        return call.emitError() << "is cut in " << decision.parts << " parts: there may be 1 to " << planner::kMostParts;
    }
    auto firstOf = [&](StringRef name) {
      auto first = call->getAttrOfType<IntegerAttr>(name);
      return first ? std::clamp<int64_t>(first.getInt(), 0, decision.parts) : decision.parts;
    };
    decision.late = firstOf(kLate);
    decision.lateDown = std::max(decision.late, firstOf(kLateDown)); // an update follows its gradient
    if (auto parked = call->getAttrOfType<DenseI64ArrayAttr>(kParked))
      for (int64_t result : parked.asArrayRef()) {
        if (result < 0 || result >= int64_t(layer.results.size()))
          return call.emitError() << "parks result " << result << " of " << layer.results.size();
        decisions.parked[layer.results[result]] = true;
      }
  }
  decisions.batchShared = module->hasAttr(kBatchShared);
  decisions.speculativeFirst = module->hasAttr(kSpeculativeFirst);
  auto limits = module->getAttrOfType<DictionaryAttr>(kLimits);
  auto read64 = [&](StringRef name, int64_t &into) {
    if (auto value = limits ? limits.getAs<IntegerAttr>(name) : IntegerAttr())
      into = value.getInt();
  };
  read64("device", decisions.deviceLimit), read64("host", decisions.hostLimit), read64("distance", decisions.distance);
  return decisions;
}

void stateDecisions(ModuleOp module, const ReadModel &read, const planner::Decisions &decisions) {
  const planner::Model &model = read.model;
  Builder builder(module.getContext());
  for (auto [l, each] : llvm::enumerate(read.calls)) {
    func::CallOp call = each;
    const planner::LayerDecision &decision = decisions.layers[l];
    for (StringRef name : {kSaved, kSummed, kTogether, kParts, kLate, kLateDown, kParked})
      call->removeAttr(name);
    if (!model.layers[l].isLoss && model.layers[l].isDifferentiated())
      call->setAttr(kSaved, builder.getStringAttr(model.layers[l].rungs[decision.rung].name));
    for (const Flag &flag : kFlags) {
      call->removeAttr(flag.name);
      if (decision.*flag.member)
        call->setAttr(flag.name, builder.getUnitAttr());
    }
    if (decision.summed != planner::LayerDecision::kAll)
      call->setAttr(kSummed, builder.getI64IntegerAttr(decision.summed));
    if (decision.together != planner::LayerDecision().together)
      call->setAttr(kTogether, builder.getI64IntegerAttr(decision.together));
    if (decision.parts > 1)
      call->setAttr(kParts, builder.getI64IntegerAttr(decision.parts));
    if (decision.late < decision.parts)
      call->setAttr(kLate, builder.getI64IntegerAttr(decision.late));
    if (decision.lateDown < decision.parts)
      call->setAttr(kLateDown, builder.getI64IntegerAttr(decision.lateDown));
    SmallVector<int64_t> parked;
    for (auto [result, value] : llvm::enumerate(model.layers[l].results))
      if (decisions.parked[value])
        parked.push_back(result);
    if (!parked.empty())
      call->setAttr(kParked, builder.getDenseI64ArrayAttr(parked));
  }
  for (auto [name, isSet] : {std::pair(kBatchShared, decisions.batchShared), {kSpeculativeFirst, decisions.speculativeFirst}}) {
    module->removeAttr(name);
    if (isSet)
      module->setAttr(name, builder.getUnitAttr());
  }
  NamedAttrList limits;
  auto state = [&](StringRef name, int64_t value) {
    if (value != INT64_MAX)
      limits.append(name, builder.getI64IntegerAttr(value));
  };
  state("device", decisions.deviceLimit), state("host", decisions.hostLimit), state("distance", decisions.distance);
  module->setAttr(kLimits, limits.getDictionary(module.getContext()));
}

} // namespace mt::passes
