// Gradients that ranks share: each adds up what all have given of its own part. The norms of the whole gradient come
// of those of all parts.
#include "compiler/planner/Gradients.h"

#include "kernels/Blocks.h"

#include <bit>

namespace mt::planner {
using plan::BindingEffect;

namespace {
/// A sum, and the terms of it in the kernel's order. It is the first of them itself where it is updated.
struct Terms {
  Access sum;
  std::vector<Access> others;
};
} // namespace

/// Adds up on an engine; a device takes a few terms at a time, which leaves sums of blocks.
static void addTerms(Context &context, const std::string &label, const Engine &engine, std::vector<Terms> tensors) {
  Emitter &out = context.out;
  const size_t most = engine.backend == kernels::Backend::cpu ? SIZE_MAX : static_cast<size_t>(kernels::kSumTerms);
  std::map<std::pair<bool, size_t>, std::vector<Access>> calls; ///< by whether the sum is a term, and the terms
  auto add = [&](const Access &sum, std::span<const Access> others) {
    const bool isTerm = sum.effect == BindingEffect::update;
    std::vector<Access> &operands = calls[{isTerm, others.size() + isTerm}];
    operands.insert(operands.end(), others.begin(), others.end());
    operands.push_back(sum);
  };
  auto run = [&] {
    for (auto &[kind, operands] : calls) {
      const auto groups = static_cast<int64_t>(operands.size() / (kind.second + (kind.first ? 0 : 1)));
      out.kernel(label, engine, kind.first ? "pairwise_sum" : "tree_sum", std::move(operands), groups);
    }
    calls.clear();
  };
  while (tensors.front().others.size() + (tensors.front().sum.effect == BindingEffect::update) > most) {
    int64_t bytes = 0;
    std::vector<std::pair<Access *, int64_t>> places;
    std::vector<Terms> next;
    for (Terms &each : tensors) {
      Terms &blocks = next.emplace_back(Terms{each.sum, {}});
      std::span<const Access> left = each.others;
      if (each.sum.effect == BindingEffect::update) {
        add(each.sum, left.first(most - 1));
        left = left.subspan(most - 1);
      }
      for (; !left.empty(); left = left.subspan(std::min(most, left.size()))) {
        blocks.others.push_back({0, bytes, each.sum.bytes, BindingEffect::read, each.sum.type});
        bytes += aligned(each.sum.bytes);
      }
    }
    const Place sums = out.slot(out.text("sums of blocks"), engine.space, Kind::gradient, bytes);
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::span<const Access> left = tensors[i].others;
      if (tensors[i].sum.effect == BindingEffect::update)
        left = left.subspan(most - 1);
      for (Access &block : next[i].others) {
        block.slot = sums.slot;
        Access sum = block;
        sum.effect = BindingEffect::write;
        add(sum, left.first(std::min(most, left.size())));
        left = left.subspan(std::min(most, left.size()));
      }
    }
    run();
    tensors = std::move(next);
  }
  for (const Terms &each : tensors)
    add(each.sum, each.others);
  run();
}

