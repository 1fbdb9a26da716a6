#include "compiler/planner/Builder.h"

#include "compiler/planner/Emitter.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace mt::planner {
namespace {
using plan::BindingEffect;

const TensorType kScalarsType{kernels::DType::f64, {kernels::Scalars::kCount}}, kNormType{kernels::DType::f64, {1}},
    kLossType{kernels::DType::f32, {}};

class Builder {
public:
  Builder(const Model &model, const Machine &machine, const Decisions &decisions, Extent extent)
      : model(model), machine(machine), decisions(decisions), extent(extent), out(model, machine, extent == Extent::plan) {
    for (size_t v = 0; v < model.values.size(); ++v)
      parked.push_back(!machine.unified() && decisions.parked[v] && canPark(model, decisions, static_cast<int64_t>(v)));
    const std::vector<bool> canWait = canParkSaved(model, machine);
    for (int64_t l = 0; l < layerCount(); ++l) {
      saved.push_back(layer(l).isDifferentiated() && !layer(l).isLoss ? savedBytes(l) : 0);
      parkedSaved.push_back(canWait[static_cast<size_t>(l)] && decision(l).parkedSaved && saved.back() > 0);
    }
    streams.assign(model.layers.size(), false);
    if (std::ranges::any_of(decisions.layers, &LayerDecision::stateStreamed)) // which layers can takes a while to find out
      streams = canStreamState(model, machine);
    for (int64_t l = 0; l < layerCount(); ++l)
      streams[static_cast<size_t>(l)] = streams[static_cast<size_t>(l)] && decision(l).stateStreamed && !isResident(l);
  }

  Schedule run() {
    placePersistent();
    buildStep();
    if (extent == Extent::plan) {
      buildFinish();
      buildEvaluate();
      buildLoad();
      buildStore();
    }
    return std::move(out.schedule);
  }

private:
  /// All micro-batches of one layer in one direction.
  struct Phase {
    int64_t layer;
    bool backward;
  };
  /// Where a parameter was brought, and the last phase that it was wanted there for.
  struct DeviceWeight {
    Place place;
    int64_t until = 0;
  };
  using Key = std::pair<int64_t, int64_t>; ///< (index, micro-batch)

  const Model &model;
  const Machine &machine;
  const Device &here = machine.devices.front(); ///< what computes
  const Decisions &decisions;
  const Extent extent;
  Emitter out;
  std::vector<int64_t> saved;    ///< by layer: bytes of what its forward saves, one after another
  std::vector<bool> parkedSaved; ///< by layer: whether that waits on the host
  std::vector<bool> streams;     ///< by layer: whether its state is streamed
  std::vector<bool> parked; ///< by value; with the rungs that were decided, backward may not read it any more
  bool evaluating = false;
  std::vector<Phase> phases;
  int64_t running = 0; ///< of them

  // Persistent places.
  std::vector<Place> weights; ///< by parameter, host
  /// What an update reads and writes besides, by parameter, as Parameter::rest lists it.
  using State = std::vector<std::vector<Place>>;
  State state;                       ///< host
  std::vector<std::vector<int64_t>> resident; ///< by layer: parameters that it is the home of, where it is resident
  std::vector<Place> residentWeights;         ///< by parameter, device: of those
  State residentState;
  State streamedState;                        ///< device: of the layer that is being updated
  std::map<int64_t, Place> streamedWeights;   ///< by parameter
  std::vector<Place> norms;   ///< by parameter, host, f64[1]
  std::vector<Place> inputs;  ///< by input, host, all micro-batches
  /// Host. What is fed, a copy for the step (so that the next can be fed while this one's updates run), and the copy
  /// that the step's end completes.
  Place scalars, stepScalars, finalScalars;
  const TensorType *scalarRows = nullptr; ///< of each of them: a row for the step, and one for each parameter

  // What is where in the program being built.
  std::map<Key, Place> inputPlaces; ///< (input, micro-batch) on the device
  Place deviceScalars, loss;
  Place deviceFinalScalars;           ///< with clipping, where resident layers are
  std::map<int64_t, Place> deviceNorms; ///< by parameter, where the device has them
  std::map<int64_t, DeviceWeight> deviceWeights; ///< by parameter
  std::map<Key, Place> valuePlaces, parkedPlaces, valueGradients;
  std::map<Key, std::vector<Place>> savedPlaces; ///< (layer, micro-batch): by saved index; of what is one, the first
  std::map<Key, Place> parkedSavedPlaces; ///< (layer, micro-batch): of all of them, one after another
  std::map<int64_t, Place> gradientParts; ///< by pack, of the phase that runs
  /// Bytes of a pack from `begin` on: a part of a layer's.
  struct Landed {
    int64_t begin = 0, end = 0, part = 0;
    Place place, device; ///< where updates read it, and where it is before
    bool isLate = false; ///< it comes down in the next step
  };
  std::map<int64_t, std::vector<Landed>> gradients; ///< by pack, where updates read it: in one place, or one for each part

  const Parameter &parameter(int64_t index) const { return model.parameters[static_cast<size_t>(index)]; }
  const Layer &layer(int64_t index) const { return model.layers[static_cast<size_t>(index)]; }
  const Value &value(int64_t index) const { return model.values[static_cast<size_t>(index)]; }
  const GradientPack &pack(int64_t index) const { return model.packs[static_cast<size_t>(index)]; }
  const LayerDecision &decision(int64_t index) const { return decisions.layers[static_cast<size_t>(index)]; }
  const Rung &rungOf(int64_t index) const {
    return layer(index).rungs[layer(index).isLoss ? 0 : static_cast<size_t>(decision(index).rung)];
  }
  const Template &code(int64_t index) const { return model.templates[static_cast<size_t>(index)]; }
  Place &weightOf(int64_t index) { return weights[static_cast<size_t>(index)]; }
  Place &normOf(int64_t index) { return norms[static_cast<size_t>(index)]; }
  bool isResident(int64_t index) const { return index >= 0 && !machine.unified() && decision(index).resident; }
  bool isResidentParameter(int64_t p) const { return isResident(model.homeOf(p)); }
  bool updatesOnDevice(int64_t index) const { return isResident(index) || (index >= 0 && streams[static_cast<size_t>(index)]); }
  /// A pack's gradient is wanted where its update runs.
  bool staysOnDevice(int64_t k) const { return updatesOnDevice(pack(k).complete()); }
  bool anyUpdatesOnDevice() const {
    return std::ranges::any_of(resident, [](const std::vector<int64_t> &list) { return !list.empty(); }) || std::ranges::count(streams, true) > 0;
  }
  int64_t layerCount() const { return static_cast<int64_t>(model.layers.size()); }

