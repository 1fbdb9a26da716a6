// What happens within a phase of ScheduleBuilder: weights and activations brought in, templates run, gradients taken
// out, parameters updated.
#include "passes/ScheduleBuilder.h"

#include "kernels/Catalogue.h"

using namespace mlir;
using namespace mt::schedule;

namespace mt::passes {
namespace {

std::string at(const Twine &what, int64_t layer, int64_t microBatch) {
  return (what + " layer " + Twine(layer) + " mb " + Twine(microBatch)).str();
}
} // namespace

//===-- weights ---------------------------------------------------------------------------------------------===//

void ScheduleBuilder::preparePhase(int64_t phase) {
  const Phase &next = phases[phase];
  bool firstUse = !evaluating && (!next.backward || model.layers[next.layer].isLoss);
  if (options.clip && firstUse)
    updateLayer(next.layer);
  prefetchWeights(phase);
}

/// Brings in what a phase reads and is not there: of the layer's own weights in one copy, with the few between that it does
/// not read, and of another layer's in one for each run of neighbours.
void ScheduleBuilder::prefetchWeights(int64_t phase) {
  int64_t l = phases[phase].layer;
  writer.setPlace(l, -1);
  SmallVector<int64_t> missing = missingWeights(phase);
  auto joins = [&](int64_t p, int64_t next) {
    int64_t owner = model.parameters[p].owner;
    return owner == model.parameters[next].owner &&
           (owner == l || llvm::alignTo(weights[p].offset + bytesOf(p), kSlotAlignment) == uint64_t(weights[next].offset));
  };
  for (size_t i = 0, end = 0; i < missing.size(); i = end) {
    for (end = i + 1; end < missing.size() && joins(missing[end - 1], missing[end]);)
      ++end;
    bringWeights(l, ArrayRef(missing).slice(i, end - i));
  }
}

/// What the phase's template takes (backward needs no table that forward only took rows from), but for what is still
/// there from a phase that is not far back; by owner and place.
SmallVector<int64_t> ScheduleBuilder::missingWeights(int64_t phase) {
  const Layer &layer = model.layers[phases[phase].layer];
  bool all = !phases[phase].backward || layer.isLoss;
  SmallVector<int64_t> missing;
  for (auto [number, operand] : llvm::enumerate(layer.operands)) {
    if (operand.kind != LayerOperand::parameter || !(all || readsOperand(layer.backward, number)))
      continue;
    DeviceWeight &there = deviceWeights[operand.index];
    bool stays = there.place && (options.resident || there.until + options.prefetchDistance >= phase);
    there.until = phase;
    if (writer.unified())
      there.place = weights[operand.index];
    else if (!stays)
      missing.push_back(operand.index);
  }
  llvm::sort(missing, [&](int64_t a, int64_t b) {
    return std::pair(model.parameters[a].owner, weights[a].offset) < std::pair(model.parameters[b].owner, weights[b].offset);
  });
  return missing;
}

void ScheduleBuilder::bringWeights(int64_t layer, ArrayRef<int64_t> parameters) {
  std::string label = ("weight " + named(parameters) + " layer " + Twine(layer)).str();
  if (model.parameters[parameters[0]].owner == layer)
    label = ("weights layer " + Twine(layer)).str();
  Place begin = weights[parameters.front()];
  int64_t bytes = weights[parameters.back()].offset + bytesOf(parameters.back()) - begin.offset;
  Value slot = writer.slot("device " + label, "device", bytes);
  writer.prefetch(label, begin, {slot}, bytes);
  for (int64_t p : parameters)
    deviceWeights[p].place = {slot, weights[p].offset - begin.offset};
}

//===-- activations -----------------------------------------------------------------------------------------===//

bool ScheduleBuilder::neededByBackward(int64_t value) const {
  for (int64_t user : model.values[value].users) {
    const Layer &layer = model.layers[user];
    for (auto [number, operand] : llvm::enumerate(layer.operands))
      if (layer.backward && !layer.isLoss && operand.kind == LayerOperand::value && operand.index == value &&
          readsOperand(layer.backward, number))
        return true;
  }
  return false;
}

/// A value waits on the host if one layer alone uses it, backward reads it again, and that is more than two phases off.
bool ScheduleBuilder::isParked(int64_t value) const {
  if (evaluating || writer.unified() || !options.park || model.values[value].isStepSum || model.values[value].users.size() != 1 || !neededByBackward(value))
    return false;
  int64_t layer = model.values[value].users[0], there = -1, back = -1;
  for (int64_t p = 0; p < int64_t(phases.size()); ++p)
    if (phases[p].layer == layer)
      (phases[p].backward ? back : there) = p;
  return there >= 0 && back > there + 2;
}

void ScheduleBuilder::park(int64_t phase, int64_t microBatch) {
  for (int64_t value : model.layers[phases[phase].layer].results) {
    if (!isParked(value))
      continue;
    const ModelValue &info = model.values[value];
    std::string label = at("activation", info.layer, microBatch);
    Place parked{writer.slot("parked " + label, "staging", schedule::bytesOf(info.type))};
    writer.offload(label, valuePlaces.at({value, microBatch}), parked, schedule::bytesOf(info.type));
    parkedPlaces[{value, microBatch}] = parked;
  }
}

/// Inputs at their first use, and parked activations before the backward that reads them.
void ScheduleBuilder::prefetchValues(int64_t phase, int64_t microBatch) {
  const Phase &next = phases[phase];
  const Layer &layer = model.layers[next.layer];
  writer.setPlace(next.layer, microBatch);
  for (const LayerOperand &operand : layer.operands) {
    if (operand.kind == LayerOperand::input)
      (void)inputPlace(operand.index, microBatch);
    if (operand.kind != LayerOperand::value || !next.backward)
      continue;
    auto parked = parkedPlaces.find({operand.index, microBatch});
    if (parked == parkedPlaces.end())
      continue;
    const ModelValue &info = model.values[operand.index];
    std::string label = at("parked activation", info.layer, microBatch);
    Place place{writer.slot(label, "device", schedule::bytesOf(info.type))};
    writer.prefetch(label, parked->second, place, schedule::bytesOf(info.type));
    valuePlaces[{operand.index, microBatch}] = place;
    parkedPlaces.erase(parked);
  }
}

Place ScheduleBuilder::inputPlace(int64_t input, int64_t microBatch) {
  int64_t bytes = schedule::bytesOf(model.inputs[input].type);
  Place source = inputs[input] + microBatch * bytes;
  if (writer.unified())
    return source;
  Place &place = inputPlaces[{input, microBatch}];
  if (!place) {
    std::string label = ("input " + model.inputs[input].name + " mb " + Twine(microBatch)).str();
    place = {writer.slot("device " + label, "device", bytes)};
    writer.prefetch(label, source, place, bytes);
  }
  return place;
}

Place ScheduleBuilder::operandPlace(const Layer &layer, int64_t operand, int64_t microBatch) {
  const LayerOperand &what = layer.operands[operand];
  switch (what.kind) {
  case LayerOperand::parameter:
    return deviceWeights.at(what.index).place;
  case LayerOperand::input:
    return inputPlace(what.index, microBatch);
  case LayerOperand::scalars:
    return deviceScalars;
  case LayerOperand::value:
    return valuePlaces.at({what.index, model.values[what.index].isStepSum ? 0 : microBatch});
  }
  return {};
}

//===-- templates -------------------------------------------------------------------------------------------===//

void ScheduleBuilder::runPhase(int64_t phase, int64_t microBatch, bool first) {
  writer.setPlace(phases[phase].layer, microBatch);
  if (phases[phase].backward)
    return backward(phases[phase], microBatch, first);
  forward(phases[phase], microBatch, first);
  park(phase, microBatch);
}

void ScheduleBuilder::forward(const Phase &phase, int64_t microBatch, bool first) {
  const Layer &layer = model.layers[phase.layer];
  func::FuncOp callee = evaluating ? layer.primal : layer.forward;
  SmallVector<Bound> operands;
  for (int64_t i = 0; i < int64_t(layer.operands.size()); ++i)
    operands.push_back({operandPlace(layer, i, microBatch), Effect::read, Type()});
  for (auto [k, value] : llvm::enumerate(layer.results)) {
    const ModelValue &info = model.values[value];
    if (info.isStepSum) {
      operands.push_back(stepSum(value, first));
      continue;
    }
    if (evaluating && layer.isLoss) {
      operands.push_back({loss, first ? Effect::write : Effect::accumulate, Type()});
      continue;
    }
    std::string label = at("value " + Twine(k) + " of", phase.layer, microBatch);
    Place place{writer.slot(label, "device", schedule::bytesOf(info.type))};
    valuePlaces[{value, microBatch}] = place;
    operands.push_back({place, Effect::write, Type()});
  }
  for (unsigned k = layer.results.size(); k < callee.getNumResults(); ++k) {
    int64_t j = k - layer.results.size();
    std::string label = at("saved " + Twine(j) + " of", phase.layer, microBatch);
    Place place{writer.slot(label, "device", schedule::bytesOf(callee.getResultTypes()[k]))};
    savedPlaces[{phase.layer, {j, microBatch}}] = place;
    operands.push_back({place, Effect::write, Type()});
  }
  writer.compute(at("forward", phase.layer, microBatch), callee, operands);
}

/// Where a sum over the step's micro-batches grows; the first of them writes it.
Bound ScheduleBuilder::stepSum(int64_t value, bool first) {
  Place &place = valuePlaces[{value, 0}];
  if (first)
    place = {writer.slot("step sum " + Twine(model.values[value].result), "device", schedule::bytesOf(model.values[value].type))};
  return {place, first ? Effect::write : Effect::accumulate, Type()};
}

/// Where the gradient of an operand goes, and whether it is the first to go there.
Bound ScheduleBuilder::gradientOf(const Layer &layer, int64_t operand, int64_t microBatch, bool first, Type type) {
  const LayerOperand &what = layer.operands[operand];
  if (what.kind == LayerOperand::parameter) {
    const ModelParameter &parameter = model.parameters[what.index];
    return {gradientParts.at(parameter.pack) + parameter.packOffset, first ? Effect::write : Effect::accumulate, Type()};
  }
  Place &place = valueGradients[{what.index, microBatch}];
  if (place)
    return {place, Effect::accumulate, Type()};
  const ModelValue &info = model.values[what.index];
  place = {writer.slot(at("gradient of value of", info.layer, microBatch), "device", schedule::bytesOf(type))};
  return {place, Effect::write, Type()};
}

/// The gradient of a layer's result, complete once all its users' backward ran; zeros if none of them gave any.
Place ScheduleBuilder::arrivingGradient(int64_t value, int64_t microBatch, RankedTensorType type) {
  Place &place = valueGradients[{value, microBatch}];
  if (place)
    return place;
  std::string label = at("no gradient of value of", model.values[value].layer, microBatch);
  place = {writer.slot(label, "device", schedule::bytesOf(type))};
  Builder builder(module.getContext());
  auto zeros = DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 0.0));
  writer.kernel(label, writer.streams().compute, "constant", Bound{place, Effect::write, type}, 1, {},
                builder.getDictionaryAttr(builder.getNamedAttr("value", zeros)));
  return place;
}

