#include "kernels/DeviceScratch.h"

#include "kernels/AttentionOperands.h"
#include "kernels/Visibility.h"
#include "kernels/Windows.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace mt::kernels {
namespace {

constexpr int64_t kFar = int64_t{1} << 60;            // beyond every position, with room to add
constexpr uint64_t kBlockBytes = 64u << 20;           // of scores and their gradients in a block
constexpr uint64_t kLibraryExtra = 1u << 20;          // counters and the like of a fused graph
constexpr uint64_t kMostParts = 16u << 20;            // sums of a convolution's parts
constexpr uint64_t kMostCopies = uint64_t{2} << 30;   // of its operands
constexpr int64_t kWidest = 256, kWidestMultiple = 8; // of a head in a fused graph

constexpr int64_t kEndless = int64_t{1} << 59; // more than any machine has; sums of it do not overflow

/// Products of dimensions from files, which may be anything.
int64_t times(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product) || product > kEndless)
      return kEndless;
  return product;
}
uint64_t bytes(std::initializer_list<int64_t> factors) { return static_cast<uint64_t>(times(factors)); }

/// The largest divisor of `count` up to `most`, at least 1.
int64_t divisorUpTo(int64_t count, int64_t most) {
  int64_t size = std::clamp<int64_t>(most, 1, count);
  while (count % size != 0)
    --size;
  return size;
}

bool isAttentionGradient(const Signature &call) { return call.kernel == "attention_grad"; }

/// Whether an operand is there and somebody uses it.
bool has(const Signature &call, size_t operand) {
  return operand < call.operands.size() && call.operands[operand].present;
}

/// What the fused graph may need for one batch row of some heads of some groups. For gradients of queries, whose sums
/// repeat only in a fixed order: those of all pairs in 16 bits, or the sums in 32 bits (compute capability 100); and
/// keys' and values' of each head where heads share them. `linear`: without room for pairs. Both where heads are wider than 128 (cuDNN 9.23 on 100). Held
/// against cuDNN by tests/cudnn.
uint64_t fusedBytes(const AttentionBlocks &call, int64_t heads, int64_t groups, int64_t queries, int64_t keys,
                    bool linear = false) {
  uint64_t statistics = bytes({heads, queries, 8});
  if (!call.gradient)
    return statistics;
  queries = ceilDivide(queries, 128) * 128, keys = ceilDivide(keys, 128) * 128;
  uint64_t shared = heads == groups ? 0 : bytes({heads, keys, call.width + call.valueWidth, 2});
  uint64_t pairs = linear ? 0 : bytes({heads, queries, keys, 2}), sums = bytes({heads, queries, call.width, 4});
  return statistics + (call.width > 128 ? pairs + sums : std::max(pairs, sums)) + shared;
}

/// A mask that the fused graph knows: a band around the diagonal in which every query sees a key.
bool isBand(const Signature &call, const AttentionBlocks &shape) {
  Visibility visibility = Visibility::of(call, shape.keys);
  if (visibility.prefix > 0 || visibility.chunk > 0 || visibility.dilation > 1 ||
      visibility.low - visibility.offset > 0 || visibility.high - visibility.offset < 0)
    return false;
  return visibility.sees(shape.queries - 1, std::min(shape.queries, shape.keys) - 1);
}

} // namespace

Visibility Visibility::of(const Signature &call, int64_t keys) {
  return {keys,
          std::clamp(call.integer("minDistance", INT64_MIN), -kFar, kFar),
          std::clamp(call.integer("maxDistance", INT64_MAX), -kFar, kFar),
          call.integer("offset"),
          call.integer("prefix"),
          call.integer("chunk"),
          call.integer("dilation", 1)};
}

KeyInterval Visibility::seen(int64_t query) const {
  KeyInterval near = {std::max<int64_t>(0, query + offset - high), std::min(keys, query + offset - low + 1)};
  if (near.begin >= near.end)
    near = {0, 0};
  if (prefix > 0)
    near = {0, std::max(near.end, std::min(prefix, keys))};
  if (chunk == 0)
    return near;
  int64_t begin = std::min(query / chunk * chunk, keys), end = chunk > keys - begin ? keys : begin + chunk;
  return {std::max(near.begin, begin), std::min(near.end, end)};
}

KeyInterval Visibility::hull(int64_t query, int64_t count) const {
  KeyInterval all = {keys, 0};
  for (int64_t q = query; q < query + count; ++q)
    if (KeyInterval one = seen(q); one.begin < one.end)
      all = {std::min(all.begin, one.begin), std::max(all.end, one.end)};
  return all.begin < all.end ? all : KeyInterval{0, 0};
}