  /// Where in scalars the row of a parameter is.
  static int64_t rowOf(int64_t p) { return kernels::scalarRow(p) * kScalarsType.bytes(); }

  std::string named(const std::vector<int64_t> &list) const {
    if (list.size() == 1)
      return out.text("{}", parameter(list[0]).name);
    return out.text("{} and {} more", parameter(list[0]).name, list.size() - 1);
  }
  std::string gradientLabel(int64_t k, int64_t index) const {
    if (pack(k).complete() == index)
      return out.text("gradients layer {}", index);
    return out.text("gradient {} layer {}", named(pack(k).parameters), index);
  }

  //-- persistent places ---------------------------------------------------------------------------------------------

  void placePersistent() {
    for (auto *places : {&weights, &residentWeights, &norms})
      places->resize(model.parameters.size());
    for (State *each : {&state, &residentState})
      for (const Parameter &entry : model.parameters)
        each->emplace_back(entry.rest.size());
    for (int64_t l = 0; l < layerCount(); ++l)
      placeWeights(l);
    for (size_t p = 0; p < model.parameters.size(); ++p)
      if (model.parameters[p].owner < 0) {
        weights[p] = out.slot(out.text("weights of no layer"), machine.staging, Kind::weight, model.parameters[p].type.bytes(), true);
        out.schedule.slots.back().holds = {{static_cast<int64_t>(p), plan::kWeightPart, 0}};
      }
    placeResidents();
    placeNorms();
    placeInputs();
  }

  void placeWeights(int64_t index) {
    int64_t bytes = 0;
    std::vector<Held> holds;
    for (int64_t p : layer(index).owned) {
      weightOf(p).offset = bytes;
      holds.push_back({p, plan::kWeightPart, bytes});
      bytes += aligned(parameter(p).type.bytes());
    }
    if (bytes == 0)
      return;
    Place slot = out.slot(out.text("weights layer {}", index), machine.staging, Kind::weight, bytes, true);
    out.schedule.slots.back().holds = std::move(holds);
    for (int64_t p : layer(index).owned)
      weightOf(p).slot = slot.slot;
    const uint32_t space = streams[static_cast<size_t>(index)] ? machine.staging : machine.state; // where links reach it
    if (std::vector<Held> held = placeState(out.text("state layer {}", index), space, layer(index).owned, state); !held.empty())
      out.schedule.slots.back().holds = std::move(held);
  }

  /// What of trained parameters only updates use. Returns what the slot holds.
  std::vector<Held> placeState(std::string name, uint32_t space, const std::vector<int64_t> &parameters, State &into, bool persistent = true) {
    int64_t bytes = 0;
    std::vector<Held> holds;
    std::vector<Place *> places;
    for (int64_t p : parameters) {
      if (!parameter(p).isTrained())
        continue;
      for (size_t i = 0; i < parameter(p).rest.size(); ++i) {
        Place &place = into[static_cast<size_t>(p)][i];
        place.offset = bytes;
        places.push_back(&place);
        holds.push_back({p, parameter(p).rest[i].part, bytes});
        bytes += aligned(parameter(p).rest[i].type.bytes());
      }
    }
    if (places.empty())
      return {};
    Place slot = out.slot(std::move(name), space, Kind::state, bytes, persistent);
    for (Place *place : places)
      place->slot = slot.slot;
    return holds;
  }

  void placeResidents() {
    resident.resize(model.layers.size());
    for (const Layer &each : model.layers)
      for (int64_t p : each.owned)
        if (isResidentParameter(p))
          resident[static_cast<size_t>(model.homeOf(p))].push_back(p);
    for (int64_t l = 0; l < layerCount(); ++l) {
      const std::vector<int64_t> &list = resident[static_cast<size_t>(l)];
      if (list.empty())
        continue;
      int64_t bytes = 0;
      for (int64_t p : list) {
        residentWeights[static_cast<size_t>(p)].offset = bytes;
        bytes += aligned(parameter(p).type.bytes());
      }
      Place slot = out.slot(out.text("resident weights layer {}", l), here.memory, Kind::weight, bytes, true);
      for (int64_t p : list)
        residentWeights[static_cast<size_t>(p)].slot = slot.slot;
      placeState(out.text("resident state layer {}", l), here.memory, list, residentState);
    }
  }

  void placeNorms() {
    int64_t count = 0;
    for (const Parameter &entry : model.parameters)
      count += entry.isTrained();
    Place slot = out.slot(out.text("squared norms"), machine.staging, Kind::scalar, 8 * count, true);
    count = 0;
    for (int64_t l = 0; l < layerCount(); ++l)
      for (int64_t p : layer(l).owned)
        if (parameter(p).isTrained())
          normOf(p) = slot + 8 * count++;
  }

