#include "compiler/planner/Updates.h"

#include <algorithm>
#include <utility>

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

std::map<Updates::Part, std::vector<Updates::Piece>> Updates::piecesOf(int64_t l, int64_t first, int64_t end) const {
  std::map<Part, std::vector<Piece>> pieces;
  for (int64_t k : context.layer(l).packs) {
    if (context.pack(k).complete() != l)
      continue;
    for (const Landed &landed : gradients.landed(k)) {
      if (landed.part < first || landed.part >= end)
        continue;
      for (int64_t p : context.pack(k).parameters) {
        if (context.hasRanks()) {
          const auto &[chunk, body, share, tail] = context.parameter(p).shares;
          const Place own = (landed.file ? landed.file : landed.place) + context.parameter(p).ownOffset;
          std::vector<Piece> &list = pieces[{landed.part, context.model.updateOf(p)}];
          if (share > 0)
            list.push_back({p, 0, share, own, 0, share < body});
          if (tail > 0)
            list.push_back({p, body, tail, own + 4 * share, share, false});
          continue;
        }
        const int64_t begin = context.parameter(p).packOffset, size = 4; // of an element
        const int64_t from = std::max<int64_t>(0, landed.begin - begin) / size;
        const int64_t to = std::min(context.parameter(p).full.elements(), (landed.end - begin + size - 1) / size);
        if (from < to)
          pieces[{landed.part, context.model.updateOf(p)}].push_back(
              {p, from, to - from, (landed.file ? landed.file : landed.place) + (begin + from * size - landed.begin),
               from});
      }
    }
  }
  return pieces;
}

void Updates::run(int64_t l, int64_t first, int64_t end) {
  context.out.setPlace(l, -1);
  const std::map<Part, std::vector<Piece>> pieces = piecesOf(l, first, end);
  if (pieces.empty())
    return;
  if (context.speculates(l)) {
    for (const auto &[part, list] : pieces)
      update(l, part, list, kernels::Speculation::ends);
    return;
  }
  if (context.hasStateInFile(l) && !context.updatesOnDevice(l)) {
    std::map<int64_t, std::map<std::string, std::vector<Piece>>> byPart;
    for (const auto &[key, list] : pieces)
      byPart[key.first][key.second] = list;
    for (const auto &[part, list] : byPart)
      updateFromFile(l, part, list);
  } else if (context.streamsState(l)) {
    updateStreamed(l, pieces);
  } else {
    for (const auto &[part, list] : pieces)
      update(l, part, list);
  }
  std::vector<int64_t> shared; // what each rank has updated a share of
  for (const auto &[key, list] : pieces)
    for (const Piece &piece : list)
      if (piece.isShare)
        shared.push_back(piece.parameter);
  if (!shared.empty()) // of one part: layers are not cut where there are ranks
    gatherWeights(l, shared, pieces.begin()->first.first >= context.firstLate(l));
}

void Updates::speculate(int64_t l) {
  context.out.setPlace(l, -1);
  for (const auto &[part, list] : piecesOf(l, 0, Context::kNone)) {
    placeUndos(l, part, list);
    update(l, part, list, kernels::Speculation::begins);
  }
}

/// Makes places for what a speculative update replaces.
void Updates::placeUndos(int64_t l, const Part &part, const std::vector<Piece> &pieces) {
  int64_t bytes = 0;
  std::vector<Undo> &places = undos[{l, part}];
  places.clear();
  for (const Piece &piece : pieces) {
    places.push_back({{0, bytes}, &undoType(piece)});
    bytes += aligned(places.back().type->bytes());
  }
  const Place slot =
      context.out.slot(context.out.text("undo layer {}", l), context.machine.staging, Kind::state, bytes);
  for (Undo &undo : places)
    undo.place.slot = slot.slot;
}

const TensorType &Updates::undoType(const Piece &piece) {
  const kernels::OptimizerSpec &optimizer = *context.parameter(piece.parameter).spec;
  return context.out.type(kernels::DType::u8, {kernels::undoOf(optimizer, piece.count).bytes()});
}