void ScheduleBuilder::backward(const Phase &phase, int64_t microBatch, bool first) {
  const Layer &layer = model.layers[phase.layer];
  func::FuncOp callee = layer.backward;
  if (first)
    openGradients(phase.layer);
  SmallVector<Bound> operands;
  for (unsigned i = 0; i < callee.getNumArguments(); ++i) {
    DictionaryAttr attributes = callee.getArgAttrDict(i);
    Place place;
    if (int64_t argument = attributeOf(attributes, "nn.argument"); argument >= 0)
      place = operandPlace(layer, argument, microBatch);
    else if (int64_t saved = attributeOf(attributes, "nn.saved"); saved >= 0)
      place = savedPlaces.at({phase.layer, {saved, microBatch}});
    else
      place = arrivingGradient(layer.results[attributeOf(attributes, "nn.gradient")], microBatch,
                               cast<RankedTensorType>(callee.getArgumentTypes()[i]));
    operands.push_back({place, Effect::read, Type()});
  }
  for (unsigned k = 0; k < callee.getNumResults(); ++k) {
    int64_t argument = attributeOf(callee.getResultAttrDict(k), "nn.gradient");
    operands.push_back(argument >= 0 ? gradientOf(layer, argument, microBatch, first, callee.getResultTypes()[k])
                                     : Bound{loss, first ? Effect::write : Effect::accumulate, Type()});
  }
  writer.compute(at(layer.isLoss ? "loss" : "backward", phase.layer, microBatch), callee, operands);
}