  void placeInputs() {
    for (const Input &input : model.inputs) {
      inputs.push_back(out.slot(out.text("input {}", input.name), machine.staging, Kind::input,
                                input.type.bytes() * model.microBatches, true));
      out.schedule.slots.back().input = static_cast<int64_t>(inputs.size()) - 1;
    }
    const int64_t rows = kernels::scalarRow(static_cast<int64_t>(model.parameters.size()));
    scalarRows = &out.schedule.types.emplace_back(TensorType{kernels::DType::f64, {rows, kernels::Scalars::kCount}});
    scalars = out.slot(out.text("scalars"), machine.staging, Kind::scalar, scalarRows->bytes(), true);
    out.schedule.slots.back().input = -1;
    stepScalars = out.slot(out.text("step scalars"), machine.staging, Kind::scalar, scalarRows->bytes(), true);
    finalScalars = out.slot(out.text("final scalars"), machine.staging, Kind::scalar, scalarRows->bytes(), true);
  }

  //-- programs ------------------------------------------------------------------------------------------------------

  void startProgram(std::vector<Command> &program) {
    out.startProgram(program);
    out.setPlace(-1, -1);
    out.setPhase(0);
    evaluating = &program == &out.schedule.evaluate;
    inputPlaces.clear(), deviceWeights.clear(), deviceNorms.clear();
    valuePlaces.clear(), parkedPlaces.clear(), valueGradients.clear(), savedPlaces.clear(), parkedSavedPlaces.clear();
    phases.clear();
  }

  /// The batch and the step's scalars, written by the host, and the scalars' way to the device.
  void feed() {
    std::vector<Access> operands;
    for (size_t i = 0; i < inputs.size(); ++i)
      for (int64_t m = 0; m < model.microBatches; ++m)
        operands.push_back(out.access(inputs[i] + m * model.inputs[i].type.bytes(), BindingEffect::write, model.inputs[i].type));
    operands.push_back(out.access(scalars, BindingEffect::write, *scalarRows));
    out.kernel(out.text("feed"), machine.feed, "feed", std::move(operands));
    out.kernel(out.text("scalars of the step"), machine.feed, "copy",
               {out.access(scalars, BindingEffect::read, *scalarRows), out.access(stepScalars, BindingEffect::write, *scalarRows)});
    deviceScalars = stepScalars;
    if (!machine.unified()) {
      const int64_t bytes = anyUpdatesOnDevice() ? scalarRows->bytes() : kScalarsType.bytes(); // updates alone read a parameter's row
      deviceScalars = out.slot(out.text("device scalars"), here.memory, Kind::scalar, bytes);
      out.copy(out.text("scalars"), scalars, deviceScalars, bytes, Urgency::message);
    }
    loss = out.slot(out.text("loss"), here.memory, Kind::scalar, 4);
  }

  void buildStep() {
    startProgram(out.schedule.step);
    for (int64_t l = 0; l + 1 < layerCount(); ++l)
      phases.push_back({l, false});
    for (int64_t l = layerCount() - 1; l >= 0; --l)
      if (layer(l).isDifferentiated())
        phases.push_back({l, true});
    feed();
    runPhases();
    endStep();
    bringFinalScalars();
    for (int64_t l = 0; l < layerCount(); ++l)
      updateLayer(l, model.clip ? 0 : firstLate(l));
  }

  /// Updates on the device wait for the clip scale as those on the host do.
  void bringFinalScalars() {
    if (!model.clip || !anyUpdatesOnDevice())
      return;
    out.setPlace(-1, -1);
    deviceFinalScalars = out.slot(out.text("device final scalars"), here.memory, Kind::scalar, scalarRows->bytes());
    out.copy(out.text("final scalars"), finalScalars, deviceFinalScalars, scalarRows->bytes(), Urgency::message);
  }

  void buildEvaluate() {
    startProgram(out.schedule.evaluate);
    for (int64_t l = 0; l < layerCount(); ++l)
      phases.push_back({l, false});
    feed();
    runPhases();
    endStep();
  }

  /// What the last step left to the next one; zeros say that nothing is pending any more.
  void buildFinish() {
    startProgram(out.schedule.finish);
    for (int64_t l = 0; l < layerCount(); ++l) {
      out.setPlace(l, -1);
      for (int64_t k : layer(l).packs)
        if (pack(k).complete() == l)
          for (const Landed &landed : gradients.at(k))
            if (landed.isLate)
              bringDown(l, k, landed);
      updateLayer(l, firstLate(l));
    }
    if (out.schedule.finish.empty())
      return;
    out.setPlace(-1, -1);
    Command &command = out.kernel(out.text("nothing pending"), machine.update, "constant",
                                  {out.access(finalScalars, BindingEffect::write, *scalarRows)});
    command.zeros = scalarRows;
  }

  /// What lives on the device, from the host and back to it. In a copy for neighbours of both.
  void buildLoad() {
    startProgram(out.schedule.load);
    for (int64_t l = 0; l < layerCount(); ++l)
      moveResident(l, true);
  }
  void buildStore() {
    startProgram(out.schedule.store);
    for (int64_t l = 0; l < layerCount(); ++l)
      moveResident(l, false);
  }
  void moveResident(int64_t l, bool up) {
    out.setPlace(l, -1);
    for (int64_t p : resident[static_cast<size_t>(l)])
      if (up || parameter(p).isTrained())
        movedTogether(weightOf(p), residentWeights[static_cast<size_t>(p)], parameter(p).type.bytes());
    move(out.text("weights layer {}", l), up);
    moveState(l, resident[static_cast<size_t>(l)], residentState, up);
  }
  /// Between the host and a place on the device, of those that have one there.
  void moveState(int64_t l, const std::vector<int64_t> &parameters, const State &onDevice, bool up) {
    for (int64_t p : parameters)
      for (size_t i = 0; i < parameter(p).rest.size(); ++i)
        if (Place place = onDevice[static_cast<size_t>(p)][i])
          movedTogether(state[static_cast<size_t>(p)][i], place, parameter(p).rest[i].type.bytes());
    move(out.text("state layer {}", l), up);
  }

