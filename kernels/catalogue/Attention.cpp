// Attention and rotary position embedding.
#include "kernels/AttentionOperands.h"
#include "kernels/DeviceScratch.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

#include <cmath>
#include <limits>

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

/// An entry for every score, or for every distance of a query and a key, or, by place, some.
bool isBiasDims(const Dims &bias, const Dims &scores, bool byPlace) {
  if (bias.size() != 4)
    return false;
  bool isLine = bias[2] == 1 && (byPlace || bias[3] == scores[2] + scores[3] - 1);
  if (!isLine && (byPlace || bias[3] != scores[3]))
    return false;
  for (size_t i = 0; i < 3; ++i)
    if (bias[i] != 1 && bias[i] != scores[i])
      return false;
  return true;
}

void checkInputs(Checker &c, const AttentionOperands &at) {
  const Dims query = c.at(at.query).dims, key = c.at(at.key).dims, value = c.at(at.value).dims;
  int64_t batch = query[0], sq = query[1], heads = query[2], sk = key[1], groups = key[2];
  c.dims(at.key, {batch, sk, groups, query[3]})
      .dims(at.value, {batch, sk, groups, value[3]})
      .require(heads % groups == 0, "the query's heads must be a multiple of the key's")
      .sameTypeOrF32(at.bias, at.query)
      .require(
          !c.at(at.bias).present || isBiasDims(c.at(at.bias).dims, {batch, heads, sq, sk}, c.at(at.keyPlace).present),
          "bias must be [batch or 1, heads or 1, queries or 1, keys], or [.., .., 1, queries + keys - 1], or by place "
          "[.., .., 1, any]")
      .type(at.keyMask, DType::boolean)
      .dims(at.keyMask, {batch, sk})
      .integral(at.querySegment)
      .dims(at.querySegment, {batch, sq})
      .integral(at.keySegment)
      .dims(at.keySegment, {batch, sk})
      .require(c.at(at.querySegment).present == c.at(at.keySegment).present, "segments need both sides")
      .integral(at.queryPlace)
      .dims(at.queryPlace, {sq})
      .integral(at.keyPlace)
      .dims(at.keyPlace, {sk})
      .require(c.at(at.queryPlace).present == c.at(at.keyPlace).present &&
                   (c.at(at.bias).present || !c.at(at.keyPlace).present),
               "places need both sides and a bias")
      .sameTypeOrF32(at.sink, at.query)
      .dims(at.sink, {heads});
}

void checkPredicate(Checker &c, const Signature &call) {
  constexpr int64_t kFar = int64_t{1} << 48;
  double scale = call.real("scale"), cap = call.real("softCap"), segmentBias = call.real("segmentBias");
  int64_t low = call.integer("minDistance", INT64_MIN), high = call.integer("maxDistance", INT64_MAX);
  c.require(std::isfinite(scale), "attribute scale must be finite")
      .require(std::isfinite(cap) && cap >= 0, "attribute softCap must not be negative")
      .require(std::isfinite(segmentBias) && segmentBias <= 0, "attribute segmentBias must not be positive")
      .require(call.integer("dilation", 1) >= 1, "attribute dilation must be positive")
      .require(low <= high, "attribute minDistance exceeds maxDistance")
      .require(std::abs(call.integer("offset") / 2) < kFar, "attribute offset is out of range")
      .require(call.integer("prefix") >= 0 && call.integer("chunk") >= 0,
               "attributes prefix and chunk must not be negative");
}

Checker &tensors(Checker &c, const AttentionOperands &at) {
  for (size_t operand : {at.query, at.key, at.value})
    c.floating(operand).rank(operand, 4).sameType(operand, at.query);
  return c;
}

std::string checkAttention(const Signature &call) {
  const AttentionOperands at(false);
  Checker checker(call);
  tensors(checker, at).then([&](Checker &c) {
    const Dims &query = c.at(at.query).dims;
    checkInputs(c, at);
    checkPredicate(c, call);
    c.sameType(at.output, at.query)
        .dims(at.output, {query[0], query[1], query[2], c.at(at.value).dims[3]})
        .type(at.logsumexp, DType::f32)
        .dims(at.logsumexp, {query[0], query[2], query[1]});
  });
  return checker.result();
}

