#include "compiler/planner/Gradients.h"

#include <algorithm>

namespace mt::planner {
using plan::BindingEffect;

std::string Gradients::labelOf(int64_t k, int64_t l) const {
  if (context.pack(k).complete() == l)
    return context.out.text("gradients layer {}", l);
  return context.out.text("gradient {} layer {}", context.named(context.pack(k).parameters), l);
}

void Gradients::open(int64_t l, int64_t microBatch) {
  if (parts.empty() || layer != l)
    sums = BlockSums<Packs>(context.decision(l).together);
  layer = l;
  parts.clear();
  for (int64_t k : context.layer(l).packs)
    parts[k] = context.out.slot(context.out.text("device {}{}", labelOf(k, l), context.ofMicroBatch(microBatch)),
                                context.device(context.deviceOf(l)).memory, Kind::gradient, context.pack(k).bytes);
}

void Gradients::close(int64_t l, int64_t microBatch) {
  const Engine &engine = context.device(context.deviceOf(l)).engine;
  sums.add(microBatch, parts,
           [&](const Packs &into, const std::vector<Packs> &others) { addTo(l, engine, into, others); });
  if (context.sumsOnHost(l))
    bringBlocksDown(l, context.decision(l).summed);
}

void Gradients::addTo(int64_t l, const Engine &engine, const Packs &into, const std::vector<Packs> &others) {
  for (int64_t k : context.layer(l).packs) {
    std::vector<Place> from;
    for (const Packs &other : others)
      from.push_back(other.at(k));
    addPack(context.out.text("sum {}", labelOf(k, l)), engine, k, into.at(k), from);
  }
}

/// What the device has of blocks of so many micro-batches, to be added up on the host.
void Gradients::bringBlocksDown(int64_t l, int64_t count) {
  for (BlockSums<Packs>::Block &block : sums.take(count)) {
    for (auto &[k, place] : block.sum) {
      const Place host =
          context.out.slot(context.out.text("landed {}{}", labelOf(k, l), context.ofMicroBatch(block.first)),
                           context.machine.staging, Kind::gradient, context.pack(k).bytes);
      context.out.copy(labelOf(k, l), place, host, context.pack(k).bytes);
      place = host;
    }
    onHost.add(std::move(block), [&](const Packs &into, const std::vector<Packs> &others) {
      addTo(l, context.machine.update, into, others);
    });
  }
}

void Gradients::addPack(std::string label, const Engine &engine, int64_t k, Place into,
                        const std::vector<Place> &from) {
  std::vector<Addition> additions;
  for (int64_t p : context.pack(k).parameters) {
    const Parameter &entry = context.parameter(p);
    Addition &addition = additions.emplace_back(Addition{into + entry.packOffset, {}, &entry.full});
    for (const Place &other : from)
      addition.others.push_back(other + entry.packOffset);
  }
  context.out.add(std::move(label), engine, additions);
}

void Gradients::land(int64_t l) {
  if (context.sumsOnHost(l))
    return landOnHost(l);
  const Engine &engine = context.device(context.deviceOf(l)).engine;
  parts = sums.finish([&](const Packs &into, const std::vector<Packs> &others) { addTo(l, engine, into, others); });
  context.out.setPlace(l, -1);
  for (int64_t k : context.layer(l).packs)
    if (!context.pack(k).isShared())
      computeNorms(l, k);
  for (int64_t k : context.layer(l).packs)
    land(l, k);
}

void Gradients::landOnHost(int64_t l) {
  bringBlocksDown(l, 1);
  const Packs total = onHost.finish(
      [&](const Packs &into, const std::vector<Packs> &others) { addTo(l, context.machine.update, into, others); });
  context.out.setPlace(l, -1);
  for (const auto &[k, place] : total) {
    const GradientPack &pack = context.pack(k);
    if (!pack.isShared())
      squaredNorms(context.out.text("norm of {}", context.named(pack.parameters)), context.machine.update,
                   pack.parameters, place);
    const int64_t part = pack.isShared() ? pack.bytes : context.sizeOfPart(l, pack.bytes);
    for (int64_t begin = 0; begin < pack.bytes; begin += part)
      keep(l, k,
           {begin, std::min(pack.bytes, begin + part), pack.isShared() ? context.decision(l).parts - 1 : begin / part,
            place + begin, place + begin});
  }
}

/// Squared norms of gradients, each where it is told: on the device, if it has a place there.
void Gradients::squaredNorms(std::string label, const Engine &engine, const std::vector<int64_t> &parameters,
                             Place gradient) {
  std::vector<Access> operands;
  for (int64_t p : parameters) {
    auto onDevice = deviceNorms.find(p);
    operands.push_back(
        Emitter::access(gradient + context.parameter(p).packOffset, BindingEffect::read, context.parameter(p).full));
    operands.push_back(Emitter::access(onDevice != deviceNorms.end() ? onDevice->second : layout.normOf(p),
                                       BindingEffect::write, kNormType));
  }
  Command &command = context.out.kernel(std::move(label), engine, "squared_norm", std::move(operands),
                                        static_cast<int64_t>(parameters.size()));
  command.parameters = parameters;
}

/// Those of gradients that one layer alone gives, or whose sum stays on the device: there, and from there to the host.
void Gradients::computeNorms(int64_t l, int64_t k) {
  const std::vector<int64_t> &parameters = context.pack(k).parameters;
  const Device &here = context.device(context.deviceOf(l));
  Emitter &out = context.out;
  if (context.machine.unified())
    return squaredNorms(out.text("norms layer {}", l), here.engine, parameters, parts.at(k));
  const int64_t size = kNormType.bytes();
  Place target = out.slot(out.text("norms of layer {}", l), here.memory, Kind::scalar,
                          size * static_cast<int64_t>(parameters.size()));
  for (size_t i = 0; i < parameters.size(); ++i)
    deviceNorms[parameters[i]] = target + size * static_cast<int64_t>(i);
  squaredNorms(out.text("norms layer {}", l), here.engine, parameters, parts.at(k));
  for (size_t i = 0, end = 0; i < parameters.size(); i = end) { // runs of neighbours go in one copy
    auto next = [&] { return layout.normOf(parameters[i]).offset + size * static_cast<int64_t>(end - i); };
    for (end = i + 1; end < parameters.size() && layout.normOf(parameters[end]).offset == next();)
      ++end;
    out.copy(out.text("norms layer {}", l), target + size * static_cast<int64_t>(i), layout.normOf(parameters[i]),
             size * static_cast<int64_t>(end - i), Urgency::message);
  }
}

void Gradients::land(int64_t l, int64_t k) {
  const GradientPack &pack = context.pack(k);
  Emitter &out = context.out;
  const bool staysOnDevice = context.staysOnDevice(k), comesDown = !context.machine.unified() && !staysOnDevice;
  if (staysOnDevice && context.deviceOf(l) != context.deviceOf(pack.complete())) // parts of other layers
    parts[k] = out.across(labelOf(k, l), parts.at(k), context.device(context.deviceOf(pack.complete())).memory,
                          Kind::gradient, pack.bytes);
  const int64_t bytes = pack.bytes, part = comesDown && !pack.isShared() ? context.sizeOfPart(l, bytes) : bytes;
  for (int64_t begin = 0; begin < bytes; begin += part) {
    const Place device = parts.at(k) + begin;
    Landed landed{begin, std::min(bytes, begin + part), pack.isShared() ? context.decision(l).parts - 1 : begin / part,
                  device, device};
    if (comesDown) {
      landed.place =
          out.slot(out.text("landed {}", labelOf(k, l)), context.machine.staging, Kind::gradient, landed.end - begin);
      landed.isLate = !pack.isShared() && landed.part >= context.firstLateDown(l);
      bringDown(l, k, landed);
    }
    keep(l, k, landed);
  }
}

/// What the first of several layers gives is where the others' are then added to it, in the order of backward: one
/// place, on the host unless the update is on a device, however many layers use the parameters, and the same sum
/// whatever the schedule. The norm is that of the sum, told where that is.
void Gradients::keep(int64_t l, int64_t k, const Landed &landed) {
  const GradientPack &pack = context.pack(k);
  const bool staysOnDevice = context.staysOnDevice(k);
  const Engine &engine =
      staysOnDevice ? context.device(context.deviceOf(pack.complete())).engine : context.machine.update;
  std::vector<Landed> &kept = all[k];
  if (pack.first() == l && landed.begin == 0)
    kept.clear();
  if (pack.first() == l)
    kept.push_back(landed);
  else
    addPack(context.out.text("sum gradients of {}", context.named(pack.parameters)), engine, k, kept.front().place,
            {landed.place});
  if (pack.complete() != l)
    return;
  if (pack.isShared() && staysOnDevice) {
    parts[k] = kept.front().place;
    computeNorms(l, k);
  } else if (pack.isShared()) {
    squaredNorms(context.out.text("norm of {}", context.named(pack.parameters)), engine, pack.parameters,
                 kept.front().place);
  }
  if (context.hasGradientInFile(l) && !landed.isLate) {
    const int64_t inBlock = landed.place.offset % kFileBlock; // as it lies in memory
    kept.back().file = context.out.slot(context.out.text("kept {}", labelOf(k, l)), *context.machine.file,
                                        Kind::gradient, inBlock + landed.end - landed.begin) +
                       inBlock;
    context.out.copy(labelOf(k, l), landed.place, kept.back().file, landed.end - landed.begin);
  }
}

void Gradients::bringDown(int64_t l, int64_t k, const Landed &landed) {
  Command &command = context.out.copy(labelOf(k, l), landed.device, landed.place, landed.end - landed.begin);
  if (context.pack(k).isShared())
    return;
  command.lands = l;
  command.part = landed.part;
  command.late = landed.isLate;
}

} // namespace mt::planner