  struct Moved {
    Place host, device;
    int64_t bytes;
  };
  std::vector<Moved> moved; ///< what the next move() copies
  void movedTogether(Place host, Place device, int64_t bytes) {
    if (!moved.empty()) {
      Moved &last = moved.back();
      const int64_t beside = aligned(last.bytes);
      if (last.host.slot == host.slot && last.device.slot == device.slot && last.host.offset + beside == host.offset &&
          last.device.offset + beside == device.offset) {
        last.bytes = beside + bytes;
        return;
      }
    }
    moved.push_back({host, device, bytes});
  }
  void move(const std::string &label, bool up) {
    for (const Moved &each : std::exchange(moved, {}))
      out.copy(label, up ? each.host : each.device, up ? each.device : each.host, each.bytes);
  }

  /// Global norm and clip scale, the loss's way back, and the report to the training loop.
  void endStep() {
    out.setPlace(-1, -1);
    Place reported = stepScalars, landed = loss;
    if (!evaluating) {
      std::vector<Access> operands{out.access(stepScalars, BindingEffect::read, *scalarRows)};
      std::vector<int64_t> parameters;
      for (size_t p = 0; p < model.parameters.size(); ++p)
        if (model.parameters[p].isTrained()) {
          operands.push_back(out.access(norms[p], BindingEffect::read, kNormType));
          parameters.push_back(static_cast<int64_t>(p));
        }
      operands.push_back(out.access(finalScalars, BindingEffect::write, *scalarRows));
      out.kernel(out.text("gradient norm"), machine.update, "step_norm", std::move(operands));
      reported = finalScalars;
    }
    if (!machine.unified()) {
      landed = out.slot(out.text("landed loss"), machine.staging, Kind::scalar, 4);
      out.copy(out.text("loss"), loss, landed, 4, Urgency::message);
    }
    out.kernel(out.text("report"), machine.report, "report",
               {out.access(landed, BindingEffect::read, kLossType), out.access(reported, BindingEffect::read, kScalarsType)});
  }

  void runPhases() {
    for (int64_t phase = 0; phase < static_cast<int64_t>(phases.size()); ++phase) {
      out.setPhase(phase);
      running = phase;
      bringWeights(phase);
      for (int64_t i = 0; i < model.microBatches; ++i) {
        int64_t microBatch = phase % 2 ? model.microBatches - 1 - i : i; // even phases go up, odd ones down
        out.setPlace(phases[static_cast<size_t>(phase)].layer, microBatch);
        bringValues(phase, microBatch);
        runPhase(phase, microBatch, i == 0);
      }
      if (phases[static_cast<size_t>(phase)].backward)
        endBackward(phases[static_cast<size_t>(phase)].layer);
    }
  }

  //-- weights -------------------------------------------------------------------------------------------------------

  /// Brings in what a phase reads and is not there: of the layer's own weights in one copy, with the few between that it
  /// does not read, and of another layer's in one for each run of neighbours.
  void bringWeights(int64_t phase) {
    int64_t l = phases[static_cast<size_t>(phase)].layer;
    out.setPlace(l, -1);
    std::vector<int64_t> missing = missingWeights(phase);
    auto joins = [&](int64_t p, int64_t next) {
      int64_t owner = parameter(p).owner;
      return owner == parameter(next).owner &&
             (owner == l || aligned(weightOf(p).offset + parameter(p).type.bytes()) == weightOf(next).offset);
    };
    for (size_t i = 0, end = 0; i < missing.size(); i = end) {
      for (end = i + 1; end < missing.size() && joins(missing[end - 1], missing[end]);)
        ++end;
      bringRun(l, {missing.begin() + static_cast<std::ptrdiff_t>(i), missing.begin() + static_cast<std::ptrdiff_t>(end)});
    }
  }

  /// What the phase's template takes (backward needs no table that forward only took rows from), but for what is still
  /// there; by owner and place.
  std::vector<int64_t> missingWeights(int64_t phase) {
    const auto &[l, backward] = phases[static_cast<size_t>(phase)];
    bool all = !backward || layer(l).isLoss;
    std::vector<int64_t> missing;
    for (size_t number = 0; number < layer(l).operands.size(); ++number) {
      const Operand &operand = layer(l).operands[number];
      if (operand.kind != Operand::parameter ||
          !(all || model.backwardReads(l, decision(l).rung, static_cast<int64_t>(number))))
        continue;
      DeviceWeight &there = deviceWeights[operand.index];
      bool stays = there.place && (decision(parameter(operand.index).owner).kept || there.until + 1 >= phase);
      there.until = phase;
      if (machine.unified())
        there.place = weightOf(operand.index);
      else if (Place always = residentWeights[static_cast<size_t>(operand.index)])
        there.place = always;
      else if (!stays)
        missing.push_back(operand.index);
    }
    std::ranges::sort(missing, {}, [&](int64_t p) { return std::pair(parameter(p).owner, weightOf(p).offset); });
    return missing;
  }

  void bringRun(int64_t l, const std::vector<int64_t> &run) {
    Place begin = weightOf(run.front());
    int64_t bytes = weightOf(run.back()).offset + parameter(run.back()).type.bytes() - begin.offset;
    bool own = parameter(run.front()).owner == l;
    std::string label = own ? out.text("weights layer {}", l) : out.text("weight {} layer {}", named(run), l);
    Place place = out.slot(out.text("device {}", label), here.memory, Kind::weight, bytes);
    const int64_t part = own ? sizeOfPart(l, bytes) : bytes;
    for (int64_t at = 0; at < bytes; at += part)
      out.copy(label, begin + at, place + at, std::min(part, bytes - at));
    for (int64_t p : run)
      deviceWeights[p].place = place + (weightOf(p).offset - begin.offset);
  }

  //-- activations ---------------------------------------------------------------------------------------------------