std::string checkAttentionGrad(const Signature &call) {
  const AttentionOperands at(true);
  Checker checker(call);
  tensors(checker, at).then([&](Checker &c) {
    const Dims &query = c.at(at.query).dims;
    Dims output = {query[0], query[1], query[2], c.at(at.value).dims[3]};
    checkInputs(c, at);
    checkPredicate(c, call);
    c.sameType(at.kGradient, at.query).dims(at.kGradient, output).sameType(at.output, at.query).dims(at.output, output);
    c.type(at.logsumexp, DType::f32).dims(at.logsumexp, {query[0], query[2], query[1]});
    c.like(at.dquery, at.query).like(at.dkey, at.key).like(at.dvalue, at.value);
    c.require(!c.at(at.dbias).present || c.at(at.bias).present, "dbias without a bias")
        .sameTypeOrF32(at.dbias, at.bias)
        .sameDims(at.dbias, at.bias)
        .require(!c.at(at.dsink).present || c.at(at.sink).present, "dsink without a sink")
        .sameTypeOrF32(at.dsink, at.sink)
        .sameDims(at.dsink, at.sink);
  });
  return checker.result();
}

/// Keys that query q sees by distance and chunk; key mask and segments are not known here.
double visible(const Signature &call, int64_t q, int64_t keys) {
  int64_t offset = call.integer("offset"), chunk = call.integer("chunk");
  int64_t low = call.integer("minDistance", INT64_MIN), high = call.integer("maxDistance", INT64_MAX);
  double first = 0, end = static_cast<double>(keys), at = static_cast<double>(q) + static_cast<double>(offset);
  if (high != INT64_MAX)
    first = std::max(first, at - static_cast<double>(high));
  if (low != INT64_MIN)
    end = std::min(end, at - static_cast<double>(low) + 1);
  end = std::max(end, std::min(static_cast<double>(call.integer("prefix")), static_cast<double>(keys)));
  if (chunk > 0) {
    first = std::max(first, static_cast<double>(q / chunk * chunk));
    end = std::min(end, static_cast<double>((q / chunk + 1) * chunk));
  }
  return std::max(0.0, end - first) / static_cast<double>(call.integer("dilation", 1));
}

double scoresSeen(const Signature &call, const AttentionOperands &at) {
  const Dims &query = call.operands[at.query].dims;
  int64_t keys = call.operands[at.key].dims[1];
  double seen = 0;
  int64_t step = std::max<int64_t>(1, query[1] / 1024);
  for (int64_t q = step / 2; q < query[1]; q += step)
    seen += visible(call, q, keys) * static_cast<double>(step);
  return seen * static_cast<double>(query[0] * query[2]);
}

double attentionFlops(const Signature &call) {
  const AttentionOperands at(false);
  double widths = static_cast<double>(call.operands[at.query].dims[3] + call.operands[at.value].dims[3]);
  return 2 * scoresSeen(call, at) * widths;
}

double attentionGradFlops(const Signature &call) {
  const AttentionOperands at(true);
  double keyWidth = static_cast<double>(call.operands[at.query].dims[3]),
         valueWidth = static_cast<double>(call.operands[at.value].dims[3]);
  return 2 * scoresSeen(call, at) * (3 * keyWidth + 2 * valueWidth);
}

/// Rows of a batch and heads, queries, keys, width; `at` places the operands.
std::vector<double> scoreExtents(const Signature &call, const AttentionOperands &at) {
  const Dims &query = call.operands[at.query].dims;
  return {static_cast<double>(query[0] * query[2]), static_cast<double>(query[1]),
          static_cast<double>(call.operands[at.key].dims[1]), static_cast<double>(query[3])};
}
std::vector<double> attentionExtents(const Signature &call) { return scoreExtents(call, AttentionOperands(false)); }
std::vector<double> attentionGradExtents(const Signature &call) { return scoreExtents(call, AttentionOperands(true)); }

/// What every query's gradient and output come to; then, in stripes, sums of gradients that have fewer bits than 32.
uint64_t stripesWorkspace(const Signature &call) {
  const AttentionOperands at(true);
  const Dims &query = call.operands[at.query].dims, &key = call.operands[at.key].dims;
  const int64_t batch = query[0], together = AttentionStripes::together(batch, key[2], key[1]);
  int64_t floats = batch * query[1] * query[2];
  if (AttentionStripes::of(key[1]) > 1 && !call.operands[at.dbias].present)
    for (const OperandType &result : {call.operands[at.dquery], call.operands[at.dkey], call.operands[at.dvalue]})
      floats += result.present && result.type != DType::f32 ? result.elements() / batch * together : 0;
  return static_cast<uint64_t>(floats) * sizeof(float);
}

