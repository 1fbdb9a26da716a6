#include "compiler/planner/Gradients.h"

#include "kernels/Blocks.h"

#include <algorithm>
#include <numeric>

namespace mt::planner {
using plan::BindingEffect;

std::string Gradients::labelOf(int64_t k, int64_t l) const {
  if (context.pack(k).complete() == l)
    return context.out.text("gradients layer {}", l);
  return context.out.text("gradient {} layer {}", context.named(context.pack(k).parameters), l);
}

/// What is added at once is so with one micro-batch alone: otherwise those of a layer are added up first.
bool Gradients::addsInPlace(int64_t l, int64_t k) const {
  const GradientPack &pack = context.pack(k);
  if (!context.machine.unified() || context.model.microBatches > 1 || context.hasRanks() || !pack.isShared() ||
      pack.first() == l)
    return false;
  return std::ranges::all_of(context.code(context.rungOf(l).backward).results, [&](const Result &result) {
    if (result.kind != Result::gradient)
      return true;
    const Operand &what = context.layer(l).operands[static_cast<size_t>(result.index)];
    return what.kind != Operand::parameter || context.parameter(what.index).pack != k || result.addsOnce;
  });
}

void Gradients::open(int64_t l, int64_t microBatch) {
  if (parts.empty() || layer != l)
    sums.clear();
  layer = l;
  sums.try_emplace(context.deviceOf(l, microBatch), context.decision(l).together);
  parts.clear();
  for (int64_t k : context.layer(l).packs)
    parts[k] = addsInPlace(l, k)
                   ? all.at(k).front().place
                   : context.out.slot(context.out.text("device {}{}", labelOf(k, l), context.ofMicroBatch(microBatch)),
                                      context.device(context.deviceOf(l, microBatch)).memory, Kind::gradient,
                                      context.pack(k).bytes);
}

void Gradients::close(int64_t l, int64_t microBatch) {
  const uint32_t device = context.deviceOf(l, microBatch);
  sums.at(device).add(microBatch, parts, [&](const Packs &into, const std::vector<Packs> &others) {
    addTo(l, context.device(device).engine, into, others);
  });
  if (context.sumsOnHost(l))
    bringBlocksDown(l, context.decision(l).summed);
}

void Gradients::addTo(int64_t l, const Engine &engine, const Packs &into, const std::vector<Packs> &others) {
  for (int64_t k : context.layer(l).packs) {
    std::vector<Place> from;
    for (const Packs &other : others)
      from.push_back(other.at(k));
    addPack(context.out.text("sum {}", labelOf(k, l)), engine, k, false, into.at(k), from);
  }
}

/// What devices have of blocks of so many micro-batches, to be added up on the host.
void Gradients::bringBlocksDown(int64_t l, int64_t count) {
  std::vector<BlockSums<Packs>::Block> blocks;
  for (auto &[device, some] : sums)
    for (BlockSums<Packs>::Block &block : some.take(count))
      blocks.push_back(std::move(block));
  for (BlockSums<Packs>::Block &block : blocks) {
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

void Gradients::addPack(std::string label, const Engine &engine, int64_t k, bool own, Place into,
                        const std::vector<Place> &from) {
  std::vector<Addition> additions;
  for (int64_t p : context.pack(k).parameters) {
    const Parameter &entry = context.parameter(p);
    const int64_t offset = own ? entry.ownOffset : entry.packOffset;
    Addition &addition = additions.emplace_back(Addition{into + offset, {}, own ? &entry.own : &entry.full});
    for (const Place &other : from)
      addition.others.push_back(other + offset);
  }
  context.out.add(std::move(label), engine, additions);
}

void Gradients::land(int64_t l) {
  if (context.sumsOnHost(l))
    return landOnHost(l);
  if (context.sharesBatch())
    return landFromAll(l);
  const Engine &engine = context.device(context.deviceOf(l)).engine;
  parts = sums.begin()->second.finish(
      [&](const Packs &into, const std::vector<Packs> &others) { addTo(l, engine, into, others); });
  context.out.setPlace(l, -1);
  for (int64_t k : context.layer(l).packs)
    if (!context.pack(k).isShared() && !context.hasRanks())
      computeNorms(l, k);
  for (int64_t k : context.layer(l).packs)
    land(l, k);
}

/// Bytes where the devices' parts of a pack begin, and the end of the last: whole chunks of norms, and what optimizers
/// take as one.
std::vector<int64_t> Gradients::rangesOf(int64_t k) const {
  const GradientPack &pack = context.pack(k);
  const auto devices = static_cast<int64_t>(context.deviceCount());
  std::vector<int64_t> begins(static_cast<size_t>(devices) + 1, pack.bytes);
  begins[0] = 0;
  for (int64_t d = 1; d < devices; ++d) {
    const int64_t wanted = pack.bytes * d / devices;
    for (int64_t p : pack.parameters) {
      const Parameter &entry = context.parameter(p);
      const int64_t end = entry.packOffset + entry.full.bytes();
      if (wanted >= aligned(end))
        continue;
      const int64_t granule = 4 * std::lcm(entry.shares.chunk, std::max<int64_t>(1, entry.spec->granularity));
      const int64_t cut =
          entry.spec->granularity == 0 ? 0 : std::max<int64_t>(0, wanted - entry.packOffset) / granule * granule;
      const int64_t at = cut < entry.full.bytes() ? entry.packOffset + cut : std::min(aligned(end), pack.bytes);
      begins[static_cast<size_t>(d)] = std::max(begins[static_cast<size_t>(d) - 1], at); // no range is padding alone
      break;
    }
  }
  return begins;
}

/// Where devices share the batch: each gets a part of a pack from all others, adds it up, and alone brings it down.
void Gradients::landFromAll(int64_t l) {
  Emitter &out = context.out;
  std::map<uint32_t, std::vector<BlockSums<Packs>::Block>> blocks;
  for (auto &[device, some] : sums)
    blocks[device] = some.take(1);
  out.setPlace(l, -1);
  for (int64_t k : context.layer(l).packs) {
    const GradientPack &pack = context.pack(k);
    const std::vector<int64_t> begins = rangesOf(k);
    Place whole;
    if (context.hasRanks())
      whole = out.slot(out.text("landed {}", labelOf(k, l)), context.machine.staging, Kind::gradient, pack.bytes);
    for (uint32_t d = 0; d < context.deviceCount(); ++d) {
      const int64_t begin = begins[d], bytes = begins[d + 1] - begin;
      if (bytes == 0)
        continue;
      const Device &owner = context.device(d);
      auto join = [&](const Place &into, const std::vector<Place> &others) {
        addRange(out.text("sum {}", labelOf(k, l)), owner.engine, k, begin, begin + bytes, into, others);
      };
      BlockSums<Place> all(context.decision(l).together);
      for (const auto &[device, list] : blocks)
        for (const BlockSums<Packs>::Block &block : list) {
          Place place = block.sum.at(k) + begin;
          if (device != d)
            place = out.across(labelOf(k, l), place, owner.memory, Kind::gradient, bytes);
          all.add({block.first, block.count, place}, join);
        }
      const Place sum = all.finish(join);
      if (context.hasRanks()) {
        out.copy(labelOf(k, l), sum, whole + begin, bytes);
        continue;
      }
      normParts(l, k, d, begin, begin + bytes, sum);
      Landed landed{
          begin, begin + bytes, std::min(context.decision(l).parts - 1, begin / context.sizeOfPart(l, pack.bytes)),
          out.slot(out.text("landed {}", labelOf(k, l)), context.machine.staging, Kind::gradient, bytes), sum};
      landed.isLate = landed.part >= context.firstLateDown(l);
      bringDown(l, k, landed);
      keep(l, k, landed);
    }
    if (context.hasRanks()) {
      share(l, k, whole);
      continue;
    }
    std::vector<Access> operands;
    for (int64_t p : pack.parameters) {
      const TensorType &type = out.type(kernels::DType::f64, {Layout::allPartsOf(context.parameter(p))});
      operands.push_back(Emitter::access(layout.allParts[static_cast<size_t>(p)], BindingEffect::read, type));
      operands.push_back(Emitter::access(layout.normOf(p), BindingEffect::write, kNormType));
    }
    const auto groups = static_cast<int64_t>(pack.parameters.size());
    out.kernel(out.text("norm of {}", context.named(pack.parameters)), context.machine.update, "squared_norm_sum",
               std::move(operands), groups);
  }
}

std::vector<Gradients::Piece> Gradients::piecesOf(int64_t k, int64_t begin, int64_t end) const {
  std::vector<Piece> pieces;
  for (int64_t p : context.pack(k).parameters) {
    const Parameter &entry = context.parameter(p);
    const int64_t first = std::max(begin, entry.packOffset),
                  last = std::min(end, entry.packOffset + entry.full.bytes());
    if (first < last)
      pieces.push_back({p, (first - entry.packOffset) / 4, (last - first) / 4, first - begin});
  }
  return pieces;
}

void Gradients::addRange(std::string label, const Engine &engine, int64_t k, int64_t begin, int64_t end, Place into,
                         const std::vector<Place> &from) {
  std::vector<Addition> additions;
  for (const Piece &piece : piecesOf(k, begin, end)) {
    Addition &addition = additions.emplace_back(
        Addition{into + piece.offset, {}, &context.out.type(kernels::DType::f32, {piece.count})});
    for (const Place &other : from)
      addition.others.push_back(other + piece.offset);
  }
  context.out.add(std::move(label), engine, additions);
}

/// The sums of which norms are made, of a part of a pack that a device has, and their way to the host.
void Gradients::normParts(int64_t l, int64_t k, uint32_t device, int64_t begin, int64_t end, Place place) {
  Emitter &out = context.out;
  const Device &here = context.device(device);
  const int64_t size = kNormType.bytes();
  std::map<int64_t, std::vector<Piece>> byChunk;
  int64_t total = 0;
  for (const Piece &piece : piecesOf(k, begin, end)) {
    const int64_t chunk = context.parameter(piece.parameter).shares.chunk;
    byChunk[chunk].push_back(piece);
    total += kernels::ceilDivide(piece.count, chunk);
  }
  Place next = out.slot(out.text("device norms layer {}", l), here.memory, Kind::scalar, size * total);
  for (const auto &[chunk, pieces] : byChunk) {
    std::vector<Access> operands;
    std::vector<std::pair<Place, Place>> ways;
    for (const Piece &piece : pieces) {
      const int64_t count = kernels::ceilDivide(piece.count, chunk);
      operands.push_back(
          Emitter::access(place + piece.offset, BindingEffect::read, out.type(kernels::DType::f32, {piece.count})));
      operands.push_back(Emitter::access(next, BindingEffect::write, out.type(kernels::DType::f64, {count})));
      ways.emplace_back(next, layout.allParts[static_cast<size_t>(piece.parameter)] + size * (piece.first / chunk));
      next = next + size * count;
    }
    out.kernel(out.text("norms layer {}", l), here.engine, "squared_norm_parts", std::move(operands),
               static_cast<int64_t>(pieces.size()))
        .chunk = chunk;
    for (size_t i = 0; i < pieces.size(); ++i)
      out.copy(out.text("norms layer {}", l), ways[i].first, ways[i].second,
               size * kernels::ceilDivide(pieces[i].count, chunk), Urgency::message);
  }
}

void Gradients::landOnHost(int64_t l) {
  bringBlocksDown(l, 1);
  const Packs total = onHost.finish(
      [&](const Packs &into, const std::vector<Packs> &others) { addTo(l, context.machine.update, into, others); });
  context.out.setPlace(l, -1);
  for (const auto &[k, place] : total) {
    const GradientPack &pack = context.pack(k);
    if (context.hasRanks()) {
      share(l, k, place);
      continue;
    }
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
  if (context.hasRanks()) {
    Place all = parts.at(k);
    if (comesDown && !context.exchangesOnDevice(l)) {
      all = out.slot(out.text("landed {}", labelOf(k, l)), context.machine.staging, Kind::gradient, pack.bytes);
      out.copy(labelOf(k, l), parts.at(k), all, pack.bytes);
    }
    return share(l, k, all);
  }
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
  else if (!addsInPlace(l, k))
    addPack(context.out.text("sum gradients of {}", context.named(pack.parameters)), engine, k, context.hasRanks(),
            kept.front().place, {landed.place});
  if (pack.complete() != l)
    return;
  if (pack.isShared() && staysOnDevice) {
    parts[k] = kept.front().place;
    computeNorms(l, k);
  } else if (pack.isShared() && context.hasRanks()) {
    ownNorms(k, kept.front().place);
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
