#include "compiler/planner/Updates.h"

#include <algorithm>

namespace mt::planner {
using plan::BindingEffect;

namespace {
/// Of the parameters whose weights lie with a layer.
std::vector<int64_t> trainedOf(const Context &context, int64_t l) {
  std::vector<int64_t> trained;
  for (int64_t p : context.layer(l).owned)
    if (context.parameter(p).isTrained())
      trained.push_back(p);
  return trained;
}
} // namespace

void Updates::run(int64_t l, int64_t first, int64_t end) {
  context.out.setPlace(l, -1);
  std::map<std::pair<int64_t, std::string>, std::vector<Piece>> pieces; ///< by part and kernel
  for (int64_t k : context.layer(l).packs) {
    if (context.pack(k).complete() != l)
      continue;
    for (const Landed &landed : gradients.landed(k)) {
      if (landed.part < first || landed.part >= end)
        continue;
      for (int64_t p : context.pack(k).parameters) {
        const int64_t begin = context.parameter(p).packOffset, size = 4; // of an element
        const int64_t from = std::max<int64_t>(0, landed.begin - begin) / size;
        const int64_t to = std::min(context.parameter(p).full.elements(), (landed.end - begin + size - 1) / size);
        if (from < to)
          pieces[{landed.part, context.model.updateOf(p)}].push_back(
              {p, from, to - from, landed.place + (begin + from * size - landed.begin)});
      }
    }
  }
  const bool isStreamed = context.streamsState(l) && !pieces.empty();
  if (isStreamed)
    bringState(l);
  for (const auto &[key, list] : pieces)
    update(l, key.first, key.second, list);
  if (isStreamed)
    takeState(l);
}

/// The state of a layer, and those of its weights that the phase that runs has not brought.
void Updates::bringState(int64_t l) {
  const uint32_t device = context.deviceOf(l), memory = context.device(device).memory;
  Emitter &out = context.out;
  streamedWeights.clear();
  const std::vector<int64_t> trained = trainedOf(context, l);
  std::vector<int64_t> missing;
  for (int64_t p : trained) {
    const Place there = context.model.clip ? Place() : deviceWeights.ifWanted(p, device);
    if (there)
      streamedWeights[p] = there;
    else
      missing.push_back(p);
  }
  int64_t bytes = 0;
  for (int64_t p : missing)
    bytes += aligned(context.parameter(p).type.bytes());
  Moves moves;
  if (bytes > 0) {
    Place place = out.slot(out.text("device weights of layer {} to update", l), memory, Kind::weight, bytes);
    for (int64_t p : missing) {
      streamedWeights[p] = place;
      moves.add(layout.weightOf(p), place, context.parameter(p).type.bytes());
      place = place + aligned(context.parameter(p).type.bytes());
    }
    moves.emit(out, out.text("weights layer {} to update", l), true);
  }
  streamedState.assign(context.model.parameters.size(), {});
  for (int64_t p : trained)
    streamedState[static_cast<size_t>(p)].resize(context.parameter(p).rest.size());
  placeState(context, out.text("device state layer {}", l), memory, trained, streamedState, false);
  moves.addState(context, layout, trained, streamedState);
  moves.emit(out, out.text("state layer {}", l), true);
}

void Updates::takeState(int64_t l) {
  const std::vector<int64_t> trained = trainedOf(context, l);
  Moves moves;
  for (int64_t p : trained)
    moves.add(layout.weightOf(p), streamedWeights.at(p), context.parameter(p).type.bytes());
  moves.emit(context.out, context.out.text("updated weights layer {}", l), false);
  moves.addState(context, layout, trained, streamedState);
  moves.emit(context.out, context.out.text("state layer {}", l), false);
}

/// The type of elements of a parameter, or of entries that are for so many of them each.
const TensorType &Updates::typeOf(const Piece &piece, const TensorType &whole, int64_t elements) {
  if (piece.count == context.parameter(piece.parameter).type.elements())
    return whole;
  return context.out.schedule.types.emplace_back(TensorType{whole.type, kernels::partDims(elements, {piece.count})});
}
Access Updates::updated(const Piece &piece, Place place, const TensorType &whole, int64_t elements) {
  const auto size = static_cast<int64_t>(kernels::byteSize(whole.type));
  return Emitter::access(place + piece.first / elements * size, BindingEffect::update, typeOf(piece, whole, elements));
}

/// With clipping, and where the step has ended, updates read the scalars that its end left.
void Updates::update(int64_t l, int64_t part, const std::string &kernel, const std::vector<Piece> &pieces) {
  const bool onDevice = context.updatesOnDevice(l), isResident = context.isResident(l);
  const bool open = context.isOpen(l) && !context.model.clip, late = part >= context.firstLate(l);
  const Place read = onDevice                     ? scalars.at(context.deviceOf(l))
                     : context.model.clip || late ? layout.finalScalars
                                                  : layout.stepScalars;
  const State &rest = isResident ? layout.residentState : onDevice ? streamedState : layout.state;
  std::vector<Access> operands;
  for (const Piece &piece : pieces) {
    const int64_t p = piece.parameter;
    const Parameter &entry = context.parameter(p);
    const auto i = static_cast<size_t>(p);
    operands.push_back(Emitter::access(piece.gradient, BindingEffect::read, typeOf(piece, entry.full)));
    operands.push_back(Emitter::access(gradients.normFor(p, onDevice), BindingEffect::read, kNormType));
    if (!open) // whose scalars it reads is not known
      operands.push_back(Emitter::access(read + scalarRowOf(p), BindingEffect::read, kScalarsType));
    operands.push_back(updated(piece,
                               isResident ? layout.residentWeights[i]
                               : onDevice ? streamedWeights.at(p)
                                          : layout.weights[i],
                               entry.type));
    for (size_t r = 0; r < entry.rest.size(); ++r)
      operands.push_back(updated(piece, rest[i][r], entry.rest[r].type, entry.rest[r].elements));
  }
  const Engine &engine = onDevice ? context.device(context.deviceOf(l)).engine : context.machine.update;
  Command &command = context.out.kernel(context.out.text("update layer {}", l), engine, kernel, std::move(operands),
                                        static_cast<int64_t>(pieces.size()));
  command.role = plan::Role::update;
  for (const Piece &piece : pieces) {
    command.parameters.push_back(piece.parameter);
    command.firsts.push_back(piece.first);
  }
  command.updates = onDevice ? -1 : l;
  command.part = part;
  command.late = late;
}

} // namespace mt::planner