/// What every rank has updated goes to all others.
void Updates::gatherWeights(int64_t l, const std::vector<int64_t> &parameters, bool late) {
  std::vector<Access> weights;
  std::vector<int64_t> shares;
  int64_t bytes = 0;
  for (int64_t p : parameters) {
    const Parameter &entry = context.parameter(p);
    const TensorType &body = context.out.type(entry.type.type, {entry.shares.body});
    weights.push_back(Emitter::access(layout.weightOf(p), BindingEffect::update, body));
    shares.push_back(entry.shares.share);
    bytes += body.bytes();
  }
  context.out
      .exchange(context.out.text("exchange weights layer {}", l), *context.machine.network, "all_gather",
                std::move(weights), std::move(shares), bytes)
      .late = late;
}

/// Bytes of the entries of state that are for some elements.
int64_t Updates::stateBytes(const Range &range, size_t rest) const {
  const Parameter::Rest &entry = context.parameter(range.parameter).rest[rest];
  return kernels::ceilDivide(range.count, entry.elements) * static_cast<int64_t>(kernels::byteSize(entry.type.type));
}
int64_t Updates::stateBytes(const Range &range) const {
  int64_t bytes = 0;
  for (size_t r = 0; r < context.parameter(range.parameter).rest.size(); ++r)
    bytes += aligned(stateBytes(range, r));
  return bytes;
}
int64_t Updates::weightBytes(int64_t p, int64_t elements) const {
  return elements * static_cast<int64_t>(kernels::byteSize(context.parameter(p).type.type));
}

/// A layer's trained parameters, in order, in about as many parts as were decided, and a large one in several runs of
/// elements: one part is updated while the next comes and the one before goes, and the device has room for few of them.
std::vector<std::vector<Updates::Range>> Updates::streamedAtOnce(int64_t l) const {
  constexpr int64_t kElements = kSlotAlignment / 4;
  const std::vector<int64_t> trained = trainedOf(context, l);
  int64_t total = 0;
  for (int64_t p : trained)
    total += stateBytes({p, 0, context.parameter(p).type.elements()});
  const int64_t enough = std::max<int64_t>(1, total / context.decision(l).parts);
  std::vector<std::vector<Range>> all;
  int64_t left = 0; // room in the last of them
  for (int64_t p : trained) {
    const int64_t elements = context.parameter(p).type.elements(), bytes = stateBytes({p, 0, elements});
    const int64_t runs = canCut(context.parameter(p)) ? std::max<int64_t>(1, bytes / enough) : 1;
    const int64_t run = kernels::ceilDivide(elements, runs * kElements) * kElements;
    for (int64_t first = 0; first < elements; first += run) {
      const Range range{p, first, std::min(run, elements - first)};
      if (left <= 0) {
        all.emplace_back();
        left = enough;
      }
      all.back().push_back(range);
      left -= stateBytes(range);
    }
  }
  return all;
}

void Updates::updateStreamed(int64_t l, const std::map<Part, std::vector<Piece>> &pieces) {
  for (const std::vector<Range> &ranges : streamedAtOnce(l)) {
    bringState(l, ranges);
    for (const auto &[part, list] : pieces) {
      std::vector<Piece> some;
      for (const Range &range : ranges)
        for (const Piece &piece : list)
          if (piece.parameter == range.parameter)
            some.push_back({piece.parameter, range.first, range.count, piece.gradient + 4 * range.first, range.first});
      if (!some.empty())
        update(l, part, some);
    }
    takeState(l, ranges);
  }
}