  void park(int64_t phase, int64_t microBatch) {
    for (int64_t v : layer(phases[static_cast<size_t>(phase)].layer).results) {
      if (evaluating || !parked[static_cast<size_t>(v)])
        continue;
      int64_t bytes = value(v).type.bytes();
      Place host = out.slot(out.text("parked activation layer {} mb {}", value(v).layer, microBatch), machine.staging, Kind::activation, bytes);
      out.copy(out.text("activation layer {} mb {}", value(v).layer, microBatch), valuePlaces.at({v, microBatch}), host, bytes);
      parkedPlaces[{v, microBatch}] = host;
    }
    const int64_t l = phases[static_cast<size_t>(phase)].layer;
    if (parkedSaved[static_cast<size_t>(l)] && !evaluating) {
      const int64_t bytes = saved[static_cast<size_t>(l)];
      Place host = out.slot(out.text("parked saved of layer {} mb {}", l, microBatch), machine.staging, Kind::activation, bytes);
      out.copy(out.text("saved of layer {} mb {}", l, microBatch), {savedPlaces.at({l, microBatch}).front().slot}, host, bytes);
      parkedSavedPlaces[{l, microBatch}] = host;
    }
  }

  /// Inputs at their first use, and parked activations before the backward that reads them.
  void bringValues(int64_t phase, int64_t microBatch) {
    const auto &[l, backward] = phases[static_cast<size_t>(phase)];
    if (auto waiting = parkedSavedPlaces.find({l, microBatch}); backward && waiting != parkedSavedPlaces.end())
      bringSaved(l, microBatch, waiting->second);
    for (size_t number = 0; number < layer(l).operands.size(); ++number) {
      const Operand &operand = layer(l).operands[number];
      if (operand.kind == Operand::input)
        (void)inputPlace(operand.index, microBatch);
      if (operand.kind != Operand::value || !backward || !model.backwardReads(l, decision(l).rung, static_cast<int64_t>(number)))
        continue;
      auto waiting = parkedPlaces.find({operand.index, microBatch});
      if (waiting == parkedPlaces.end())
        continue;
      int64_t bytes = value(operand.index).type.bytes();
      std::string label = out.text("parked activation layer {} mb {}", value(operand.index).layer, microBatch);
      Place place = out.slot(out.text("device {}", label), here.memory, Kind::activation, bytes);
      out.copy(std::move(label), waiting->second, place, bytes);
      valuePlaces[{operand.index, microBatch}] = place;
      parkedPlaces.erase(waiting);
    }
  }

  void bringSaved(int64_t l, int64_t microBatch, Place from) {
    const Place place = savedTogether(l, microBatch);
    out.copy(out.text("saved of layer {} mb {}", l, microBatch), from, place, saved[static_cast<size_t>(l)]);
    placeTogether(l, microBatch, place);
  }

  Place inputPlace(int64_t input, int64_t microBatch) {
    const Input &entry = model.inputs[static_cast<size_t>(input)];
    Place source = inputs[static_cast<size_t>(input)] + microBatch * entry.type.bytes();
    if (machine.unified())
      return source;
    Place &place = inputPlaces[{input, microBatch}];
    if (!place) {
      std::string label = out.text("input {} mb {}", entry.name, microBatch);
      place = out.slot(out.text("device {}", label), here.memory, Kind::input, entry.type.bytes());
      out.copy(std::move(label), source, place, entry.type.bytes(), Urgency::message);
    }
    return place;
  }

  Place operandPlace(int64_t l, int64_t number, int64_t microBatch) {
    const Operand &what = layer(l).operands[static_cast<size_t>(number)];
    switch (what.kind) {
    case Operand::parameter:
      return deviceWeights.at(what.index).place;
    case Operand::input:
      return inputPlace(what.index, microBatch);
    case Operand::scalars:
      return deviceScalars;
    case Operand::value:
      return valuePlaces.at({what.index, value(what.index).isStepSum ? 0 : microBatch});
    }
    return {};
  }

  //-- templates -----------------------------------------------------------------------------------------------------

  void runPhase(int64_t phase, int64_t microBatch, bool first) {
    const auto &[l, isBackward] = phases[static_cast<size_t>(phase)];
    if (isBackward)
      return backward(l, microBatch, first);
    forward(l, microBatch, first);
    park(phase, microBatch);
  }

  static Access bind(Place place, BindingEffect effect, const TensorType &type) {
    return {place.slot, place.offset, type.bytes(), effect, nullptr};
  }

  void forward(int64_t l, int64_t microBatch, bool first) {
    bool plain = evaluating || !layer(l).isDifferentiated();
    int64_t callee = plain ? layer(l).primal : rungOf(l).forward;
    std::vector<Access> operands;
    for (size_t i = 0; i < code(callee).arguments.size(); ++i)
      operands.push_back(bind(operandPlace(l, static_cast<int64_t>(i), microBatch), BindingEffect::read, code(callee).arguments[i].type));
    if (!plain)
      placeSaved(l, microBatch);
    if (!plain && isSavedAsOne(l))
      operands.push_back(savedAsOne(l, microBatch, BindingEffect::write));
    for (const Result &result : code(callee).results) {
      if (result.kind == Result::saved) {
        if (!isSavedAsOne(l))
          operands.push_back(bind(savedPlaces.at({l, microBatch})[static_cast<size_t>(result.index)], BindingEffect::write, result.type));
        continue;
      }
      int64_t v = layer(l).results[static_cast<size_t>(result.index)];
      if (value(v).isStepSum) {
        operands.push_back(stepSum(v, first));
      } else if (evaluating && layer(l).isLoss) {
        operands.push_back(bind(loss, first ? BindingEffect::write : BindingEffect::accumulate, result.type));
      } else {
        Place place = out.slot(out.text("value {} of layer {} mb {}", result.index, l, microBatch), here.memory, Kind::activation, result.type.bytes());
        valuePlaces[{v, microBatch}] = place;
        operands.push_back(bind(place, BindingEffect::write, result.type));
      }
    }
    out.run(out.text("forward layer {} mb {}", l, microBatch), callee, std::move(operands));
  }