uint64_t scratchOf(std::span<const uint64_t> parts) {
  uint64_t total = kScratchAlignment;
  for (uint64_t part : parts)
    total += alignedScratch(part);
  return total;
}

MatmulScratch MatmulScratch::of(const Signature &call) {
  const OperandType &bias = call.operands[2], &result = call.operands[3];
  bool differs = bias.present && bias.type != result.type, rounds = differs && bias.type == DType::f32;
  return {differs && !rounds ? bytes({bias.elements(), static_cast<int64_t>(byteSize(result.type))}) : 0,
          rounds ? bytes({result.elements(), sizeof(float)}) : 0, productScratch(result.elements())};
}

FusedScratch FusedScratch::of(const Signature &call) {
  bool sums = call.kernel == "matmul_sums";
  const OperandType &result = call.operands[sums ? 2 : 3];
  uint64_t each = sums && has(call, 3) ? bytes({call.operands[3].elements(), static_cast<int64_t>(sizeof(float))}) : 0;
  return {each, productScratch(result.elements())};
}

uint64_t FusedScratch::total() const { return scratchOf(std::array{sums, library}); }

uint64_t MatmulScratch::total() const { return scratchOf(std::array{bias, wideResult, library}); }

HeadScratch HeadScratch::of(const Signature &call) {
  const OperandType &hidden = call.operands[0], &weight = call.operands[1];
  int64_t rows = hidden.dims[0], width = hidden.dims[1], chunk = call.integer("chunk");
  int64_t classes = weight.dims[call.integer("transposed") ? 1 : 0], held = chunk > 0 ? std::min(chunk, rows) : rows;
  bool backward = call.kernel == "linear_cross_entropy_grad", narrow = hidden.type != DType::f32;
  auto needsSums = [&](size_t operand) {
    return backward && held < rows && has(call, operand) && call.operands[operand].type != DType::f32;
  };
  int64_t most = std::max({times({held, classes}), times({held, width}), backward ? times({classes, width}) : 0});
  int64_t narrowEach = backward && narrow ? static_cast<int64_t>(byteSize(hidden.type)) : 0;
  return {bytes({rows, sizeof(double)}),
          bytes({held, line(classes), sizeof(float)}),
          bytes({held, line(classes), narrowEach}),
          needsSums(7) ? bytes({classes, width, sizeof(float)}) : 0,
          needsSums(8) ? bytes({classes, sizeof(float)}) : 0,
          productScratch(most)};
}

uint64_t HeadScratch::total() const {
  return scratchOf(std::array{losses, logits, gradients, weightSums, biasSums, library});
}

AttentionBlocks AttentionBlocks::of(const Signature &call) {
  AttentionBlocks made = {};
  made.gradient = isAttentionGradient(call);
  const AttentionOperands at(made.gradient);
  const OperandType &query = call.operands[at.query], &key = call.operands[at.key], &value = call.operands[at.value];
  made.batch = query.dims[0], made.queries = query.dims[1], made.heads = query.dims[2], made.width = query.dims[3];
  made.keys = key.dims[1], made.groups = key.dims[2], made.valueWidth = value.dims[3], made.type = query.type;
  made.line = ceilDivide(made.keys, 8) * 8;

  int64_t type = static_cast<int64_t>(byteSize(made.type));
  bool narrow = made.type != DType::f32, capped = call.real("softCap") > 0;
  bool wide = made.gradient && has(call, at.dbias) && (narrow || capped);
  int64_t narrowEach = narrow ? type : 0, slopesEach = made.gradient ? 4 : 0, wideEach = wide ? 4 : 0;
  int64_t each = 4 + narrowEach + slopesEach + (made.gradient ? narrowEach : 0) + wideEach;
  int64_t fit = static_cast<int64_t>(kBlockBytes) / times({each, made.heads, made.line});
  made.rows = std::clamp<int64_t>(fit >= 16 ? fit / 16 * 16 : fit, 1, made.queries);

  int64_t scored = times({made.heads, made.rows, made.line});
  made.scores = bytes({scored, 4}), made.narrowScores = bytes({scored, narrowEach});
  made.slopes = bytes({scored, slopesEach}), made.wideSlopes = bytes({scored, wideEach});
  made.narrowSlopes = made.gradient ? made.narrowScores : 0;
  made.keepsDeltas = made.gradient && has(call, at.dsink);
  made.deltas = made.gradient ? bytes({made.keepsDeltas ? made.batch : 1, made.heads, made.queries, 4}) : 0;
  bool sums = made.gradient && narrow;
  made.keySums = sums && has(call, at.dkey) ? bytes({made.keys, made.groups, made.width, 4}) : 0;
  made.valueSums = sums && has(call, at.dvalue) ? bytes({made.keys, made.groups, made.valueWidth, 4}) : 0;
  const bool biased = made.gradient && has(call, at.dbias);
  made.biasSums =
      biased && call.operands[at.dbias].type != DType::f32 ? bytes({call.operands[at.dbias].elements(), 4}) : 0;
  made.keysByPlace = biased && has(call, at.keyPlace) ? bytes({call.operands[at.bias].dims[3], 4}) : 0;
  made.library = productScratch(
      times({made.groups, std::max(made.rows, made.keys), std::max({made.line, made.width, made.valueWidth})}));
  return made;
}

