// What a schedule needs besides the operations of a graph: feeding, norms, clipping, updates, reporting.
#include "kernels/Blocks.h"
#include "kernels/Optimizers.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

#include <algorithm>
#include <bit>

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

std::string checkFeed(const Signature &) { return ""; }

std::string checkReport(const Signature &call) {
  return Checker(call).type(0, DType::f32).dims(0, {}).scalars(1).result();
}

std::string checkPairwiseSum(const Signature &call) {
  Checker checker(call);
  for (int i = 0; i < static_cast<int>(call.operands.size()); ++i)
    checker.type(i, DType::f32).sameDims(i, 0);
  return checker.result();
}

/// Terms of one type, of 16 bits or 32.
std::string checkTreeSum(const Signature &call) {
  const int terms = static_cast<int>(call.operands.size()) - 1;
  Checker checker(call);
  checker.require(checker.at(terms).present, "its sum has no place")
      .require(checker.at(0).type == DType::f32 || checker.at(0).type == DType::bf16, "terms are neither f32 nor bf16")
      .type(terms, DType::f32)
      .sameDims(terms, 0);
  for (int i = 1; i < terms; ++i)
    checker.like(i, 0);
  return checker.result();
}

std::string checkSquaredNorm(const Signature &call) {
  return Checker(call).floating(0).type(1, DType::f64).dims(1, {1}).result();
}

constexpr AttributeSpec kMomentum[] = {
    {"momentum", AttributeSpec::Kind::real, false, "",
     "what a step keeps of the running one: of its gradient, which is its next value"}};
constexpr AttributeSpec kChunk[] = {{"chunk", Kind::integer, true, "", "elements that are summed apart"}};

std::string checkSquaredNormParts(const Signature &call) {
  const int64_t chunk = call.integer("chunk");
  return Checker(call)
      .floating(0)
      .type(1, DType::f64)
      .require(chunk >= 1, "attribute chunk must be positive")
      .then([chunk](Checker &c) { c.dims(1, {ceilDivide(c.at(0).elements(), chunk)}); })
      .result();
}

std::string checkSquaredNormSum(const Signature &call) {
  return Checker(call)
      .type(0, DType::f64)
      .rank(0, 1)
      .type(1, DType::f64)
      .dims(1, {1})
      .then([](Checker &c) { c.require(c.at(0).dims[0] <= kNormParts, "there are more parts than a norm has"); })
      .result();
}

constexpr AttributeSpec kExchange[] = {
    {"ranks", Kind::integer, true, "", "that take part"},
    {"shares", Kind::integers, true, "", "of each tensor: the elements that are one rank's"}};

/// Of tensors of one dimension, from operand `first` on.
Checker &checkShares(Checker &checker, const Signature &call, size_t first, size_t tensors) {
  const std::vector<int64_t> shares = call.integers("shares");
  checker.require(call.integer("ranks") >= 2, "attribute ranks must be 2 at least")
      .require(shares.size() == tensors && tensors > 0, "attribute shares must have an entry for each tensor");
  for (size_t i = 0; i < tensors && checker.ok(); ++i)
    checker.rank(static_cast<int>(first + i), 1).then([&](Checker &c) {
      const int64_t elements = c.at(static_cast<int>(first + i)).elements();
      c.require(shares[i] >= 1 && shares[i] <= elements, "a share is some elements of its tensor")
          .require(ceilDivide(elements, std::max<int64_t>(shares[i], 1)) <= call.integer("ranks"),
                   "the shares of all ranks are fewer elements than their tensor");
    });
  return checker;
}

bool isByNeighbours(int64_t ranks) { return std::has_single_bit(static_cast<uint64_t>(ranks)); }