  /// Of all that the forward of a layer saves, one after another.
  int64_t savedBytes(int64_t l) const {
    int64_t bytes = 0;
    for (const Result &result : code(rungOf(l).forward).results)
      bytes += result.kind == Result::saved ? aligned(result.type.bytes()) : 0;
    return bytes;
  }
  Place savedTogether(int64_t l, int64_t microBatch) {
    return out.slot(out.text("saved of layer {} mb {}", l, microBatch), here.memory, Kind::activation, saved[static_cast<size_t>(l)]);
  }
  /// To a simulation it is one: what the one forward writes, the one backward reads.
  bool isSavedAsOne(int64_t l) const { return extent == Extent::step && saved[static_cast<size_t>(l)] > 0; }
  Access savedAsOne(int64_t l, int64_t microBatch, BindingEffect effect) const {
    const Place place = savedPlaces.at({l, microBatch}).front();
    return {place.slot, place.offset, saved[static_cast<size_t>(l)], effect, nullptr};
  }

  /// Where forward saves: in slots of their own, or, where it is parked as a whole, in one.
  void placeSaved(int64_t l, int64_t microBatch) {
    if (parkedSaved[static_cast<size_t>(l)] || isSavedAsOne(l))
      return placeTogether(l, microBatch, savedTogether(l, microBatch));
    std::vector<Place> &places = savedPlaces[{l, microBatch}];
    for (const Result &result : code(rungOf(l).forward).results)
      if (result.kind == Result::saved)
        places.push_back(out.slot(out.text("saved {} of layer {} mb {}", result.index, l, microBatch), here.memory, Kind::activation,
                                  result.type.bytes()));
  }
  void placeTogether(int64_t l, int64_t microBatch, Place place) {
    std::vector<Place> &places = savedPlaces[{l, microBatch}];
    places.clear();
    int64_t at = 0;
    for (const Result &result : code(rungOf(l).forward).results) {
      if (result.kind == Result::saved)
        places.push_back(place + std::exchange(at, at + aligned(result.type.bytes())));
      if (!places.empty() && isSavedAsOne(l))
        return;
    }
  }

  /// Where a sum over the step's micro-batches grows; the first of them writes it.
  Access stepSum(int64_t v, bool first) {
    Place &place = valuePlaces[{v, 0}];
    if (first)
      place = out.slot(out.text("step sum {}", value(v).result), here.memory, Kind::activation, value(v).type.bytes());
    return bind(place, first ? BindingEffect::write : BindingEffect::accumulate, value(v).type);
  }

  /// Where the gradient of an operand goes, and whether it is the first to go there.
  Access gradientOf(int64_t l, int64_t number, int64_t microBatch, bool first, const TensorType &type) {
    const Operand &what = layer(l).operands[static_cast<size_t>(number)];
    if (what.kind == Operand::parameter) {
      const Parameter &entry = parameter(what.index);
      return bind(gradientParts.at(entry.pack) + entry.packOffset, first ? BindingEffect::write : BindingEffect::accumulate, type);
    }
    Place &place = valueGradients[{what.index, microBatch}];
    if (place)
      return bind(place, BindingEffect::accumulate, type);
    place = out.slot(out.text("gradient of value of layer {} mb {}", value(what.index).layer, microBatch), here.memory, Kind::activation, type.bytes());
    return bind(place, BindingEffect::write, type);
  }

  /// The gradient of a layer's result, complete once all its users' backward ran; zeros if none of them gave any.
  Place arrivingGradient(int64_t v, int64_t microBatch, const TensorType &type) {
    Place &place = valueGradients[{v, microBatch}];
    if (place)
      return place;
    std::string label = out.text("no gradient of value of layer {} mb {}", value(v).layer, microBatch);
    place = out.slot(label, here.memory, Kind::activation, type.bytes());
    Command &command = out.kernel(std::move(label), here.engine, "constant", {out.access(place, BindingEffect::write, type)});
    command.zeros = &type;
    return place;
  }

  void backward(int64_t l, int64_t microBatch, bool first) {
    int64_t callee = rungOf(l).backward;
    if (first)
      openGradients(l);
    std::vector<Access> operands;
    if (isSavedAsOne(l))
      operands.push_back(savedAsOne(l, microBatch, BindingEffect::read));
    for (const Argument &argument : code(callee).arguments) {
      Place place;
      if (argument.kind == Argument::operand)
        place = operandPlace(l, argument.index, microBatch);
      else if (argument.kind == Argument::saved && isSavedAsOne(l))
        continue;
      else if (argument.kind == Argument::saved)
        place = savedPlaces.at({l, microBatch})[static_cast<size_t>(argument.index)];
      else
        place = arrivingGradient(layer(l).results[static_cast<size_t>(argument.index)], microBatch, argument.type);
      operands.push_back(bind(place, BindingEffect::read, argument.type));
    }
    for (const Result &result : code(callee).results)
      operands.push_back(result.kind == Result::gradient
                             ? gradientOf(l, result.index, microBatch, first, result.type)
                             : bind(loss, first ? BindingEffect::write : BindingEffect::accumulate, result.type));
    out.run(layer(l).isLoss ? out.text("loss layer {} mb {}", l, microBatch) : out.text("backward layer {} mb {}", l, microBatch),
            callee, std::move(operands));
  }

  //-- gradients and updates -----------------------------------------------------------------------------------------

  static constexpr int64_t kNone = INT64_MAX;
  bool isOpen(int64_t l) const { return !machine.unified() && !updatesOnDevice(l) && decision(l).late == LayerDecision::kOpen; }
  /// The first part of a layer that is updated in the next step; kNone: there is none.
  int64_t firstLate(int64_t l) const { return firstOf(l, decision(l).late); }
  /// The same of gradients that come down.
  int64_t firstLateDown(int64_t l) const { return firstOf(l, decision(l).lateDown); }
  int64_t firstOf(int64_t l, int64_t part) const {
    return machine.unified() || updatesOnDevice(l) || isOpen(l) || part >= decision(l).parts ? kNone : part;
  }