//===-- gradients and updates -------------------------------------------------------------------------------===//

void ScheduleBuilder::openGradients(int64_t layer) {
  gradientParts.clear();
  for (int64_t k : model.layers[layer].packs) {
    const GradientPack &pack = model.packs[k];
    if (writer.unified() && options.clip && pack.first() == layer)
      gradientParts[k] = keptGradients[k];
    else
      gradientParts[k] = {writer.slot("device " + gradientLabel(k, layer), "device", pack.bytes)};
  }
}

void ScheduleBuilder::endBackward(const Phase &phase) {
  writer.setPlace(phase.layer, -1);
  for (int64_t pack : model.layers[phase.layer].packs)
    if (!model.packs[pack].isShared())
      computeNorms(phase.layer, model.packs[pack]);
  for (int64_t pack : model.layers[phase.layer].packs)
    landGradients(phase.layer, pack);
  if (!options.clip)
    updateLayer(phase.layer);
}

/// Squared norms of gradients that one layer alone gives: on the device, where they are.
void ScheduleBuilder::computeNorms(int64_t layer, const GradientPack &pack) {
  Builder builder(module.getContext());
  Type single = nn::tensorOf({1}, builder.getF64Type());
  ArrayRef<int64_t> parameters = pack.parameters;
  Place target = norms[parameters[0]];
  if (!writer.unified())
    target = {writer.slot("norms of layer " + Twine(layer), "device", 8 * parameters.size())};
  SmallVector<Bound> operands;
  for (auto [i, p] : llvm::enumerate(parameters)) {
    const ModelParameter &parameter = model.parameters[p];
    operands.push_back({gradientParts.at(parameter.pack) + parameter.packOffset, Effect::read, parameter.fullType()});
    operands.push_back({writer.unified() ? norms[p] : target + 8 * i, Effect::write, single});
  }
  writer.kernel("norms layer " + Twine(layer), writer.streams().compute, "squared_norm", operands, parameters.size(), parameters);
  if (!writer.unified())
    for (size_t i = 0; i < parameters.size();) { // runs of neighbours go in one copy
      size_t end = i + 1;
      while (end < parameters.size() && norms[parameters[end]].offset == norms[parameters[i]].offset + int64_t(8 * (end - i)))
        ++end;
      writer.offload("norms layer " + Twine(layer), target + 8 * i, norms[parameters[i]], 8 * (end - i));
      i = end;
    }
}

