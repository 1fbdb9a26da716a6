#include "kernels/DeviceScratch.h"

#include "kernels/Visibility.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace mt::kernels {
namespace {

constexpr int64_t kFar = int64_t{1} << 60;            // beyond every position, with room to add
constexpr uint64_t kBlockBytes = 64u << 20;           // of scores and their gradients in a block
constexpr uint64_t kLibraryExtra = 1u << 20;          // counters and the like of a fused graph
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

/// What the fused graph may need for one batch row of some heads. For gradients of queries, whose sums repeat only in a
/// fixed order: those of all pairs in 16 bits, or the sums in 32 bits (compute capability 100); and keys' and values' of each
/// head where heads share them. Held against cuDNN by tests/cudnn.
uint64_t fusedBytes(const AttentionBlocks &call, int64_t heads) {
  uint64_t statistics = bytes({heads, call.queries, 8});
  if (!call.gradient)
    return statistics;
  int64_t queries = ceilDivide(call.queries, 128) * 128, keys = ceilDivide(call.keys, 128) * 128;
  uint64_t shared = call.heads == call.groups ? 0 : bytes({heads, keys, call.width + call.valueWidth, 2});
  return statistics + std::max(bytes({heads, queries, keys, 2}), bytes({heads, queries, call.width, 4})) + shared;
}

/// A mask that the fused graph knows: a band around the diagonal in which every query sees a key.
bool isBand(const Signature &call, const AttentionBlocks &shape) {
  Visibility visibility = Visibility::of(call, shape.keys);
  if (visibility.prefix > 0 || visibility.chunk > 0 || visibility.low - visibility.offset > 0 ||
      visibility.high - visibility.offset < 0)
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
          call.integer("chunk")};
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
          bytes({held, classes, sizeof(float)}),
          bytes({held, classes, narrowEach}),
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
  size_t first = made.gradient ? 1 : 0;
  const OperandType &query = call.operands[first], &key = call.operands[first + 1], &value = call.operands[first + 2];
  made.batch = query.dims[0], made.queries = query.dims[1], made.heads = query.dims[2], made.width = query.dims[3];
  made.keys = key.dims[1], made.groups = key.dims[2], made.valueWidth = value.dims[3], made.type = query.type;
  made.line = ceilDivide(made.keys, 8) * 8;

  int64_t type = static_cast<int64_t>(byteSize(made.type));
  bool narrow = made.type != DType::f32, capped = call.real("softCap") > 0;
  bool wide = made.gradient && has(call, 13) && (narrow || capped);
  int64_t narrowEach = narrow ? type : 0, slopesEach = made.gradient ? 4 : 0, wideEach = wide ? 4 : 0;
  int64_t each = 4 + narrowEach + slopesEach + (made.gradient ? narrowEach : 0) + wideEach;
  int64_t fit = static_cast<int64_t>(kBlockBytes) / times({each, made.heads, made.line});
  made.rows = std::clamp<int64_t>(fit >= 16 ? fit / 16 * 16 : fit, 1, made.queries);

  int64_t scored = times({made.heads, made.rows, made.line});
  made.scores = bytes({scored, 4}), made.narrowScores = bytes({scored, narrowEach});
  made.slopes = bytes({scored, slopesEach}), made.wideSlopes = bytes({scored, wideEach});
  made.narrowSlopes = made.gradient ? made.narrowScores : 0;
  made.deltas = made.gradient ? bytes({made.heads, made.queries, 4}) : 0;
  bool sums = made.gradient && narrow;
  made.keySums = sums && has(call, 11) ? bytes({made.keys, made.groups, made.width, 4}) : 0;
  made.valueSums = sums && has(call, 12) ? bytes({made.keys, made.groups, made.valueWidth, 4}) : 0;
  bool biasSums = made.gradient && has(call, 13) && call.operands[13].type != DType::f32;
  made.biasSums = biasSums ? bytes({call.operands[13].elements(), 4}) : 0;
  made.library = productScratch(
      times({made.groups, std::max(made.rows, made.keys), std::max({made.line, made.width, made.valueWidth})}));
  return made;
}

uint64_t AttentionBlocks::total() const {
  return scratchOf(std::array{scores, narrowScores, slopes, narrowSlopes, wideSlopes, deltas, keySums, valueSums,
                              biasSums, library});
}

FusedAttention FusedAttention::of(const Signature &call) {
  AttentionBlocks shape = AttentionBlocks::of(call);
  size_t first = shape.gradient ? 1 : 0;
  bool extras = call.real("softCap") > 0 || !(call.real("scale") > 0); // its kernels take the scale out of the maximum
  for (size_t operand = first + 3; operand < first + 7; ++operand)
    extras |= has(call, operand);
  bool widths =
      std::max(shape.width, shape.valueWidth) <= kWidest && (shape.width | shape.valueWidth) % kWidestMultiple == 0;
  bool types = shape.type == DType::bf16 || shape.type == DType::f16;
  if (extras || !widths || !types || !isBand(call, shape))
    return {};
  int64_t share = shape.heads / shape.groups;
  uint64_t all = fusedBytes(shape, shape.heads), one = fusedBytes(shape, share);
  if (all <= kEnough) {
    int64_t rows = divisorUpTo(shape.batch, static_cast<int64_t>(kEnough / all));
    return {rows, shape.groups, kLibraryExtra + all * static_cast<uint64_t>(rows)};
  }
  if (one > kMost)
    return {};
  int64_t groups = divisorUpTo(shape.groups, static_cast<int64_t>(kEnough / one));
  return {1, groups, kLibraryExtra + one * static_cast<uint64_t>(groups)};
}

uint64_t headScratch(const Signature &call) { return HeadScratch::of(call).total(); }

uint64_t attentionScratch(const Signature &call) {
  uint64_t fused = FusedAttention::of(call).scratch;
  return std::max(AttentionBlocks::of(call).total(), fused == 0 ? 0 : kScratchAlignment + alignedScratch(fused));
}

} // namespace mt::kernels
