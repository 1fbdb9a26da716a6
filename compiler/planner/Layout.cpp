#include "compiler/planner/Layout.h"

#include "kernels/Blocks.h"

#include <algorithm>
#include <utility>

namespace mt::planner {

const TensorType kScalarsType{kernels::DType::f64, {kernels::Scalars::kCount}}, kNormType{kernels::DType::f64, {1}},
    kLossType{kernels::DType::f32, {}};

int64_t scalarRowOf(int64_t p) { return kernels::scalarRow(p) * kScalarsType.bytes(); }

Layout::Layout(Context &context) {
  for (auto *places : {&weights, &residentWeights, &norms, &ownParts, &allParts, &ownNorms})
    places->resize(context.model.parameters.size());
  for (State *each : {&state, &residentState})
    for (const Parameter &entry : context.model.parameters)
      each->emplace_back(entry.rest.size());
  for (int64_t l = 0; l < context.layerCount(); ++l)
    placeWeights(context, l);
  for (size_t p = 0; p < context.model.parameters.size(); ++p)
    if (context.model.parameters[p].owner < 0) {
      weights[p] = context.out.slot(context.out.text("weights of no layer"), context.machine.staging, Kind::weight,
                                    context.model.parameters[p].type.bytes(), true);
      context.out.schedule.slots.back().holds = {{static_cast<int64_t>(p), plan::kWeightPart, 0}};
    }
  placeResidents(context);
  placeNorms(context);
  placeInputs(context);
}

bool Layout::updatesOn(const Context &context, uint32_t device) const {
  for (int64_t l = 0; l < context.layerCount(); ++l)
    if (context.deviceOf(l) == device && (!residentOf(l).empty() || context.streamsState(l)))
      return true;
  return false;
}

void Layout::placeWeights(Context &context, int64_t l) {
  int64_t bytes = 0;
  std::vector<Held> holds;
  for (int64_t p : context.layer(l).owned) {
    weights[static_cast<size_t>(p)].offset = bytes;
    holds.push_back({p, plan::kWeightPart, bytes});
    bytes += aligned(context.parameter(p).type.bytes());
  }
  if (bytes == 0)
    return;
  Place slot = context.out.slot(context.out.text("weights layer {}", l),
                                context.hasWeightsInFile(l) ? *context.machine.file : context.machine.staging,
                                Kind::weight, bytes, true);
  context.out.schedule.slots.back().holds = std::move(holds);
  for (int64_t p : context.layer(l).owned)
    weights[static_cast<size_t>(p)].slot = slot.slot;
  const uint32_t space = context.hasStateInFile(l) ? *context.machine.file
                         : context.streamsState(l) ? context.machine.staging // where links reach it
                                                   : context.machine.state;
  std::vector<Held> held =
      placeState(context, context.out.text("state layer {}", l), space, context.layer(l).owned, state, true);
  if (!held.empty())
    context.out.schedule.slots.back().holds = std::move(held);
}

std::vector<Held> placeState(Context &context, std::string name, uint32_t space, const std::vector<int64_t> &parameters,
                             State &into, bool persistent) {
  int64_t bytes = 0;
  std::vector<Held> holds;
  std::vector<Place *> places;
  for (int64_t p : parameters) {
    const Parameter &entry = context.parameter(p);
    for (size_t i = 0; i < entry.rest.size() && entry.isTrained(); ++i) {
      Place &place = into[static_cast<size_t>(p)][i];
      place.offset = bytes;
      places.push_back(&place);
      holds.push_back({p, entry.rest[i].part, bytes});
      bytes += aligned(entry.rest[i].type.bytes());
    }
  }
  if (places.empty())
    return {};
  Place slot = context.out.slot(std::move(name), space, Kind::state, bytes, persistent);
  for (Place *place : places)
    place->slot = slot.slot;
  return holds;
}

void Layout::placeResidents(Context &context) {
  resident.resize(context.model.layers.size());
  for (const Layer &each : context.model.layers)
    for (int64_t p : each.owned)
      if (context.hasResidentWeights(context.model.homeOf(p)))
        resident[static_cast<size_t>(context.model.homeOf(p))].push_back(p);
  for (int64_t l = 0; l < context.layerCount(); ++l) {
    const std::vector<int64_t> &list = residentOf(l);
    if (list.empty())
      continue;
    int64_t bytes = 0;
    for (int64_t p : list) {
      residentWeights[static_cast<size_t>(p)].offset = bytes;
      bytes += aligned(context.parameter(p).type.bytes());
    }
    const uint32_t memory = context.device(context.deviceOf(l)).memory;
    Place slot = context.out.slot(context.out.text("resident weights layer {}", l), memory, Kind::weight, bytes, true);
    for (int64_t p : list)
      residentWeights[static_cast<size_t>(p)].slot = slot.slot;
    if (context.isResident(l))
      placeState(context, context.out.text("resident state layer {}", l), memory, list, residentState, true);
  }
}

void Layout::placeNorms(Context &context) {
  const int64_t count = std::ranges::count_if(context.model.parameters, &Parameter::isTrained);
  Place next = context.out.slot(context.out.text("squared norms"), context.machine.staging, Kind::scalar,
                                kNormType.bytes() * count, true);
  for (int64_t l = 0; l < context.layerCount(); ++l)
    for (int64_t p : context.layer(l).owned)
      if (context.parameter(p).isTrained()) {
        norms[static_cast<size_t>(p)] = next;
        next = next + kNormType.bytes();
      }
  if (!context.hasRanks() && !context.sharesBatch())
    return;
  auto place = [&](std::string name, std::vector<Place> &places, auto count) {
    int64_t total = 0;
    for (const Parameter &entry : context.model.parameters)
      total += entry.isTrained() ? count(entry) : 0;
    Place at =
        context.out.slot(std::move(name), context.machine.staging, Kind::scalar, kNormType.bytes() * total, true);
    for (size_t p = 0; p < places.size(); ++p)
      if (const Parameter &entry = context.model.parameters[p]; entry.isTrained()) {
        places[p] = at;
        at = at + kNormType.bytes() * count(entry);
      }
  };
  place(context.out.text("parts of squared norms"), allParts, allPartsOf);
  if (!context.hasRanks())
    return;
  place(context.out.text("parts of squared norms of this rank"), ownParts, ownPartsOf);
  place(context.out.text("squared norms of this rank"), ownNorms, [](const Parameter &) { return 1; });
}

int64_t Layout::allPartsOf(const Parameter &parameter) {
  return kernels::ceilDivide(parameter.type.elements(), parameter.shares.chunk);
}
int64_t Layout::ownPartsOf(const Parameter &parameter) {
  return kernels::ceilDivide(parameter.shares.elements(), parameter.shares.chunk);
}

void Layout::placeInputs(Context &context) {
  const Model &model = context.model;
  auto place = [&](std::string name, Kind kind, int64_t bytes) {
    return context.out.slot(std::move(name), context.machine.staging, kind, bytes, true);
  };
  for (const Input &input : model.inputs) {
    inputs.push_back(
        place(context.out.text("input {}", input.name), Kind::input, input.type.bytes() * model.microBatches));
    context.out.schedule.slots.back().input = static_cast<int64_t>(inputs.size()) - 1;
  }
  const int64_t rows = kernels::scalarRow(static_cast<int64_t>(model.parameters.size()));
  scalarRows =
      &context.out.schedule.types.emplace_back(TensorType{kernels::DType::f64, {rows, kernels::Scalars::kCount}});
  scalars = place(context.out.text("scalars"), Kind::scalar, scalarRows->bytes());
  context.out.schedule.slots.back().input = -1;
  stepScalars = place(context.out.text("step scalars"), Kind::scalar, scalarRows->bytes());
  finalScalars = place(context.out.text("final scalars"), Kind::scalar, scalarRows->bytes());
}

void Moves::add(Place host, Place device, int64_t bytes) {
  if (!list.empty()) {
    Moved &last = list.back();
    const int64_t beside = aligned(last.bytes);
    if (last.host.slot == host.slot && last.device.slot == device.slot && last.host.offset + beside == host.offset &&
        last.device.offset + beside == device.offset) {
      last.bytes = beside + bytes;
      return;
    }
  }
  list.push_back({host, device, bytes});
}

void Moves::addState(const Context &context, const Layout &layout, const std::vector<int64_t> &parameters,
                     const State &onDevice) {
  for (int64_t p : parameters)
    for (size_t i = 0; i < context.parameter(p).rest.size(); ++i)
      if (Place place = onDevice[static_cast<size_t>(p)][i])
        add(layout.state[static_cast<size_t>(p)][i], place, context.parameter(p).rest[i].type.bytes());
}

void Moves::emit(Emitter &out, const std::string &label, bool up) {
  for (const Moved &each : std::exchange(list, {}))
    out.move(label, up ? each.host : each.device, up ? each.device : each.host, each.bytes);
}

} // namespace mt::planner