uint64_t AttentionBlocks::total() const {
  return scratchOf(std::array{scores, narrowScores, slopes, narrowSlopes, wideSlopes, deltas, keySums, valueSums,
                              biasSums, keysByPlace, library});
}

namespace {

/// Why cuDNN's graph cannot do what a call asks; empty if it can.
std::string_view fusedRefusal(const Signature &call, const AttentionBlocks &shape) {
  const AttentionOperands at(shape.gradient);
  if (shape.type != DType::bf16 && shape.type != DType::f16)
    return "it is not in 16 bits";
  if (call.real("softCap") > 0)
    return "its scores are capped";
  if (!(call.real("scale") > 0))
    return "its scale is not positive"; // cuDNN's kernels take the scale out of the maximum
  if (has(call, at.bias))
    return "it has a bias";
  if (has(call, at.keyMask))
    return "it has a mask of keys";
  if (has(call, at.querySegment))
    return "it has segments";
  if (std::max(shape.width, shape.valueWidth) > kWidest)
    return "its heads are wider than 256";
  if ((shape.width | shape.valueWidth) % kWidestMultiple != 0)
    return "its heads are no multiples of 8 wide";
  if (!isBand(call, shape))
    return "its mask is no band around the diagonal";
  return "";
}

constexpr int64_t kQueryStep = 128; // a tile of cuDNN's

/// Keys that so many queries in a row see at most, and some more: those of a part.
int64_t fusedKeys(const AttentionBlocks &shape, const Visibility &seen, int64_t queries) {
  bool band = seen.hidesEarly(shape.queries) && seen.hidesLate();
  return band ? std::min(shape.keys, queries + seen.high - seen.low + kQueryStep) : shape.keys;
}

/// Queries of one head at a time: as many as kEnough allows, but so many that the sequence has at most kBlocks parts,
/// as far as kMost allows that. 0: not even the fewest fit.
int64_t fusedQueries(const AttentionBlocks &shape, const Visibility &seen) {
  auto within = [&](uint64_t most) {
    int64_t few = 0, many = ceilDivide(shape.queries, kQueryStep) + 1; // in steps: `few` fit, `many` do not
    while (many - few > 1) {
      int64_t steps = (few + many) / 2, queries = steps * kQueryStep;
      (fusedBytes(shape, 1, 1, queries, fusedKeys(shape, seen, queries)) <= most ? few : many) = steps;
    }
    return few * kQueryStep;
  };
  int64_t wanted = Chunks(shape.queries, FusedAttention::kBlocks, kQueryStep).size;
  return std::min(std::max(within(FusedAttention::kEnough), wanted), within(FusedAttention::kMost));
}

} // namespace

