// The pieces that the forms of attention in ONNX and its contrib domain share: heads in and out of the hidden
// dimension, masks as biases, rotary embedding. nn's layout is [batch, sequence, heads, width].
#ifndef MT_COMPILER_ONNX_ATTENTIONPARTS_H
#define MT_COMPILER_ONNX_ATTENTIONPARTS_H

#include "compiler/onnx/NodeContext.h"

namespace mt::onnx {

/// [B, S, heads * D] or [B, heads, S, D] as [B, S, heads, D]; null, with a problem, where it is neither.
mlir::Value splitHeads(NodeContext &node, mlir::Value value, int64_t heads);
/// The reverse, in the form of rank `rank`.
mlir::Value mergeHeads(NodeContext &node, mlir::Value value, size_t rank);

/// A mask that broadcasts to [B, H, Sq, Sk] as a bias of rank four: floats as they are, booleans as 0 and -infinity.
/// Keys behind its last are hidden.
mlir::Value maskBias(NodeContext &node, mlir::Value mask, mlir::Type element, int64_t keys);

struct AttentionCall {
  mlir::Value query, key, value; ///< [B, S, heads, D]
  mlir::Value bias, keyMask;     ///< may be null
  double scale = 1, softCap = 0;
  int64_t minDistance = INT64_MIN, maxDistance = INT64_MAX; ///< how far back a query sees; see nn.attention
  int64_t offset = 0;                                       ///< the place of the first query among the keys
};
/// What a causal query sees: nothing ahead of it.
inline constexpr int64_t kCausal = 0;
/// [B, Sq, H, Dv]
mlir::Value attentionOf(NodeContext &node, const AttentionCall &call);

/// What attention computes on its way to the result, [B, H, Sq, Sk]: the scaled products, these after the cap, with
/// bias and mask, and the probabilities. Written out, for nn.attention never holds them.
enum class ScoreForm : uint8_t { products, capped, biased, probabilities };
mlir::Value scoresOf(NodeContext &node, const AttentionCall &call, ScoreForm form);

/// Rotary embedding of [B, S, heads, D] by tables [B or 1, S, R / 2].
mlir::Value rotaryOf(NodeContext &node, mlir::Value value, mlir::Value cosine, mlir::Value sine, bool interleaved);
/// Rows of a table [positions, R / 2] at ids [B, S] or [1, S]: [B, S, R / 2]. With `ids` of one element: from there on.
mlir::Value rotaryRows(NodeContext &node, mlir::Value table, mlir::Value ids);

} // namespace mt::onnx
#endif
