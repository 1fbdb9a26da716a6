#include "compiler/planner/DeviceValues.h"

#include <utility>

namespace mt::planner {
using plan::BindingEffect;

void DeviceValues::startProgram() {
  scalars.clear(), inputs.clear(), values.clear(), returned.clear(), parked.clear(), gradients.clear(), sums.clear();
  saved.clear(), parkedSaved.clear();
}

void DeviceValues::bring(const Phase &phase, int64_t microBatch) {
  const auto &[l, backward] = phase;
  if (auto waiting = parkedSaved.find({l, microBatch}); backward && waiting != parkedSaved.end()) {
    const Place place = savedTogether(l, microBatch);
    context.out.move(context.out.text("saved of layer {} mb {}", l, microBatch), waiting->second, place,
                     context.savedBytes(l));
    placeTogether(l, microBatch, place);
  }
  const bool all = !backward || context.layer(l).isLoss;
  for (size_t number = 0; number < context.layer(l).operands.size(); ++number) {
    const Operand &operand = context.layer(l).operands[number];
    if (operand.kind == Operand::input)
      (void)input(operand.index, microBatch, context.deviceOf(l, microBatch));
    else if (operand.kind == Operand::value &&
             (all || context.model.backwardReads(l, context.decision(l).rung, static_cast<int64_t>(number))))
      (void)value(phase, operand.index, microBatch);
  }
}

Place DeviceValues::operand(const Phase &phase, const Operand &what, int64_t microBatch) {
  if (what.kind == Operand::input)
    return input(what.index, microBatch, context.deviceOf(phase.layer, microBatch));
  return what.kind == Operand::scalars ? scalarsOf(context.deviceOf(phase.layer, microBatch))
                                       : value(phase, what.index, microBatch);
}

/// At its first use.
Place DeviceValues::input(int64_t index, int64_t microBatch, uint32_t device) {
  const Input &entry = context.model.inputs[static_cast<size_t>(index)];
  const Place source = layout.inputs[static_cast<size_t>(index)] + microBatch * entry.type.bytes();
  if (context.machine.unified())
    return source;
  Place &place = inputs[{index, microBatch, device}];
  if (!place) {
    std::string label = context.out.text("input {} mb {}", entry.name, microBatch);
    place = context.out.slot(context.out.text("device {}", label), context.device(device).memory, Kind::input,
                             entry.type.bytes());
    context.out.copy(std::move(label), source, place, entry.type.bytes(), Urgency::message);
  }
  return place;
}

/// On the device of a phase: from where it was made, or, in backward, from where it waits.
Place DeviceValues::value(const Phase &phase, int64_t v, int64_t microBatch) {
  const auto [index, number] = keyOf(v, microBatch);
  const Value &entry = context.value(v);
  const uint32_t device = context.deviceOf(phase.layer, microBatch);
  const auto waiting =
      phase.backward && !context.layer(phase.layer).isLoss ? parked.find({index, number}) : parked.end();
  const bool waits = waiting != parked.end();
  Place &place = (waits ? returned : values)[{index, number, device}];
  if (place)
    return place;
  const uint32_t memory = context.device(device).memory;
  Emitter &out = context.out;
  if (waits) {
    const std::string label = out.text("parked activation layer {} mb {}", entry.layer, microBatch);
    place = out.slot(out.text("device {}", label), memory, Kind::activation, entry.type.bytes());
    out.move(label, waiting->second, place, entry.type.bytes());
  } else {
    const uint32_t maker = entry.isStepSum ? context.deviceOf(entry.layer) : context.deviceOf(entry.layer, microBatch);
    const Place made = values.at({index, number, maker});
    place = out.across(out.text("value {} of layer {} mb {}", entry.result, entry.layer, microBatch), made, memory,
                       Kind::activation, entry.type.bytes());
  }
  return place;
}

Place DeviceValues::result(int64_t l, int64_t v, int64_t microBatch, const TensorType &type) {
  const Value &entry = context.value(v);
  const uint32_t device = context.deviceOf(l, microBatch);
  std::string name = entry.isStepSum ? context.out.text("step sum {}{}", entry.result, context.ofMicroBatch(microBatch))
                                     : context.out.text("value {} of layer {} mb {}", entry.result, l, microBatch);
  const Place place = context.out.slot(std::move(name), context.device(device).memory, Kind::activation, type.bytes());
  (entry.isStepSum ? parts[v] : values[{v, microBatch, device}]) = place;
  return place;
}

void DeviceValues::endForward(int64_t l, int64_t microBatch) {
  const uint32_t device = context.deviceOf(l, microBatch);
  for (int64_t v : context.layer(l).results)
    if (context.value(v).isStepSum)
      sums[v][device].add(microBatch, parts.at(v), [&](Place into, const std::vector<Place> &others) {
        addTo(v, context.device(device).engine, into, others);
      });
  if (!context.evaluating)
    park(l, microBatch);
}

void DeviceValues::endForward(int64_t l) {
  for (int64_t v : context.layer(l).results)
    if (context.value(v).isStepSum) {
      const Device &home = context.device(context.deviceOf(l));
      auto join = [&](Place into, const std::vector<Place> &others) { addTo(v, home.engine, into, others); };
      BlockSums<Place> all;
      for (auto &[device, some] : sums.at(v))
        for (BlockSums<Place>::Block &block : some.take(1)) {
          if (device != context.deviceOf(l))
            block.sum = context.out.across(context.out.text("step sum {}", context.value(v).result), block.sum,
                                           home.memory, Kind::activation, context.value(v).type.bytes());
          all.add(std::move(block), join);
        }
      const Place sum = all.finish(join);
      values[{v, 0, context.deviceOf(l)}] = context.hasRanks() ? acrossRanks(v, sum) : sum;
    }
}

/// The sum over the micro-batches of all ranks: each has all of their sums, and adds them up.
Place DeviceValues::acrossRanks(int64_t v, Place own) {
  const Value &entry = context.value(v);
  Emitter &out = context.out;
  const uint32_t memory = context.device(context.deviceOf(entry.layer)).memory;
  const kernels::DType type = entry.type.type;
  const int64_t elements = entry.type.elements(), bytes = entry.type.bytes(), ranks = context.model.ranks;
  kernels::Shares shares;
  shares.body = elements * ranks, shares.share = elements;
  const std::string label = out.text("step sum {}", entry.result);
  if (!context.machine.unified()) {
    const Place landed = out.slot(out.text("landed {}", label), context.machine.staging, Kind::activation, bytes);
    out.copy(label, own, landed, bytes, Urgency::message);
    own = landed;
  }
  const Place all =
      out.slot(out.text("{} of all ranks", label), context.machine.staging, Kind::activation, bytes * ranks);
  out.kernel(label, context.machine.report, "copy",
             {out.access(own, BindingEffect::read, out.type(type, {elements})),
              out.accessShare(all, BindingEffect::write, type, shares)});
  out.exchange(out.text("{} of all ranks", label), *context.machine.network, "all_gather",
               {out.access(all, BindingEffect::update, out.type(type, {shares.body}))}, {elements}, bytes * ranks);
  BlockSums<Place> blocks;
  auto join = [&](Place into, const std::vector<Place> &others) { addTo(v, context.machine.report, into, others); };
  for (int64_t rank = 0; rank < ranks; ++rank)
    blocks.add({rank * context.model.microBatches, context.model.microBatches, all + rank * bytes}, join);
  const Place sum = blocks.finish(join);
  if (context.machine.unified())
    return sum;
  const Place there = out.slot(out.text("device {}", label), memory, Kind::activation, bytes);
  out.copy(label, sum, there, bytes, Urgency::message);
  return there;
}

void DeviceValues::addTo(int64_t v, const Engine &engine, Place into, const std::vector<Place> &others) {
  const Value &entry = context.value(v);
  context.out.add(context.out.text("step sum {}", entry.result), engine, {{into, others, &entry.type}});
}

void DeviceValues::park(int64_t l, int64_t microBatch) {
  Emitter &out = context.out;
  for (int64_t v : context.layer(l).results) {
    if (!context.isParked(v))
      continue;
    parked[{v, microBatch}] =
        toHost(l, out.text("activation layer {} mb {}", l, microBatch),
               values.at({v, microBatch, context.deviceOf(l, microBatch)}), context.value(v).type.bytes());
  }
  if (!context.isSavedParked(l))
    return;
  parkedSaved[{l, microBatch}] = toHost(l, out.text("saved of layer {} mb {}", l, microBatch),
                                        {saved.at({l, microBatch}).front().slot}, context.savedBytes(l));
}

/// Where it waits.
Place DeviceValues::toHost(int64_t l, const std::string &label, Place from, int64_t bytes) {
  const uint32_t space = context.isParkedInFile(l) ? *context.machine.file : context.machine.staging;
  const Place place = context.out.slot(context.out.text("parked {}", label), space, Kind::activation, bytes);
  context.out.move(label, from, place, bytes);
  return place;
}

Place DeviceValues::savedTogether(int64_t l, int64_t microBatch) {
  return context.out.slot(context.out.text("saved of layer {} mb {}", l, microBatch),
                          context.device(context.deviceOf(l, microBatch)).memory, Kind::activation,
                          context.savedBytes(l));
}

Access DeviceValues::savedAsOne(int64_t l, int64_t microBatch, BindingEffect effect) const {
  const Place place = savedOf(l, microBatch, 0);
  return {place.slot, place.offset, context.savedBytes(l), effect, nullptr};
}

/// Where forward saves: in slots of their own, or, where it is parked as a whole, in one.
void DeviceValues::placeSaved(int64_t l, int64_t microBatch) {
  if (context.isSavedParked(l) || context.isSavedAsOne(l))
    return placeTogether(l, microBatch, savedTogether(l, microBatch));
  std::vector<Place> &places = saved[{l, microBatch}];
  for (const Result &result : context.code(context.rungOf(l).forward).results)
    if (result.kind == Result::saved)
      places.push_back(context.out.slot(context.out.text("saved {} of layer {} mb {}", result.index, l, microBatch),
                                        context.device(context.deviceOf(l, microBatch)).memory, Kind::activation,
                                        result.type.bytes()));
}

void DeviceValues::placeTogether(int64_t l, int64_t microBatch, Place place) {
  std::vector<Place> &places = saved[{l, microBatch}];
  places.clear();
  int64_t at = 0;
  for (const Result &result : context.code(context.rungOf(l).forward).results) {
    if (result.kind == Result::saved)
      places.push_back(place + std::exchange(at, at + aligned(result.type.bytes())));
    if (!places.empty() && context.isSavedAsOne(l))
      return;
  }
}

std::pair<Place, bool> DeviceValues::gradient(int64_t l, int64_t v, int64_t microBatch, const TensorType &type) {
  const bool isFirst = !gradients.contains({v, microBatch});
  const uint32_t device = context.deviceOf(l, microBatch);
  std::string name = context.out.text("gradient of value of layer {} mb {}", context.value(v).layer, microBatch);
  if (isFirst)
    gradients[{v, microBatch}] = {
        context.out.slot(std::move(name), context.device(device).memory, Kind::activation, type.bytes()), device};
  else
    moveGradient(gradients.at({v, microBatch}), device, std::move(name), type.bytes());
  return {gradients.at({v, microBatch}).place, isFirst};
}

Place DeviceValues::arrivingGradient(int64_t l, int64_t v, int64_t microBatch, const TensorType &type) {
  const uint32_t device = context.deviceOf(l, microBatch);
  auto there = gradients.find({v, microBatch});
  if (there != gradients.end()) {
    moveGradient(there->second, device, context.out.text("gradient of value of layer {} mb {}", l, microBatch),
                 type.bytes());
    return there->second.place;
  }
  std::string label = context.out.text("no gradient of value of layer {} mb {}", l, microBatch);
  Place place = context.out.slot(label, context.device(device).memory, Kind::activation, type.bytes());
  Command &command = context.out.kernel(std::move(label), context.device(device).engine, "constant",
                                        {Emitter::access(place, BindingEffect::write, type)});
  command.zeros = &type;
  gradients[{v, microBatch}] = {place, device};
  return place;
}

/// What other layers gave is where the last of them ran.
void DeviceValues::moveGradient(Gradient &gradient, uint32_t device, std::string label, int64_t bytes) {
  if (gradient.device != device)
    gradient = {
        context.out.across(std::move(label), gradient.place, context.device(device).memory, Kind::activation, bytes),
        device};
}

} // namespace mt::planner