FusedAttention FusedAttention::of(const Signature &call) {
  AttentionBlocks shape = AttentionBlocks::of(call);
  const AttentionOperands at(shape.gradient);
  FusedAttention made;
  made.refusal = fusedRefusal(call, shape);
  if (!made.refusal.empty())
    return made;
  if (shape.gradient ? has(call, at.dsink) : has(call, at.sink) && !has(call, at.logsumexp))
    made.ofSink = bytes({shape.batch, shape.heads, shape.queries, 4});
  int64_t share = shape.heads / shape.groups;
  auto needed = [&](int64_t heads, int64_t groups) {
    return fusedBytes(shape, heads * groups, groups, shape.queries, shape.keys);
  };
  auto most = [](uint64_t each) { return static_cast<int64_t>(kEnough / each); };
  made.rows = 1, made.groups = 1, made.heads = share, made.queries = shape.queries;
  if (uint64_t all = needed(share, shape.groups); all <= kEnough) {
    made.rows = divisorUpTo(shape.batch, most(all)), made.groups = shape.groups;
    made.library = kLibraryExtra + all * static_cast<uint64_t>(made.rows);
    return made;
  }
  if (uint64_t one = needed(share, 1); one <= kEnough) {
    made.groups = divisorUpTo(shape.groups, most(one));
    made.library = kLibraryExtra + one * static_cast<uint64_t>(made.groups);
    return made;
  }
  if (needed(1, 1) <= kEnough) {
    while (needed(made.heads, 1) > kEnough)
      made.heads = divisorUpTo(share, made.heads - 1);
    made.library = kLibraryExtra + needed(made.heads, 1);
  } else {
    Visibility seen = Visibility::of(call, shape.keys);
    made.heads = 1, made.queries = fusedQueries(shape, seen);
    if (made.queries == 0)
      return {.refusal = "its keys are too many"};
    made.library = kLibraryExtra + fusedBytes(shape, 1, 1, made.queries, fusedKeys(shape, seen, made.queries));
  }
  if (shape.gradient) {
    made.keySums = bytes({shape.keys, shape.width, 4}), made.valueSums = bytes({shape.keys, shape.valueWidth, 4});
    made.keyPart = made.keySums / 2, made.valuePart = made.valueSums / 2;
  }
  return made;
}

FusedAttention FusedAttention::linear(const Signature &call, const FusedAttention &cut) {
  AttentionBlocks shape = AttentionBlocks::of(call);
  FusedAttention made;
  made.rows = 1, made.heads = shape.heads / shape.groups, made.queries = shape.queries;
  made.ofSink = cut.ofSink;
  made.library = cut.total() - cut.ofSink - 3 * kScratchAlignment;
  uint64_t one = fusedBytes(shape, made.heads, 1, shape.queries, shape.keys, true);
  made.groups = divisorUpTo(shape.groups, static_cast<int64_t>(made.library / one));
  return made;
}

uint64_t FusedAttention::total() const {
  return refusal.empty() ? scratchOf(std::array{library, keySums, valueSums, keyPart, valuePart, ofSink}) : 0;
}

namespace {

/// An operand as engines for 16 bits want it: its channels innermost, padded to eight. In groups they stay as they are.
uint64_t channelsLast(int64_t outer, int64_t channels, int64_t places, const ConvShape &shape, DType type) {
  const int64_t padded = shape.groups == 1 ? ceilDivide(channels, 8) * 8 : channels;
  return bytes({outer, padded, places, static_cast<int64_t>(byteSize(type))});
}

} // namespace

GraphConvolution GraphConvolution::of(const Signature &call) {
  const bool ofKernel = call.kernel == "conv_weight_grad";
  const OperandType &operand = call.operands[0], &result = call.operands[call.kernel == "conv" ? 3 : 2];
  if (!ofKernel && result.type != operand.type)
    return {.refusal = "its result is in 32 bits and its operands are not"};
  if (call.kernel == "conv" && has(call, 2) && call.operands[2].type != result.type)
    return {.refusal = "its bias is in 32 bits and its operands are not"};
  const ConvShape shape = ConvShape::of(call);
  const Windows &windows = shape.windows;
  const int64_t each = static_cast<int64_t>(byteSize(operand.type)),
                kernel = times({shape.groups, shape.filters, shape.depth()});
  GraphConvolution made;
  made.library = kLibraryExtra;
  if (ofKernel) {
    constexpr int64_t kParts = 64; // of the results, at most, that are summed apart
    made.result = bytes({kernel, each});
    made.library += std::min(bytes({kernel, 4, kParts}), kMostParts);
  }
  if (ofKernel || operand.type != DType::f32) {
    const uint64_t copies =
        channelsLast(shape.batch, shape.groups * shape.channels, windows.imagePlaces(), shape, operand.type) +
        channelsLast(shape.batch, shape.groups * shape.filters, windows.resultPlaces(), shape, operand.type) +
        channelsLast(shape.groups * shape.filters, shape.channels, windows.places(), shape, operand.type);
    made.library += std::min(copies, kMostCopies); // without room for them others do
  }
  return made;
}

uint64_t GraphConvolution::total() const { return refusal.empty() ? scratchOf(std::array{result, library}) : 0; }

uint64_t convScratch(const Signature &call) { return GraphConvolution::of(call).total(); }

uint64_t headScratch(const Signature &call) { return HeadScratch::of(call).total(); }

uint64_t attentionScratch(const Signature &call) {
  return std::max(AttentionBlocks::of(call).total(), FusedAttention::of(call).total());
}

} // namespace mt::kernels