std::string checkRotary(const Signature &call) {
  Checker checker(call);
  checker.floating(0).rank(0, 4).sameTypeOrF32(1, 0).rank(1, 3).like(2, 1).like(3, 0).then([&](Checker &c) {
    const Dims &x = c.at(0).dims, &cosine = c.at(1).dims;
    c.require((cosine[0] == 1 || cosine[0] == x[0]) && cosine[1] == x[1] && cosine[2] <= x[3] / 2,
              "cos and sin must be [batch or 1, sequence, at most half the head]");
  });
  return checker.result();
}

constexpr AttributeSpec kAttention[] = {
    {"scale", Kind::real, true, "", "of the scores"},
    {"minDistance", Kind::integer, false, "", "smallest visible query - key + offset; default none"},
    {"maxDistance", Kind::integer, false, "", "largest visible query - key + offset; default none"},
    {"offset", Kind::integer, false, "", "of the first query's position; default 0"},
    {"prefix", Kind::integer, false, "", "keys that every query sees; default 0"},
    {"chunk", Kind::integer, false, "", "queries see keys of their own chunk only; default 0, no chunks"},
    {"dilation", Kind::integer, false, "", "query - key + offset is a multiple of it; default 1"},
    {"segmentBias", Kind::real, false, "", "added to scores of another segment; default 0, they are hidden"},
    {"softCap", Kind::real, false, "", "c > 0: c * tanh(score / c); default 0, none"}};
constexpr AttributeSpec kRotary[] = {{"interleaved", Kind::flag, false, "", "pairs are neighbours, else halves"},
                                     {"inverse", Kind::flag, false, "", "turn back: the gradient"}};
constexpr std::string_view kForwardFormula =
    "seen: (minDistance <= q - k + offset <= maxDistance, a multiple of dilation, or k < prefix) and keyMask[b, k] "
    "and querySegment[b, q] == keySegment[b, k] (with a segmentBias that is added instead) and q / chunk == k / chunk; "
    "result = softmax over the seen keys, and the sink of the head, of (scale * query . key, capped, + bias) times "
    "value; zeros if none is seen. By place, the bias of q and k is its entry keyPlace[k] - queryPlace[q]; the places "
    "of keys differ, the smallest of a query is 0. By blocks: Dao, arXiv 2307.08691. Types: query, key, value, result "
    "of one; bias and sink that or f32";

} // namespace

std::span<const Kernel> attentionKernels() {
  static const std::vector<Kernel> kernels = {
      entry("attention",
            "query key value bias? keyMask? querySegment? keySegment? queryPlace? keyPlace? sink? -> result+ logsumexp",
            "Scaled dot-product attention with grouped heads and a mask predicate.", kForwardFormula, attentionFlops,
            checkAttention, {.attributes = kAttention, .cudaWorkspace = attentionScratch, .extents = attentionExtents}),
      entry("attention_grad",
            "gradient query key value bias? keyMask? querySegment? keySegment? queryPlace? keyPlace? sink? output "
            "logsumexp -> dquery+ dkey+ dvalue+ dbias+ dsink+",
            "Gradients of attention; scores are computed again from the logsumexp.",
            "p = e^(score - logsumexp), ds = p * (gradient . value - gradient . output), through the cap and the "
            "scale; dsink = -e^(sink - logsumexp) * gradient . output. Types: gradient, query, key, value, output, "
            "dquery, "
            "dkey, dvalue of one; bias and sink that or f32; dbias and dsink theirs or f32, summed in f32",
            attentionGradFlops, checkAttentionGrad,
            {.attributes = kAttention,
             .workspace = stripesWorkspace,
             .cudaWorkspace = attentionScratch,
             .extents = attentionGradExtents}),
      entry("rotary", "operand cos sin -> result+", "Rotary position embedding; its own gradient with `inverse`.",
            "pairs (a, b) become (a cos - b sin, b cos + a sin), sin negated if inverse. Su et al., arXiv 2104.09864. "
            "Types: cos and sin the operand's or f32",
            flopsPerResult, checkRotary, {.attributes = kRotary})};
  return kernels;
}

} // namespace mt::kernels
