// How the GPU's kernels that go block by block cut their work, and the scratch that follows: functions of a call's
// signature alone, so that the compiler plans the very bytes that the kernels use. Free of CUDA.
#ifndef MT_KERNELS_DEVICESCRATCH_H
#define MT_KERNELS_DEVICESCRATCH_H

#include "kernels/Blocks.h"
#include "kernels/Catalogue.h"

#include <span>
#include <string_view>

namespace mt::kernels {

/// The sum of parts that lie one after another, each aligned, with room to align the first.
uint64_t scratchOf(std::span<const uint64_t> parts);

/// matmul: bytes of the parts, in their order. The library adds a bias of the result's type alone: another is cast to
/// it, unless that would round it; then all results wait for it in 32 bits.
struct MatmulScratch {
  uint64_t bias, wideResult, library;
  static MatmulScratch of(const Signature &call);
  uint64_t total() const;
};

/// matmul_gelu, matmul_gelu_grad and matmul_sums through the library's epilogues: bytes of the parts, in their order.
/// Its sums replace what is there: those that are added to something wait in scratch.
struct FusedScratch {
  uint64_t sums, library;
  static FusedScratch of(const Signature &call);
  uint64_t total() const;
};

/// linear_cross_entropy and its gradient: bytes of the parts, in their order. The gradient of a chunk's logits replaces
/// them where it has their type; sums over chunks lie in their results where those have 32 bits.
struct HeadScratch {
  /// Elements between two rows of logits and of their gradients, for any number of classes: products that lie at
  /// multiples of 16 bytes have better algorithms.
  static int64_t line(int64_t classes) { return ceilDivide(classes, 8) * 8; }
  uint64_t losses, logits, gradients, weightSums, biasSums, library;
  static HeadScratch of(const Signature &call);
  uint64_t total() const;
};

/// attention and its gradient by blocks of queries, a batch row at a time: all heads of a block at once.
struct AttentionBlocks {
  int64_t batch, queries, keys, heads, groups, width, valueWidth;
  DType type;
  bool gradient;
  int64_t rows = 1; ///< queries of a block
  int64_t line = 8; ///< elements between two rows of scores
  bool keepsDeltas = false;
  /// Bytes of the parts, in their order. `slopes` are gradients of scores; the narrow ones are operands of products in
  /// the call's type, the wide ones what dbias is a sum of where nothing else holds it in 32 bits.
  uint64_t scores, narrowScores, slopes, narrowSlopes, wideSlopes, deltas, keySums, valueSums, biasSums, keysByPlace,
      library;

  /// Elements of `deltas` from one batch row to the next: the gradient of a sink needs those of all.
  int64_t deltasOfRow() const { return keepsDeltas ? heads * queries : 0; }

  static AttentionBlocks of(const Signature &call);
  uint64_t total() const;
};

/// The same calls through cuDNN's fused graph, in parts whose workspace stays within kEnough, or kMost where a sequence
/// would fall into more than kBlocks: so many batch rows, or groups of heads of one, or heads of one group, or queries
/// of one head at a time. What keys and values get from heads of their group and from blocks of queries is summed in 32
/// bits.
struct FusedAttention {
  static constexpr uint64_t kEnough = uint64_t{256} << 20, kMost = uint64_t{2} << 30;
  static constexpr int64_t kBlocks = 16;
  std::string_view refusal; ///< why the graph cannot do what the call asks; then all else is 0
  int64_t rows = 0, groups = 0, heads = 0, queries = 0; ///< of a part; `heads` are those of a group
  /// Bytes of the parts of scratch, in their order: the library's, a bound; sums, and what a part of the call adds to
  /// them; with a sink, the logsumexp where the call wants none, or sums of gradient * output.
  uint64_t library = 0, keySums = 0, valueSums = 0, keyPart = 0, valuePart = 0, ofSink = 0;

  static FusedAttention of(const Signature &call);
  /// The call with whole groups of heads at a time, for graphs whose workspace grows with queries and not with pairs of
  /// queries and keys: within the scratch of `cut`, which has sums.
  static FusedAttention linear(const Signature &call, const FusedAttention &cut);
  bool sums() const { return keySums > 0; }
  uint64_t total() const;
};

/// Convolutions and their gradients through cuDNN's graph: bytes of the parts, in their order. Its result has the
/// operands' type and replaces what is there: a kernel's gradient, which micro-batches sum in 32 bits, waits in
/// scratch.
struct GraphConvolution {
  std::string_view refusal; ///< why the graph cannot do what the call asks; then all else is 0
  uint64_t result = 0;
  uint64_t library = 0; ///< a bound: operands and result with their channels innermost, and sums of parts of the result
  static GraphConvolution of(const Signature &call);
  uint64_t total() const;
};

uint64_t headScratch(const Signature &call);
uint64_t attentionScratch(const Signature &call);
uint64_t convScratch(const Signature &call);

} // namespace mt::kernels
#endif