  void openGradients(int64_t l) {
    gradientParts.clear();
    for (int64_t k : layer(l).packs)
      gradientParts[k] = out.slot(out.text("device {}", gradientLabel(k, l)), here.memory, Kind::gradient, pack(k).bytes);
  }

  void endBackward(int64_t l) {
    out.setPlace(l, -1);
    for (int64_t k : layer(l).packs)
      if (!pack(k).isShared())
        computeNorms(l, k);
    for (int64_t k : layer(l).packs)
      landGradients(l, k);
    if (!model.clip)
      updateLayer(l, 0, firstLate(l));
  }

  /// Squared norms of gradients, each where it is told: on the device, if it has a place there.
  void squaredNorms(std::string label, const Engine &engine, const std::vector<int64_t> &parameters, Place gradient) {
    std::vector<Access> operands;
    for (int64_t p : parameters) {
      auto onDevice = deviceNorms.find(p);
      operands.push_back(out.access(gradient + parameter(p).packOffset, BindingEffect::read, parameter(p).full));
      operands.push_back(out.access(onDevice != deviceNorms.end() ? onDevice->second : normOf(p), BindingEffect::write, kNormType));
    }
    Command &command = out.kernel(std::move(label), engine, "squared_norm", std::move(operands), static_cast<int64_t>(parameters.size()));
    command.parameters = parameters;
  }

  /// Those of gradients that one layer alone gives, or whose sum stays on the device: there, and from there to the host.
  void computeNorms(int64_t l, int64_t k) {
    const std::vector<int64_t> &parameters = pack(k).parameters;
    if (machine.unified())
      return squaredNorms(out.text("norms layer {}", l), here.engine, parameters, gradientParts.at(k));
    Place target = out.slot(out.text("norms of layer {}", l), here.memory, Kind::scalar, 8 * static_cast<int64_t>(parameters.size()));
    for (size_t i = 0; i < parameters.size(); ++i)
      deviceNorms[parameters[i]] = target + 8 * static_cast<int64_t>(i);
    squaredNorms(out.text("norms layer {}", l), here.engine, parameters, gradientParts.at(k));
    for (size_t i = 0, end = 0; i < parameters.size(); i = end) { // runs of neighbours go in one copy
      for (end = i + 1; end < parameters.size() &&
                        normOf(parameters[end]).offset == normOf(parameters[i]).offset + 8 * static_cast<int64_t>(end - i);)
        ++end;
      out.copy(out.text("norms layer {}", l), target + 8 * static_cast<int64_t>(i), normOf(parameters[i]), 8 * static_cast<int64_t>(end - i), Urgency::message);
    }
  }

  /// The first part of a gradient is where the others are then added to it, in the order of backward: one place, on the host
  /// unless the update is on the device, however many layers use the parameters, and the same sum whatever the schedule. The
  /// norm is that of the sum.
  void landGradients(int64_t l, int64_t k) {
    const bool isFirst = pack(k).first() == l, comesDown = !machine.unified() && !staysOnDevice(k);
    const int64_t bytes = pack(k).bytes, part = comesDown && !pack(k).isShared() ? sizeOfPart(l, bytes) : bytes;
    if (isFirst)
      gradients[k].clear();
    for (int64_t begin = 0; begin < bytes; begin += part) {
      const Place device = gradientParts.at(k) + begin;
      Landed landed{begin, std::min(bytes, begin + part), pack(k).isShared() ? decision(l).parts - 1 : begin / part, device, device, false};
      if (comesDown) {
        landed.place = out.slot(out.text("landed {}", gradientLabel(k, l)), machine.staging, Kind::gradient, landed.end - begin);
        landed.isLate = !pack(k).isShared() && landed.part >= firstLateDown(l);
        bringDown(l, k, landed);
      }
      if (isFirst)
        gradients[k].push_back(landed);
      else
        addPart(k, landed.place);
    }
    if (!pack(k).isShared() || pack(k).complete() != l)
      return;
    if (staysOnDevice(k)) {
      gradientParts[k] = gradients.at(k).front().place;
      computeNorms(l, k);
    } else {
      squaredNorms(out.text("norm of {}", named(pack(k).parameters)), machine.update, pack(k).parameters, gradients.at(k).front().place);
    }
  }

  void bringDown(int64_t l, int64_t k, const Landed &landed) {
    Command &command = out.copy(gradientLabel(k, l), landed.device, landed.place, landed.end - landed.begin);
    if (pack(k).isShared())
      return;
    command.lands = l;
    command.part = landed.part;
    command.late = landed.isLate;
  }

  /// Of a layer that is cut in parts.
  int64_t sizeOfPart(int64_t l, int64_t bytes) const { return aligned((bytes + decision(l).parts - 1) / decision(l).parts); }

  void addPart(int64_t k, Place part) {
    std::vector<Access> operands;
    for (int64_t p : pack(k).parameters) {
      operands.push_back(out.access(part + parameter(p).packOffset, BindingEffect::read, parameter(p).full));
      operands.push_back(out.access(gradients.at(k).front().place + parameter(p).packOffset, BindingEffect::accumulate, parameter(p).full));
    }
    out.kernel(out.text("sum gradients of {}", named(pack(k).parameters)), staysOnDevice(k) ? here.engine : machine.update, "copy",
               std::move(operands), static_cast<int64_t>(pack(k).parameters.size()));
  }

  /// Elements of a parameter, and where their gradient is.
  struct Piece {
    int64_t parameter, first, count;
    Place gradient;
  };