/// Every rank sends the others their shares of what its micro-batches give, and adds up what it has of its own, in the
/// order in which one rank adds up those micro-batches. Of a power of two of ranks the order of the terms may begin
/// with any: their sums are those of neighbours, of pairs of these, and so on. Its own term is then read where it is.
/// From the device's memory, where that is decided, and then its own sum comes down; else from the host's, with all
/// that has come down. In 16 bits every term is rounded, its own too, for of the tails all ranks have the sum.
void Gradients::share(int64_t l, int64_t k, Place all) {
  const GradientPack &pack = context.pack(k);
  Emitter &out = context.out;
  const bool onDevice = context.exchangesOnDevice(l), isNarrow = context.model.narrowExchange;
  const Device &here = context.device(context.deviceOf(l));
  const Engine &network = onDevice ? *here.network : *context.machine.network;
  const Engine &adds = onDevice ? network : context.machine.update;
  const uint32_t space = onDevice ? here.memory : context.machine.staging;
  const kernels::DType type = isNarrow ? kernels::DType::bf16 : kernels::DType::f32;
  const auto size = static_cast<int64_t>(kernels::byteSize(type));
  if (isNarrow) {
    const int64_t elements = pack.bytes / 4;
    const Place rounded = out.slot(out.text("rounded {}", labelOf(k, l)), space, Kind::gradient, size * elements);
    out.kernel(out.text("round {}", labelOf(k, l)), adds, "cast",
               {Emitter::access(all, BindingEffect::read, out.type(kernels::DType::f32, {elements})),
                Emitter::access(rounded, BindingEffect::write, out.type(type, {elements}))});
    all = rounded;
  }
  const bool isByNeighbours = std::has_single_bit(static_cast<uint64_t>(context.model.ranks));
  const int64_t terms = context.model.ranks - (isByNeighbours ? 1 : 0); // that the exchange writes
  struct Tensor {
    Place from;
    kernels::Shares shares;   ///< of it
    int64_t own, first, rest; ///< where its sum is, and what the exchange writes: the first term, and the others
  };
  std::vector<Tensor> tensors;
  int64_t received = 0; ///< bytes, beside those where the sums are
  for (int64_t p : pack.parameters) {
    const Parameter &entry = context.parameter(p);
    auto add = [&](int64_t first, int64_t elements, int64_t place, int64_t owned) {
      if (elements == 0)
        return;
      Tensor &tensor = tensors.emplace_back();
      tensor.shares.body = elements, tensor.shares.share = owned;
      tensor.from = all + size * (entry.packOffset / 4 + first);
      tensor.own = entry.ownOffset + 4 * place;
      tensor.first = received;
      received += isNarrow ? aligned(size * owned) : 0;
      tensor.rest = received;
      received += aligned(size * (terms - 1) * owned);
    };
    add(0, entry.shares.body, 0, entry.shares.share);
    add(entry.shares.body, entry.shares.tail, entry.shares.share, entry.shares.tail);
  }
  const Place own = out.slot(out.text("own {}", labelOf(k, l)), space, Kind::gradient, pack.ownBytes);
  Place theirs = own;
  if (received > 0)
    theirs = out.slot(out.text("others' {}", labelOf(k, l)), space, Kind::gradient, received);
  std::vector<Access> operands;
  std::vector<Terms> sums;
  std::vector<int64_t> shares;
  for (const Tensor &tensor : tensors) {
    operands.push_back(Emitter::access(tensor.from, BindingEffect::read, out.type(type, {tensor.shares.body})));
    shares.push_back(tensor.shares.share);
  }
  for (const Tensor &tensor : tensors) {
    const int64_t share = tensor.shares.share;
    const TensorType &one = out.type(type, {share});
    const Place first = isNarrow ? theirs + tensor.first : own + tensor.own;
    operands.push_back(Emitter::access(first, BindingEffect::write, one));
    if (terms > 1)
      operands.push_back(
          Emitter::access(theirs + tensor.rest, BindingEffect::write, out.type(type, {terms - 1, share})));
    Terms &sum = sums.emplace_back();
    sum.sum = Emitter::access(own + tensor.own, isNarrow ? BindingEffect::write : BindingEffect::update,
                              out.type(kernels::DType::f32, {share}));
    if (isByNeighbours)
      sum.others.push_back(out.accessShare(tensor.from, BindingEffect::read, type, tensor.shares));
    if (isNarrow)
      sum.others.push_back(Emitter::access(first, BindingEffect::read, one));
    for (int64_t i = 0; i + 1 < terms; ++i)
      sum.others.push_back(Emitter::access(theirs + (tensor.rest + i * one.bytes()), BindingEffect::read, one));
  }
  out.exchange(out.text("exchange {}", labelOf(k, l)), network, "all_to_all", std::move(operands), std::move(shares),
               pack.bytes / 4 * size)
      .seconds += isByNeighbours ? 0 : context.machine.copySeconds(pack.ownBytes / 4 * size, network);
  addTerms(context, out.text("sum {} of all ranks", labelOf(k, l)), adds, std::move(sums));
  Place landed = own;
  if (onDevice) {
    landed = out.slot(out.text("landed {}", labelOf(k, l)), context.machine.staging, Kind::gradient, pack.ownBytes);
    out.copy(labelOf(k, l), own, landed, pack.ownBytes);
  }
  if (!pack.isShared())
    ownNorms(k, landed);
  keep(l, k, {0, pack.ownBytes, context.decision(l).parts - 1, landed, landed});
}