/// State on a device, and those of its weights that the phase that runs has not brought.
void Updates::bringState(int64_t l, const std::vector<Range> &ranges) {
  const uint32_t device = context.deviceOf(l), memory = context.device(device).memory;
  Emitter &out = context.out;
  streamedWeights.clear();
  std::vector<Range> missing;
  int64_t bytes = 0;
  for (const Range &range : ranges) {
    const int64_t p = range.parameter;
    const Place always = layout.residentWeights[static_cast<size_t>(p)];
    const Place there = always || context.model.clip ? always : deviceWeights.ifWanted(p, device);
    if (there) {
      streamedWeights[p] = there;
    } else {
      missing.push_back(range);
      bytes += aligned(weightBytes(p, range.count));
    }
  }
  if (bytes > 0) {
    Moves moves;
    Place place = out.slot(out.text("device weights of layer {} to update", l), memory, Kind::weight, bytes);
    for (const auto &[p, first, count] : missing) {
      streamedWeights[p] = place + -weightBytes(p, first);
      moves.add(layout.weightOf(p) + weightBytes(p, first), place, weightBytes(p, count));
      place = place + aligned(weightBytes(p, count));
    }
    moves.emit(out, out.text("weights layer {} to update", l), true);
  }
  streamedState.assign(context.model.parameters.size(), {});
  bytes = 0;
  for (const Range &range : ranges)
    bytes += stateBytes(range);
  if (bytes == 0)
    return;
  Place place = out.slot(out.text("device state layer {}", l), memory, Kind::state, bytes);
  for (const Range &range : ranges) {
    std::vector<Place> &rest = streamedState[static_cast<size_t>(range.parameter)];
    for (size_t r = 0; r < context.parameter(range.parameter).rest.size(); ++r) {
      rest.push_back(place + -stateBytes({range.parameter, 0, range.first}, r));
      place = place + aligned(stateBytes(range, r));
    }
  }
  stateMoves(ranges).emit(out, out.text("state layer {}", l), true);
}

Moves Updates::stateMoves(const std::vector<Range> &ranges) const {
  Moves moves;
  for (const Range &range : ranges) {
    const auto p = static_cast<size_t>(range.parameter);
    for (size_t r = 0; r < context.parameter(range.parameter).rest.size(); ++r) {
      const int64_t first = stateBytes({range.parameter, 0, range.first}, r);
      moves.add(layout.state[p][r] + first, streamedState[p][r] + first, stateBytes(range, r));
    }
  }
  return moves;
}

void Updates::takeState(int64_t l, const std::vector<Range> &ranges) {
  Moves moves;
  for (const auto &[p, first, count] : ranges)
    if (!layout.residentWeights[static_cast<size_t>(p)])
      moves.add(layout.weightOf(p) + weightBytes(p, first), streamedWeights.at(p) + weightBytes(p, first),
                weightBytes(p, count));
  moves.emit(context.out, context.out.text("updated weights layer {}", l), false);
  stateMoves(ranges).emit(context.out, context.out.text("state layer {}", l), false);
}