std::string checkAllToAll(const Signature &call) {
  Checker checker(call);
  const auto tensors = static_cast<size_t>(std::ranges::count(call.operands, Effect::read, &OperandType::effect));
  const size_t each = call.operands.size() / std::max<size_t>(1, tensors); // with one that is read
  checker.require((each == 2 || each == 3) && call.operands.size() == each * tensors,
                  "every tensor has one operand that is read, and one or two that are written");
  if (!checker.ok())
    return checker.result();
  const int64_t ranks = call.integer("ranks"), others = ranks - (isByNeighbours(ranks) ? 2 : 1);
  checkShares(checker, call, 0, tensors).then([&](Checker &c) {
    for (size_t i = 0; i < tensors && c.ok(); ++i) {
      const int64_t share = call.integers("shares")[i];
      const int from = static_cast<int>(i), first = static_cast<int>(tensors + (each - 1) * i);
      for (int operand = first; operand < first + static_cast<int>(each) - 1; ++operand)
        c.require(c.at(operand).present, "no operand may be absent");
      c.sameType(first, from)
          .dims(first, {share})
          .require((others > 0) == (each == 3), "of two ranks one sends, and of "
                                                "more others, too");
      if (each == 3)
        c.sameType(first + 1, from).dims(first + 1, {others, share});
    }
  });
  return checker.result();
}

std::string checkAllGather(const Signature &call) {
  Checker checker(call);
  return checkShares(checker, call, 0, call.operands.size()).result();
}

std::string checkStepNorm(const Signature &call) {
  Checker checker(call);
  int result = static_cast<int>(call.operands.size()) - 1;
  checker.type(0, DType::f64).rank(0, 2).then([](Checker &c) {
    c.require(c.at(0).dims[1] == Scalars::kCount, "the scalars are no rows of the step's scalars");
  });
  for (int i = 1; i < result; ++i)
    checker.type(i, DType::f64).rank(i, 1);
  return checker.like(result, 0).result();
}

constexpr AttributeSpec kParameter[] = {{"parameter", Kind::integer, true, "", "index of the plan's parameter"},
                                         {"first", Kind::integer, false, "", "the first of its elements that the call is for"}};

std::string checkPart(Checker &checker, const Signature &call) {
  return checker.require(call.integer("parameter") >= 0, "attribute parameter must not be negative")
      .require(call.integer("first") >= 0, "attribute first must not be negative")
      .result();
}

/// An update's operands: what all read, then so many that it replaces, and an average or none; `undo` of one that
/// speculates is the last, written, or the last that is read.
template <typename CheckUpdated> std::string checkUpdate(const Signature &call, size_t updated, CheckUpdated check) {
  Checker checker(call);
  const Speculation speculation = speculationOf(call);
  const size_t first = speculation == Speculation::ends ? kUpdateUndo + 1 : kUpdateUndo;
  const size_t end = call.operands.size() - (speculation == Speculation::begins ? 1 : 0);
  if (!checker
           .require(end >= first + updated && end <= first + updated + 1,
                    fmt::format("{} operands, want {}, and an average or none", end, first + updated))
           .ok())
    return checker.result();
  checker.type(0, DType::f32).type(1, DType::f64).dims(1, {1}).scalars(2);
  for (size_t i = first; i < end; ++i)
    checker.sameDims(static_cast<int>(i), 0)
        .require(call.operands[i].effect == Effect::update, "it updates what it does not read");
  check(checker, static_cast<int>(first), static_cast<int>(end));
  if (speculation != Speculation::none) {
    const int undo = static_cast<int>(speculation == Speculation::ends ? kUpdateUndo : end);
    checker.type(undo, DType::u8).dims(undo, {undoOf(call).bytes()});
  }
  return checkPart(checker, call);
}

/// Of a rule that keeps so many parts.
template <size_t kState> std::string checkWholeUpdate(const Signature &call) {
  return checkUpdate(call, 1 + kState, [](Checker &checker, int first, int end) {
    for (int i = first; i < end; ++i)
      checker.type(i, DType::f32);
  });
}

/// A master weight in two parts: kernels/Bf16.h.
template <size_t kState> std::string checkSplitUpdate(const Signature &call) {
  return checkUpdate(call, 2 + kState, [](Checker &checker, int first, int end) {
    checker.type(first, DType::bf16).type(first + 1, DType::i16);
    for (int i = first + 2; i < end; ++i)
      checker.type(i, DType::f32);
  });
}