  /// Parts [first, end) of what a layer's backward completed, each or all, kernel by kernel.
  void updateLayer(int64_t l, int64_t first, int64_t end = kNone) {
    out.setPlace(l, -1);
    std::map<std::pair<int64_t, std::string>, std::vector<Piece>> pieces; ///< by part and kernel
    for (int64_t k : layer(l).packs) {
      if (pack(k).complete() != l)
        continue;
      for (const Landed &landed : gradients.at(k)) {
        if (landed.part < first || landed.part >= end)
          continue;
        for (int64_t p : pack(k).parameters) {
          const int64_t begin = parameter(p).packOffset, size = 4; // of an element
          const int64_t from = std::max<int64_t>(0, landed.begin - begin) / size;
          const int64_t to = std::min(parameter(p).full.elements(), (landed.end - begin + size - 1) / size);
          if (from < to)
            pieces[{landed.part, model.updateOf(p)}].push_back({p, from, to - from, landed.place + (begin + from * size - landed.begin)});
        }
      }
    }
    const bool isStreamed = streams[static_cast<size_t>(l)] && !pieces.empty();
    if (isStreamed)
      bringState(l);
    for (const auto &[key, list] : pieces)
      update(l, key.first, key.second, list);
    if (isStreamed)
      takeState(l);
  }

  /// The state of a layer, and those of its weights that the phase that runs has not brought.
  void bringState(int64_t l) {
    streamedWeights.clear();
    const std::vector<int64_t> trained = trainedOf(l);
    std::vector<int64_t> missing;
    for (int64_t p : trained) {
      auto there = deviceWeights.find(p);
      if (there != deviceWeights.end() && there->second.place && there->second.until == running && !model.clip)
        streamedWeights[p] = there->second.place;
      else
        missing.push_back(p);
    }
    int64_t bytes = 0;
    for (int64_t p : missing)
      bytes += aligned(parameter(p).type.bytes());
    if (bytes > 0) {
      Place place = out.slot(out.text("device weights of layer {} to update", l), here.memory, Kind::weight, bytes);
      for (int64_t p : missing) {
        streamedWeights[p] = place;
        movedTogether(weightOf(p), place, parameter(p).type.bytes());
        place = place + aligned(parameter(p).type.bytes());
      }
      move(out.text("weights layer {} to update", l), true);
    }
    streamedState.assign(model.parameters.size(), {});
    for (int64_t p : trained)
      streamedState[static_cast<size_t>(p)].resize(parameter(p).rest.size());
    placeState(out.text("device state layer {}", l), here.memory, trained, streamedState, false);
    moveState(l, trained, streamedState, true);
  }
  void takeState(int64_t l) {
    const std::vector<int64_t> trained = trainedOf(l);
    for (int64_t p : trained)
      movedTogether(weightOf(p), streamedWeights.at(p), parameter(p).type.bytes());
    move(out.text("updated weights layer {}", l), false);
    moveState(l, trained, streamedState, false);
  }
  /// Of the parameters whose weights lie with a layer.
  std::vector<int64_t> trainedOf(int64_t l) const {
    std::vector<int64_t> trained;
    for (int64_t p : layer(l).owned)
      if (parameter(p).isTrained())
        trained.push_back(p);
    return trained;
  }

  /// The type of elements of a parameter, or of entries that are for so many of them each.
  const TensorType &typeOf(const Piece &piece, const TensorType &whole, int64_t elements = 1) {
    if (piece.count == parameter(piece.parameter).type.elements())
      return whole;
    return out.schedule.types.emplace_back(TensorType{whole.type, kernels::partDims(elements, {piece.count})});
  }
  Access updated(const Piece &piece, Place place, const TensorType &whole, int64_t elements = 1) {
    const auto size = static_cast<int64_t>(kernels::byteSize(whole.type));
    return out.access(place + piece.first / elements * size, BindingEffect::update, typeOf(piece, whole, elements));
  }

  /// With clipping, and where the step has ended, updates read the scalars that its end left.
  void update(int64_t l, int64_t part, const std::string &kernel, const std::vector<Piece> &pieces) {
    const bool onDevice = updatesOnDevice(l);
    const bool open = isOpen(l) && !model.clip, late = part >= firstLate(l);
    const Place read = onDevice ? (model.clip ? deviceFinalScalars : deviceScalars) : model.clip || late ? finalScalars : stepScalars;
    const State &rest = isResident(l) ? residentState : onDevice ? streamedState : state;
    std::vector<Access> operands;
    for (const Piece &piece : pieces) {
      const int64_t p = piece.parameter;
      const Parameter &entry = parameter(p);
      size_t i = static_cast<size_t>(p);
      operands.push_back(out.access(piece.gradient, BindingEffect::read, typeOf(piece, entry.full)));
      operands.push_back(out.access(onDevice ? deviceNorms.at(p) : normOf(p), BindingEffect::read, kNormType));
      if (!open) // whose scalars it reads is not known
        operands.push_back(out.access(read + rowOf(p), BindingEffect::read, kScalarsType));
      operands.push_back(updated(piece, isResident(l) ? residentWeights[i] : onDevice ? streamedWeights.at(p) : weights[i], entry.type));
      for (size_t r = 0; r < entry.rest.size(); ++r)
        operands.push_back(updated(piece, rest[i][r], entry.rest[r].type, entry.rest[r].elements));
    }
    Command &command = out.kernel(out.text("update layer {}", l), onDevice ? here.engine : machine.update,
                                  kernel, std::move(operands), static_cast<int64_t>(pieces.size()));
    command.role = plan::Role::update;
    for (const Piece &piece : pieces) {
      command.parameters.push_back(piece.parameter);
      command.firsts.push_back(piece.first);
    }
    command.updates = onDevice ? -1 : l;
    command.part = part;
    command.late = late;
  }
};
} // namespace

Schedule build(const Model &model, const Machine &machine, const Decisions &decisions, Extent extent) {
  return Builder(model, machine, decisions, extent).run();
}

} // namespace mt::planner
