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
int64_t attributeOf(DictionaryAttr attributes, StringRef name) {
  auto number = attributes ? attributes.getAs<IntegerAttr>(name) : IntegerAttr();
  return number ? number.getInt() : -1;
}
/// Whether a backward template reads an operand of its layer.
bool readsOperand(func::FuncOp backward, int64_t operand) {
  for (unsigned i = 0; i < backward.getNumArguments(); ++i)
    if (attributeOf(backward.getArgAttrDict(i), "nn.argument") == operand)
      return true;
  return false;
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

/// Whether the phase's template takes a parameter: backward needs no table that forward only took rows from.
bool ScheduleBuilder::reads(const Phase &phase, int64_t parameter) const {
  const Layer &layer = model.layers[phase.layer];
  bool all = !phase.backward || layer.isLoss;
  for (auto [number, operand] : llvm::enumerate(layer.operands))
    if (operand.kind == LayerOperand::parameter && operand.index == parameter &&
        (all || readsOperand(layer.backward, number)))
      return true;
  return false;
}

/// Brings in what a phase reads of a layer's own weights in one copy, and others that it uses one by one. Weights that
/// are still there from a phase that is not far back stay.
void ScheduleBuilder::prefetchWeights(int64_t phase) {
  int64_t l = phases[phase].layer;
  const Layer &layer = model.layers[l];
  writer.setPlace(l, -1);
  auto found = weightsUntil.find(l);
  bool there = found != weightsUntil.end() && (options.resident || found->second + options.distance >= phase);
  weightsUntil[l] = phase;
  if (writer.unified()) {
    for (int64_t p = 0; p < int64_t(weights.size()); ++p)
      deviceWeights[p] = weights[p];
    return;
  }
  if (there)
    return;
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  for (int64_t p : layer.owned)
    if (reads(phases[phase], p)) {
      begin = std::min(begin, weights[p].offset);
      end = std::max(end, weights[p].offset + bytesOf(p));
    }
  if (begin < end) {
    Value slot = writer.slot("device weights layer " + Twine(l), "device", end - begin);
    writer.prefetch("weights layer " + Twine(l), {weights[layer.owned[0]].slot, begin}, {slot}, end - begin);
    for (int64_t p : layer.owned)
      if (reads(phases[phase], p))
        deviceWeights[p] = {slot, weights[p].offset - begin};
  }
  for (const LayerOperand &operand : layer.operands) {
    if (operand.kind != LayerOperand::parameter || model.parameters[operand.index].owner == l ||
        !reads(phases[phase], operand.index))
      continue;
    int64_t p = operand.index;
    Value slot = writer.slot("device weight " + model.parameters[p].name + " layer " + Twine(l), "device", bytesOf(p));
    writer.prefetch("weight " + model.parameters[p].name + " layer " + Twine(l), weights[p], {slot}, bytesOf(p));
    deviceWeights[p] = {slot};
  }
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
    return deviceWeights.at(what.index);
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
  if (what.kind == LayerOperand::parameter)
    return {gradients.at(what.index), first ? Effect::write : Effect::accumulate, Type()};
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
  if (first) { // places for the gradients of the layer's parameters
    gradients.clear();
    int64_t bytes = 0;
    for (int64_t p : trainedOf(phase.layer)) {
      gradients[p].offset = bytes;
      bytes += llvm::alignTo(fullBytesOf(p), kSlotAlignment);
    }
    Place pack = writer.unified() ? keptGradients[phase.layer] : Place();
    if (bytes > 0 && !pack)
      pack = {writer.slot("gradients of layer " + Twine(phase.layer), "device", bytes)};
    for (int64_t p : trainedOf(phase.layer))
      gradients[p].slot = pack.slot;
    for (const LayerOperand &operand : layer.operands)
      if (operand.kind == LayerOperand::parameter && model.parameters[operand.index].trainable &&
          model.parameters[operand.index].owner != phase.layer)
        gradients[operand.index] = {writer.slot("gradient of " + model.parameters[operand.index].name + " in layer " +
                                                    Twine(phase.layer), "device", fullBytesOf(operand.index))};
  }
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

void ScheduleBuilder::endBackward(const Phase &phase) {
  writer.setPlace(phase.layer, -1);
  computeNorms(phase.layer);
  offloadGradients(phase.layer);
  addForeignParts(phase.layer);
  if (!options.clip)
    updateLayer(phase.layer);
}

/// Squared norms of the gradients that are complete: of parameters that no other layer uses.
void ScheduleBuilder::computeNorms(int64_t layer) {
  Builder builder(module.getContext());
  Type single = nn::tensorOf({1}, builder.getF64Type());
  SmallVector<int64_t> complete;
  for (int64_t p : trainedOf(layer))
    if (!isShared(p))
      complete.push_back(p);
  if (complete.empty())
    return;
  Place target = norms[complete[0]];
  if (!writer.unified())
    target = {writer.slot("norms of layer " + Twine(layer), "device", 8 * complete.size())};
  SmallVector<Bound> operands;
  for (auto [i, p] : llvm::enumerate(complete)) {
    operands.push_back({gradients.at(p), Effect::read, model.parameters[p].fullType()});
    operands.push_back({writer.unified() ? norms[p] : target + 8 * i, Effect::write, single});
  }
  writer.kernel("norms layer " + Twine(layer), writer.streams().compute, "squared_norm", operands, complete.size(), complete);
  if (!writer.unified())
    for (size_t i = 0; i < complete.size();) { // runs of neighbours go in one copy
      size_t end = i + 1;
      while (end < complete.size() && norms[complete[end]].offset == norms[complete[i]].offset + int64_t(8 * (end - i)))
        ++end;
      writer.offload("norms layer " + Twine(layer), target + 8 * i, norms[complete[i]], 8 * (end - i));
      i = end;
    }
}

void ScheduleBuilder::offloadGradients(int64_t layer) {
  SmallVector<int64_t> own = trainedOf(layer);
  llvm::SmallDenseSet<int64_t> owned(own.begin(), own.end());
  int64_t bytes = 0;
  for (int64_t p : own)
    bytes = std::max(bytes, gradients.at(p).offset + fullBytesOf(p));
  if (!writer.unified() && bytes > 0) {
    Place landed = keptGradients[layer];
    if (!landed)
      landed = {writer.slot("landed gradients of layer " + Twine(layer), "staging", bytes)};
    writer.offload("gradients layer " + Twine(layer), {gradients.at(own[0]).slot}, landed, bytes);
    for (int64_t p : own)
      gradients[p].slot = landed.slot;
  }
  for (auto &[p, place] : gradients) {
    if (owned.contains(p))
      continue;
    if (!writer.unified()) {
      Place landed{writer.slot("landed gradient of " + model.parameters[p].name + " in layer " + Twine(layer), "staging", fullBytesOf(p))};
      writer.offload("gradient " + model.parameters[p].name + " layer " + Twine(layer), place, landed, fullBytesOf(p));
      place = landed;
    }
    foreignParts[p].push_back(place);
  }
}

/// The owner's part of a shared parameter's gradient is the last to land: the others are added to it, in the order in
/// which they landed, and the norm is that of the sum.
void ScheduleBuilder::addForeignParts(int64_t layer) {
  Builder builder(module.getContext());
  for (int64_t p : trainedOf(layer)) {
    if (!isShared(p))
      continue;
    Type type = model.parameters[p].fullType();
    for (Place part : foreignParts[p])
      writer.kernel("sum gradients of " + model.parameters[p].name, writer.streams().update, "copy",
                    {{part, Effect::read, type}, {gradients.at(p), Effect::accumulate, type}});
    writer.kernel("norm of " + model.parameters[p].name, writer.streams().update, "squared_norm",
                  {{gradients.at(p), Effect::read, type}, {norms[p], Effect::write, nn::tensorOf({1}, builder.getF64Type())}},
                  1, p);
  }
}

void ScheduleBuilder::updateLayer(int64_t layer) {
  SmallVector<int64_t> whole, split;
  for (int64_t p : trainedOf(layer))
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
  llvm::SmallDenseMap<int64_t, int64_t> kept;
  int64_t bytes = 0;
  for (int64_t p : trainedOf(layer)) {
    kept[p] = bytes;
    bytes += llvm::alignTo(fullBytesOf(p), kSlotAlignment);
  }
  SmallVector<Bound> operands;
  for (int64_t p : parameters) {
    RankedTensorType type = model.parameters[p].type, full = model.parameters[p].fullType();
    Place gradient = options.clip ? keptGradients[layer] + kept[p] : gradients.at(p);
    operands.push_back({gradient, Effect::read, full});
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