double sumFlops(const Signature &call) {
  return static_cast<double>(call.operands.size() - 1) * static_cast<double>(call.operands[0].elements());
}

double normFlops(const Signature &call) {
  return 2 * static_cast<double>(call.operands[0].elements());
}

uint64_t normWorkspace(const Signature &call) {
  return static_cast<uint64_t>(squaredNormChunks(call.operands[0].elements()).count) * sizeof(double);
}

std::string checkRunningStatistic(const Signature &call) {
  return Checker(call).type(0, DType::f32).like(1, 0).scalars(2).like(3, 0).result();
}

} // namespace

std::span<const Kernel> stepKernels() {
  static const std::vector<Kernel> kernels = {
      entry("feed", "-> parts*", "The step's inputs and scalars; done by the training loop.",
            "the parts of the plan's inputs, in order", noFlops, checkFeed),
      entry("report", "loss scalars predictions* -> ",
            "Hands the loss, the step's scalars and what an evaluation predicts to the training loop.", "no result",
            noFlops, checkReport),
      entry("pairwise_sum", "terms* => sum",
            "Adds tensors to one, the first, by a tree that their number alone decides.",
            "terms [a, a + 2^k), a being a multiple of 2^k, are the sum of their halves; what the number of terms "
            "leaves over is "
            "added from the end. Higham, SIAM J. Sci. Comput. 14 (1993)",
            sumFlops, checkPairwiseSum),
      entry("tree_sum", "terms* -> sum", "The sum of tensors in 16 or 32 bits, by pairwise_sum's tree, in 32 bits.",
            "as pairwise_sum of the terms in 32 bits", sumFlops, checkTreeSum),
      entry("squared_norm", "x -> norm", "Squared Euclidean norm, by a fixed tree of 64-bit sums.", "sum of x^2",
            normFlops, checkSquaredNorm, {.workspace = normWorkspace}),
      entry("squared_norm_parts", "x -> parts", "The sums of which squared_norm adds up a norm, of whole chunks.",
            "sums of x^2 over chunks of so many elements, each as squared_norm adds one", normFlops,
            checkSquaredNormParts, {.attributes = kChunk}),
      entry("squared_norm_sum", "parts -> norm", "A squared norm from the sums of all of its chunks.",
            "the sum of all parts, as squared_norm adds them; those of some chunks are the squared norm of these",
            noFlops, checkSquaredNormSum),
      entry(
          "all_to_all", "from* -> received*",
          "Sends every rank its share of tensors, and receives this rank's of all ranks' tensors; done by the network.",
          "share r begins at element min(r * share, elements - share); for each tensor, what one rank sent, and then "
          "what others did, in order, if any, which are [others, share]: of a power of two of ranks, ranks r xor 1, r "
          "xor 2, ... to rank r, whose own stays where it is; else ranks 0, 1, ..., the own among them",
          noFlops, checkAllToAll, {.attributes = kExchange}),
      entry("all_gather", "=> wholes*",
            "Sends every rank this rank's share of tensors, and receives theirs; done by the network.",
            "element e comes from rank e / share; what of this rank's share another one sends is the same there",
            noFlops, checkAllGather, {.attributes = kExchange}),
      entry("step_norm", "scalars norms* -> result", "The norm of the whole gradient and the clip scale.",
            "norm = sqrt(sum of all squared norms, in order); clip scale = min(1, threshold / (norm + 1e-6)) in every "
            "row, as "
            "torch.nn.utils.clip_grad_norm_; if the norm is not finite, an error, or, where the scalars say so, "
            "step 0 in every row",
            noFlops, checkStepNorm),
      entry("adamw", "gradient squaredNorm scalars undo* => weight firstMoment secondMoment average* undo*",
            "One step of AdamW, and nothing at step 0; an error, before anything is written, if gradient norm or new "
            "weight is not finite. With `undo`, the begin or the end of one that speculates (kernels/Optimizers.h).",
            "g = clip scale * gradient; w *= 1 - lr * decay; m += (1 - beta1) (g - m); v = beta2 v + (1 - beta2) g^2; "
            "w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps). Loshchilov and Hutter, arXiv "
            "1711.05101; torch.optim.AdamW. An average: a += (1 - its decay) (w - a), w the new one; "
            "torch.optim.swa_utils.get_ema_multi_avg_fn",
            flopsPerElement<15>, checkWholeUpdate<2>, {.attributes = kParameter}),
      entry("adamw_split",
            "gradient squaredNorm scalars undo* => weight remainder firstMoment secondMoment average* undo*",
            "One step of AdamW on a 32-bit master in two halves; errors as adamw.",
            "w = weight * 2^16 + remainder, as bits: bf16 and i16; w, m, v as adamw; weight = (w + 2^15) >> 16, "
            "remainder = w - weight * 2^16. A new weight whose upper half would be infinite is not finite",
            flopsPerElement<15>, checkSplitUpdate<2>, {.attributes = kParameter}),
      entry("sgd", "gradient squaredNorm scalars undo* => weight momentum average* undo*",
            "One step of SGD with momentum, and nothing at step 0; an error, before anything is written, if gradient "
            "norm or new weight is not finite.",
            "g = clip scale * gradient + decay * w; b = momentum * b + g; w -= lr * b. torch.optim.SGD. An average as "
            "adamw",
            flopsPerElement<7>, checkWholeUpdate<1>, {.attributes = kParameter}),
      entry("sgd_split", "gradient squaredNorm scalars undo* => weight remainder momentum average* undo*",
            "One step of SGD with momentum on a 32-bit master in two halves; errors as sgd.",
            "w = weight * 2^16 + remainder, as bits: bf16 and i16; w, b as sgd; weight and remainder as adamw_split",
            flopsPerElement<7>, checkSplitUpdate<1>, {.attributes = kParameter}),
      entry("lion", "gradient squaredNorm scalars undo* => weight firstMoment average* undo*",
            "One step of Lion, and nothing at step 0; an error, before anything is written, if gradient norm or new "
            "weight is "
            "not finite.",
            "g = clip scale * gradient; w *= 1 - lr * decay; w -= lr * sign(m + (1 - beta1) (g - m)); m += (1 - beta2) "
            "(g - m). "
            "Chen et al., arXiv 2302.06675, algorithm 2. An average as adamw",
            flopsPerElement<8>, checkWholeUpdate<1>, {.attributes = kParameter}),
      entry("lion_split", "gradient squaredNorm scalars undo* => weight remainder firstMoment average* undo*",
            "One step of Lion on a 32-bit master in two halves; errors as lion.",
            "w = weight * 2^16 + remainder, as bits: bf16 and i16; w, m as lion; weight and remainder as adamw_split",
            flopsPerElement<8>, checkSplitUpdate<1>, {.attributes = kParameter}),
      entry(
          "replace", "gradient squaredNorm scalars undo* => weight undo*",
          "What came in the gradient's place, and nothing at step 0; an error, before anything is written, if gradient "
          "norm or new weight is not finite.",
          "weight = gradient", noFlops, checkWholeUpdate<0>, {.attributes = kParameter}),
      entry("replace_split", "gradient squaredNorm scalars undo* => weight remainder undo*",
            "The same of a 32-bit master in two halves.", "weight * 2^16 + remainder = gradient, as adamw_split",
            noFlops, checkSplitUpdate<0>, {.attributes = kParameter}),
      entry("running_statistic", "own running scalars -> result",
            "Statistics that normalize: a batch's own in training, the running ones in an evaluation.",
            "own where scalars count a step that draws, else running", noFlops, checkRunningStatistic,
            {.attributes = kMomentum})};
  return kernels;
}

} // namespace mt::kernels