/// The first part of a gradient lands where the others are then added to it, in the order of backward: one place,
/// however many layers use the parameters, and the same sum whatever the schedule. The norm is that of the sum.
void ScheduleBuilder::landGradients(int64_t layer, int64_t k) {
  const GradientPack &pack = model.packs[k];
  bool isFirst = pack.first() == layer;
  Place part = gradientParts.at(k);
  if (!writer.unified()) {
    std::string label = gradientLabel(k, layer);
    Place landed = isFirst ? keptGradients[k] : Place();
    if (!landed)
      landed = {writer.slot("landed " + label, "staging", pack.bytes)};
    writer.offload(label, part, landed, pack.bytes);
    part = landed;
  }
  if (isFirst)
    gradients[k] = part;
  else
    addPart(pack, part, gradients.at(k));
  if (pack.isShared() && pack.complete() == layer)
    computeNormsOfSum(pack, gradients.at(k));
}

void ScheduleBuilder::addPart(const GradientPack &pack, Place part, Place sum) {
  SmallVector<Bound> operands;
  for (int64_t p : pack.parameters) {
    const ModelParameter &parameter = model.parameters[p];
    operands.push_back({part + parameter.packOffset, Effect::read, parameter.fullType()});
    operands.push_back({sum + parameter.packOffset, Effect::accumulate, parameter.fullType()});
  }
  writer.kernel("sum gradients of " + named(pack.parameters), writer.streams().update, "copy", operands, pack.parameters.size());
}

