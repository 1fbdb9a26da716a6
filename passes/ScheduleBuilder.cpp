// Phases, persistent places and the three programs: the outline of a schedule. ScheduleLayers.cpp has what happens
// within a phase.
#include "passes/ScheduleBuilder.h"

#include "kernels/Catalogue.h"
#include "kernels/Optimizers.h"
#include "runtime/plan/Program.h"

using namespace mlir;
using namespace mt::schedule;

namespace mt::passes {
namespace {
constexpr int64_t kScalarsBytes = kernels::Scalars::kCount * sizeof(double);
constexpr int64_t kWeight = int64_t(plan::PartRole::weight), kRemainder = int64_t(plan::PartRole::remainder),
                  kFirstMoment = int64_t(plan::PartRole::firstMoment), kSecondMoment = int64_t(plan::PartRole::secondMoment);
} // namespace

ScheduleBuilder::ScheduleBuilder(ModuleOp module, const LayerModel &model, const plan::Settings &options,
                                 CommandWriter &writer)
    : module(module), model(model), options(options), microBatches(options.batch / options.microBatch), writer(writer) {}

int64_t ScheduleBuilder::bytesOf(int64_t parameter) const { return schedule::bytesOf(model.parameters[parameter].type); }
int64_t ScheduleBuilder::fullBytesOf(int64_t parameter) const { return schedule::bytesOf(model.parameters[parameter].fullType()); }

SmallVector<int64_t> ScheduleBuilder::trainedOf(int64_t layer) const {
  SmallVector<int64_t> trained;
  for (int64_t parameter : model.layers[layer].owned)
    if (model.parameters[parameter].isTrained())
      trained.push_back(parameter);
  return trained;
}

SmallVector<int64_t> ScheduleBuilder::completedBy(int64_t layer) const {
  SmallVector<int64_t> completed;
  for (int64_t pack : model.layers[layer].packs)
    if (model.packs[pack].complete() == layer)
      completed.append(model.packs[pack].parameters);
  return completed;
}

std::string ScheduleBuilder::named(ArrayRef<int64_t> parameters) const {
  std::string more = parameters.size() > 1 ? (" and " + Twine(parameters.size() - 1) + " more").str() : "";
  return model.parameters[parameters[0]].name + more;
}

std::string ScheduleBuilder::gradientLabel(int64_t pack, int64_t layer) const {
  if (model.packs[pack].complete() == layer)
    return ("gradients layer " + Twine(layer)).str();
  return ("gradient " + named(model.packs[pack].parameters) + " layer " + Twine(layer)).str();
}

/// Even phases go up through the micro-batches, odd ones down.
SmallVector<int64_t> ScheduleBuilder::order(int64_t phase) const {
  SmallVector<int64_t> indices = llvm::to_vector(llvm::seq<int64_t>(0, microBatches));
  if (phase % 2)
    std::reverse(indices.begin(), indices.end());
  return indices;
}

void ScheduleBuilder::build() {
  placePersistent();
  buildStep();
  buildFinish();
  buildEvaluate();
}

void ScheduleBuilder::placeWeights() {
  for (auto *places : {&weights, &remainder, &firstMoment, &secondMoment, &norms})
    places->resize(model.parameters.size());
  int64_t trainedCount = 0;
  for (int64_t l = 0; l < int64_t(model.layers.size()); ++l) {
    int64_t bytes = 0;
    for (int64_t parameter : model.layers[l].owned) {
      weights[parameter].offset = bytes;
      bytes += llvm::alignTo(bytesOf(parameter), kSlotAlignment);
    }
    if (bytes == 0)
      continue;
    Value slot = writer.slot("weights layer " + Twine(l), "staging", bytes, true);
    SmallVector<int64_t> holds;
    for (int64_t parameter : model.layers[l].owned) {
      weights[parameter].slot = slot;
      holds.append({parameter, kWeight, weights[parameter].offset});
    }
    writer.holds(slot, holds);
    for (int64_t parameter : trainedOf(l))
      norms[parameter].offset = 8 * trainedCount++;
    placeState(l);
  }
  for (int64_t p = 0; p < int64_t(model.parameters.size()); ++p)
    if (model.parameters[p].owner < 0) {
      weights[p] = {writer.slot("weights of no layer", "staging", bytesOf(p), true)};
      writer.holds(weights[p].slot, {p, kWeight, 0});
    }
  Value normSlot = writer.slot("squared norms", "staging", 8 * trainedCount, true);
  for (int64_t p = 0; p < int64_t(model.parameters.size()); ++p)
    if (model.parameters[p].isTrained())
      norms[p].slot = normSlot;
}

/// What of a layer's trained parameters stays on the host: remainders of split masters, moments.
void ScheduleBuilder::placeState(int64_t layer) {
  int64_t bytes = 0;
  SmallVector<int64_t> holds;
  SmallVector<Place *> places;
  for (int64_t parameter : trainedOf(layer)) {
    auto add = [&](std::vector<Place> &list, int64_t role, int64_t size) {
      list[parameter].offset = bytes;
      places.push_back(&list[parameter]);
      holds.append({parameter, role, bytes});
      bytes += llvm::alignTo(size, kSlotAlignment);
    };
    int64_t full = fullBytesOf(parameter);
    if (model.parameters[parameter].isSplit())
      add(remainder, kRemainder, bytesOf(parameter));
    add(firstMoment, kFirstMoment, full);
    if (kernels::keepsSecondMoment(options.optimizer))
      add(secondMoment, kSecondMoment, full);
  }
  if (places.empty())
    return;
  Value state = writer.slot("state layer " + Twine(layer), "state", bytes, true);
  for (Place *place : places)
    place->slot = state;
  writer.holds(state, holds);
}

void ScheduleBuilder::placeGradients() {
  keptGradients.resize(model.packs.size());
  if (options.clip)
    for (auto [i, pack] : llvm::enumerate(model.packs))
      keptGradients[i] = {writer.slot(gradientLabel(i, pack.complete()), "staging", pack.bytes, true)};
}

void ScheduleBuilder::placeInputs() {
  for (const ModelInput &input : model.inputs) {
    int64_t bytes = schedule::bytesOf(input.type) * microBatches;
    inputs.push_back({writer.slot("input " + input.name, "staging", bytes, true)});
    writer.isInput(inputs.back().slot, inputs.size() - 1);
  }
  scalars = {writer.slot("scalars", "staging", kScalarsBytes, true)};
  writer.isInput(scalars.slot, -1);
  finalScalars = {writer.slot("final scalars", "staging", kScalarsBytes, true)};
}

void ScheduleBuilder::placePersistent() {
  placeWeights();
  placeGradients();
  placeInputs();
}

void ScheduleBuilder::startProgram(Program program) {
  writer.setProgram(program);
  writer.setPlace(-1, -1);
  evaluating = program == Program::evaluate;
  inputPlaces.clear(), deviceWeights.clear();
  valuePlaces.clear(), parkedPlaces.clear(), valueGradients.clear(), savedPlaces.clear(), gradients.clear();
  phases.clear();
}

/// The batch and the step's scalars, written by the host, and the scalars' way to the device.
void ScheduleBuilder::feed() {
  OpBuilder builder(module.getContext());
  auto scalarsType = nn::tensorOf({kernels::Scalars::kCount}, builder.getF64Type());
  SmallVector<Bound> operands;
  for (auto [input, place] : llvm::zip(model.inputs, inputs))
    for (int64_t m = 0; m < microBatches; ++m)
      operands.push_back({place + m * schedule::bytesOf(input.type), Effect::write, input.type});
  operands.push_back({scalars, Effect::write, scalarsType});
  writer.kernel("feed", writer.streams().feed, "feed", operands);
  deviceScalars = scalars;
  if (!writer.unified()) {
    deviceScalars = {writer.slot("device scalars", "device", kScalarsBytes)};
    writer.prefetch("scalars", scalars, deviceScalars, kScalarsBytes);
  }
  loss = {writer.slot("loss", "device", 4)};
}

void ScheduleBuilder::buildStep() {
  startProgram(Program::step);
  int64_t count = model.layers.size();
  for (int64_t l = 0; l + 1 < count; ++l)
    phases.push_back({l, false});
  for (int64_t l = count - 1; l >= 0; --l)
    if (model.layers[l].backward)
      phases.push_back({l, true});
  feed();
  runPhases();
  endStep();
}

void ScheduleBuilder::buildEvaluate() {
  startProgram(Program::evaluate);
  for (int64_t l = 0; l < int64_t(model.layers.size()); ++l)
    phases.push_back({l, false});
  feed();
  runPhases();
  endStep();
}

void ScheduleBuilder::buildFinish() {
  startProgram(Program::finish);
  if (!options.clip)
    return;
  for (int64_t l = 0; l < int64_t(model.layers.size()); ++l)
    updateLayer(l);
  OpBuilder builder(module.getContext());
  auto type = nn::tensorOf({kernels::Scalars::kCount}, builder.getF64Type());
  auto zeros = builder.getDictionaryAttr(builder.getNamedAttr("value", DenseElementsAttr::get(type, 0.0)));
  writer.setPlace(-1, -1);
  writer.kernel("nothing pending", writer.streams().update, "constant", Bound{finalScalars, Effect::write, type}, 1, {}, zeros);
}

/// Global norm and clip scale, the loss's way back, and the report to the training loop.
void ScheduleBuilder::endStep() {
  writer.setPlace(-1, -1);
  OpBuilder builder(module.getContext());
  auto scalarsType = nn::tensorOf({kernels::Scalars::kCount}, builder.getF64Type());
  auto lossType = nn::tensorOf({}, builder.getF32Type());
  Place reported = scalars, landed = loss;
  if (!evaluating) {
    SmallVector<Bound> operands{{scalars, Effect::read, scalarsType}};
    SmallVector<int64_t> parameters;
    for (int64_t p = 0; p < int64_t(model.parameters.size()); ++p)
      if (model.parameters[p].isTrained()) {
        operands.push_back({norms[p], Effect::read, nn::tensorOf({1}, builder.getF64Type())});
        parameters.push_back(p);
      }
    operands.push_back({finalScalars, Effect::write, scalarsType});
    writer.kernel("gradient norm", writer.streams().update, "step_norm", operands);
    reported = finalScalars;
  }
  if (!writer.unified()) {
    landed = {writer.slot("landed loss", "staging", 4)};
    writer.offload("loss", loss, landed, 4);
  }
  writer.kernel("report", writer.streams().host, "report",
                {{landed, Effect::read, lossType}, {reported, Effect::read, scalarsType}});
}

void ScheduleBuilder::runPhases() {
  // Work items in issue order; what item t + 1 needs of activations is issued before item t computes.
  struct Item {
    int64_t phase, microBatch;
    bool first, last;
  };
  std::vector<Item> items;
  for (int64_t p = 0; p < int64_t(phases.size()); ++p) {
    SmallVector<int64_t> indices = order(p);
    for (auto [i, m] : llvm::enumerate(indices))
      items.push_back({p, m, i == 0, i + 1 == indices.size()});
  }
  int64_t prepared = -1;
  for (size_t t = 0; t < items.size(); ++t) {
    const Item &item = items[t];
    for (int64_t ahead = std::min<int64_t>(item.phase + options.prefetchDistance, phases.size() - 1); prepared < ahead;)
      preparePhase(++prepared);
    if (t == 0)
      prefetchValues(item.phase, item.microBatch);
    if (t + 1 < items.size())
      prefetchValues(items[t + 1].phase, items[t + 1].microBatch);
    runPhase(item.phase, item.microBatch, item.first);
    if (item.last && phases[item.phase].backward)
      endBackward(phases[item.phase]);
  }
}

} // namespace mt::passes