/// The sums of which norms are made, of what a rank has, and their norm, by which its updates see what is not finite.
void Gradients::ownNorms(int64_t k, Place own) {
  const GradientPack &pack = context.pack(k);
  Emitter &out = context.out;
  std::map<int64_t, std::vector<int64_t>> byChunk;
  for (int64_t p : pack.parameters)
    byChunk[context.parameter(p).shares.chunk].push_back(p);
  std::vector<Access> sums;
  for (const auto &[chunk, parameters] : byChunk) {
    std::vector<Access> operands;
    for (int64_t p : parameters) {
      const Parameter &entry = context.parameter(p);
      const auto i = static_cast<size_t>(p);
      const TensorType &parts = out.type(kernels::DType::f64, {Layout::ownPartsOf(entry)});
      operands.push_back(Emitter::access(own + entry.ownOffset, BindingEffect::read, entry.own));
      operands.push_back(Emitter::access(layout.ownParts[i], BindingEffect::write, parts));
      sums.push_back(Emitter::access(layout.ownParts[i], BindingEffect::read, parts));
      sums.push_back(Emitter::access(layout.ownNorms[i], BindingEffect::write, kNormType));
    }
    Command &command = out.kernel(out.text("norm of {}", context.named(parameters)), context.machine.update,
                                  "squared_norm_parts", std::move(operands), static_cast<int64_t>(parameters.size()));
    command.chunk = chunk;
  }
  const auto groups = static_cast<int64_t>(sums.size() / 2);
  out.kernel(out.text("norm of {}", context.named(pack.parameters)), context.machine.update, "squared_norm_sum",
             std::move(sums), groups);
}

void Gradients::gatherNorms() {
  Emitter &out = context.out;
  std::vector<Access> placed, gathered, summed;
  std::vector<int64_t> shares;
  int64_t bytes = 0;
  for (size_t p = 0; p < context.model.parameters.size(); ++p) {
    const Parameter &entry = context.model.parameters[p];
    if (!entry.isTrained())
      continue;
    kernels::Shares parts = entry.shares; // of the sums as of the elements
    for (int64_t *count : {&parts.body, &parts.share, &parts.tail})
      *count = kernels::ceilDivide(*count, entry.shares.chunk);
    const Place own = layout.ownParts[p], all = layout.allParts[p];
    auto place = [&](Place from, Access to) {
      placed.push_back(Emitter::access(from, BindingEffect::read, *to.type));
      placed.push_back(to);
    };
    const int64_t size = kNormType.bytes();
    if (parts.body > 0) {
      place(own, out.accessShare(all, BindingEffect::write, kernels::DType::f64, parts));
      gathered.push_back(Emitter::access(all, BindingEffect::update, out.type(kernels::DType::f64, {parts.body})));
      shares.push_back(parts.share);
      bytes += size * parts.body;
    }
    if (parts.tail > 0)
      place(own + size * parts.share, Emitter::access(all + size * parts.body, BindingEffect::write,
                                                      out.type(kernels::DType::f64, {parts.tail})));
    summed.push_back(
        Emitter::access(all, BindingEffect::read, out.type(kernels::DType::f64, {Layout::allPartsOf(entry)})));
    summed.push_back(Emitter::access(layout.norms[p], BindingEffect::write, kNormType));
  }
  const auto copies = static_cast<int64_t>(placed.size() / 2), norms = static_cast<int64_t>(summed.size() / 2);
  out.kernel(out.text("norms of this rank"), context.machine.update, "copy", std::move(placed), copies);
  if (!gathered.empty())
    out.exchange(out.text("norms of all ranks"), *context.machine.network, "all_gather", std::move(gathered),
                 std::move(shares), bytes);
  out.kernel(out.text("norms"), context.machine.update, "squared_norm_sum", std::move(summed), norms);
}

} // namespace mt::planner