void ScheduleBuilder::computeNormsOfSum(const GradientPack &pack, Place sum) {
  Type single = nn::tensorOf({1}, Builder(module.getContext()).getF64Type());
  SmallVector<Bound> operands;
  for (int64_t p : pack.parameters) {
    operands.push_back({sum + model.parameters[p].packOffset, Effect::read, model.parameters[p].fullType()});
    operands.push_back({norms[p], Effect::write, single});
  }
  writer.kernel("norm of " + named(pack.parameters), writer.streams().update, "squared_norm", operands, pack.parameters.size(),
                pack.parameters);
}

/// With clipping, gradients wait in their kept places and a layer's own weights are updated before it reads them;
/// without, what is complete is updated.
void ScheduleBuilder::updateLayer(int64_t layer) {
  SmallVector<int64_t> whole, split;
  for (int64_t p : options.clip ? trainedOf(layer) : completedBy(layer))
    (model.parameters[p].isSplit() ? split : whole).push_back(p);
  writer.setPlace(layer, -1);
  for (ArrayRef<int64_t> parameters : {ArrayRef<int64_t>(whole), ArrayRef<int64_t>(split)})
    if (!parameters.empty())
      updateParameters(layer, parameters);
}

/// Parameters of one kind: whole masters, or split ones.
void ScheduleBuilder::updateParameters(int64_t layer, ArrayRef<int64_t> parameters) {
  Builder builder(module.getContext());
  Type single = nn::tensorOf({1}, builder.getF64Type());
  Type scalarsType = nn::tensorOf({kernels::Scalars::kCount}, builder.getF64Type());
  bool isSplit = model.parameters[parameters[0]].isSplit();
  SmallVector<Bound> operands;
  for (int64_t p : parameters) {
    const ModelParameter &parameter = model.parameters[p];
    RankedTensorType type = parameter.type, full = parameter.fullType();
    Place gradient = options.clip ? keptGradients[parameter.pack] : gradients.at(parameter.pack);
    operands.push_back({gradient + parameter.packOffset, Effect::read, full});
    operands.push_back({norms[p], Effect::read, single});
    operands.push_back({options.clip ? finalScalars : scalars, Effect::read, scalarsType});
    operands.push_back({weights[p], Effect::update, type});
    if (isSplit)
      operands.push_back({remainder[p], Effect::update, nn::tensorOf(type.getShape(), builder.getIntegerType(16))});
    operands.push_back({firstMoment[p], Effect::update, full});
    if (secondMoment[p])
      operands.push_back({secondMoment[p], Effect::update, full});
  }
  writer.update("update layer " + Twine(layer), options.optimizer + (isSplit ? "_split" : ""), operands, parameters.size(), parameters);
}

} // namespace mt::passes