/// One part of a layer whose state is in a file: what of it the pieces are of comes to memory once their gradients are
/// there, or with those, and goes back. Every run of it lies in its block as it does in the file.
void Updates::updateFromFile(int64_t l, int64_t part, std::map<std::string, std::vector<Piece>> pieces) {
  Emitter &out = context.out;
  struct Run {
    Place inFile;
    int64_t bytes, inMemory;
    bool ends;    ///< with what it is of: what is beyond, to the next, is nobody's
    Place *place; ///< where byte 0 of what it is of would be in memory
    int64_t first;
    bool isState; ///< and goes back
  };
  std::map<std::pair<uint32_t, int64_t>, Run> runs; ///< by place in the file
  auto add = [&](Place from, int64_t bytes, bool ends, Place *place, int64_t first, bool isState) {
    runs[{from.slot, from.offset}] = {from, bytes, 0, ends, place, first, isState};
  };
  streamedState.assign(context.model.parameters.size(), {});
  if (context.hasWeightsInFile(l))
    streamedWeights.clear();
  for (auto &[kernel, list] : pieces)
    for (Piece &piece : list) {
      const auto p = static_cast<size_t>(piece.parameter);
      const Parameter &entry = context.parameter(piece.parameter);
      streamedState[p].resize(entry.rest.size());
      for (size_t r = 0; r < entry.rest.size(); ++r) {
        const Parameter::Rest &rest = entry.rest[r];
        const auto size = static_cast<int64_t>(kernels::byteSize(rest.type.type));
        const int64_t first = piece.place / rest.elements * size;
        const int64_t bytes = (piece.count + rest.elements - 1) / rest.elements * size;
        add(layout.state[p][r] + first, bytes, first + bytes == rest.type.bytes(), &streamedState[p][r], first, true);
      }
      if (isInFile(layout.weightOf(piece.parameter))) {
        const auto size = static_cast<int64_t>(kernels::byteSize(entry.type.type));
        const int64_t first = piece.first * size, bytes = piece.count * size;
        add(layout.weightOf(piece.parameter) + first, bytes, first + bytes == entry.type.bytes(),
            &streamedWeights[piece.parameter], first, true);
      }
      if (isInFile(piece.gradient))
        add(piece.gradient, piece.count * 4, piece.place + piece.count == entry.own.elements(), &piece.gradient, 0,
            false);
    }
  int64_t end = 0;
  std::vector<Run> joined;
  for (auto &[where, run] : runs) {
    const bool isBeside = !joined.empty() && joined.back().inFile.slot == run.inFile.slot;
    const int64_t before = isBeside ? joined.back().inFile.offset + joined.back().bytes : -1,
                  offset = run.inFile.offset;
    const bool goesOn = before == offset || (isBeside && joined.back().ends && aligned(before) == offset);
    run.inMemory = goesOn ? joined.back().inMemory + (offset - joined.back().inFile.offset)
                          : (end + kFileBlock - 1) / kFileBlock * kFileBlock + offset % kFileBlock;
    if (goesOn)
      joined.back().bytes = offset + run.bytes - joined.back().inFile.offset, joined.back().ends = run.ends;
    else
      joined.push_back(run);
    end = run.inMemory + aligned(run.bytes);
  }
  const Place memory = out.slot(out.text("state layer {} to update", l), context.machine.staging, Kind::state, end);
  const bool late = part >= context.firstLate(l);
  for (const Run &run : joined) {
    Command &read = out.copy(run.isState ? out.text("state layer {}", l) : out.text("gradients layer {}", l),
                             run.inFile, memory + run.inMemory, run.bytes);
    const bool waits =
        context.model.clip || !context.machine.unified(); // what computes and updates in turn opens none too early
    for (const auto &[kernel, list] : pieces)
      for (const Piece &piece : list)
        if (waits && !isInFile(piece.gradient) &&
            std::ranges::none_of(read.accesses, [&](const Access &each) { return each.slot == piece.gradient.slot; }))
          read.accesses.push_back({piece.gradient.slot, piece.gradient.offset, piece.count * 4, BindingEffect::read});
    if (context.model.clip) // so that no memory waits for the norm, which waits for gradients, which wait for memory
      read.accesses.push_back(out.access(layout.finalScalars, BindingEffect::read, *layout.scalarRows));
    read.late = late;
  }
  for (const auto &[where, run] : runs)
    *run.place = memory + (run.inMemory - run.first);
  for (const auto &[kernel, list] : pieces)
    update(l, {part, kernel}, list);
  for (const Run &run : joined)
    if (run.isState)
      out.copy(out.text("state layer {}", l), memory + run.inMemory, run.inFile, run.bytes).late = late;
}

/// The type of elements of a parameter, or of entries that are for so many of them each.
const TensorType &Updates::typeOf(const Piece &piece, const TensorType &whole, int64_t elements) {
  if (piece.count == context.parameter(piece.parameter).type.elements())
    return whole;
  return context.out.schedule.types.emplace_back(TensorType{whole.type, kernels::partDims(elements, {piece.count})});
}
Access Updates::updated(const Piece &piece, Place place, int64_t first, const TensorType &whole, int64_t elements) {
  const auto size = static_cast<int64_t>(kernels::byteSize(whole.type));
  return Emitter::access(place + first / elements * size, BindingEffect::update, typeOf(piece, whole, elements));
}
Access Updates::updatedWeight(const Piece &piece, Place place) {
  const Parameter &entry = context.parameter(piece.parameter);
  if (piece.isShare)
    return context.out.accessShare(place, BindingEffect::update, entry.type.type, entry.shares);
  return updated(piece, place, piece.first, entry.type);
}

/// With clipping, and where the step has ended, updates read the scalars that its end left.
void Updates::update(int64_t l, const Part &part, const std::vector<Piece> &pieces, kernels::Speculation speculation) {
  using kernels::Speculation;
  const bool onDevice = context.updatesOnDevice(l), isResident = context.isResident(l);
  const bool waits = context.model.clip && speculation != Speculation::begins;
  const bool open = context.isOpen(l) && !context.model.clip;
  const bool late = part.first >= context.firstLate(l) && speculation != Speculation::begins;
  const Place read = onDevice        ? scalars.at(context.deviceOf(l))
                     : waits || late ? layout.finalScalars
                                     : layout.stepScalars;
  const State &rest = isResident                                ? layout.residentState
                      : onDevice || context.hasStateInFile(l) ? streamedState
                                                              : layout.state;
  const Engine &engine = onDevice ? context.device(context.deviceOf(l)).engine : context.machine.update;
  std::vector<Access> operands;
  operands.reserve(pieces.size() * (5 + context.parameter(pieces.front().parameter).rest.size()));
  for (size_t number = 0; number < pieces.size(); ++number) {
    const Piece &piece = pieces[number];
    const int64_t p = piece.parameter;
    const Parameter &entry = context.parameter(p);
    const auto i = static_cast<size_t>(p);
    const size_t first = operands.size();
    operands.push_back(Emitter::access(piece.gradient, BindingEffect::read, typeOf(piece, entry.full)));
    operands.push_back(Emitter::access(gradients.normFor(p, onDevice), BindingEffect::read, kNormType));
    if (!open) // whose scalars it reads is not known
      operands.push_back(Emitter::access(read + scalarRowOf(p), BindingEffect::read, kScalarsType));
    operands.push_back(updatedWeight(piece, isResident                                ? layout.residentWeights[i]
                                            : onDevice || isInFile(layout.weights[i]) ? streamedWeights.at(p)
                                                                                      : layout.weights[i]));
    for (size_t r = 0; r < entry.rest.size(); ++r)
      operands.push_back(updated(piece, rest[i][r], piece.place, entry.rest[r].type, entry.rest[r].elements));
    if (speculation != Speculation::none) {
      const Undo &undo = undos.at({l, part}).at(number);
      if (speculation == Speculation::ends)
        operands.insert(operands.begin() + static_cast<ptrdiff_t>(first + kernels::kUpdateUndo),
                        Emitter::access(undo.place, BindingEffect::read, *undo.type));
      else
        operands.push_back(Emitter::access(undo.place, BindingEffect::write, *undo.type));
    }
  }
  Command &command =
      context.out.kernel(context.out.text("{} layer {}", speculation == Speculation::ends ? "confirm" : "update", l),
                         engine, part.second, std::move(operands), static_cast<int64_t>(pieces.size()));
  command.role = plan::Role::update;
  for (const Piece &piece : pieces) {
    command.parameters.push_back(piece.parameter);
    command.firsts.push_back(piece.first);
  }
  if (speculation == Speculation::begins)
    command.begins = l;
  else
    command.updates = onDevice ? -1 : l;
  if (speculation == Speculation::ends)
    command.clippedSeconds = std::exchange(command.seconds, context.machine.target.kernelOverheadSeconds *
                                                                static_cast<double>(pieces.size()));
  command.part = part.first;
  command.late = late;
}

} // namespace mt::planner
