// The pieces transformer graphs are made of, each written the way exporters write it: at opset 23 as the single nodes
// of that opset, below it decomposed. Values are [batch, seq, ...] unless stated.
#ifndef MT_MODELS_BLOCKS_H
#define MT_MODELS_BLOCKS_H

#include "models/GraphBuilder.h"

namespace mt::models {

/// y = x W^T + b with W [out, in] as `name`.weight, b as `name`.bias if `bias`.
Value linear(GraphBuilder &b, const Value &x, const std::string &name, int64_t in, int64_t out, bool bias,
             const Generator &fresh);
/// y = x W + b with W [in, out]: the layout that GPT-2's checkpoints have.
Value affine(GraphBuilder &b, const Value &x, const std::string &name, int64_t in, int64_t out,
             const Generator &fresh);
/// x W^T with W [vocab, hidden]: the logits of a head, tied to the embedding where W is that; named `result` if set.
Value headProduct(GraphBuilder &b, const Value &x, const Value &weight, const std::string &result = {});

Value layerNorm(GraphBuilder &b, const Value &x, const std::string &name, int64_t width, double epsilon);
/// With `plusOne` the gain is 1 + the parameter, which then starts at zero.
Value rmsNorm(GraphBuilder &b, const Value &x, const std::string &name, int64_t width, double epsilon,
              bool plusOne = false);

Value gelu(GraphBuilder &b, const Value &x); ///< the tanh form
Value silu(GraphBuilder &b, const Value &x);

/// 0 .. seq-1 as int64 [seq], for the sequence of `tokens` [batch, seq].
Value positions(GraphBuilder &b, const Value &tokens);

struct RotaryTables {
  Value cos, sin; ///< [batch, seq, headDim/2] at opset 23, [1, 1, seq, headDim] below it
};
/// Angles position / theta^(2i/headDim), i < headDim/2 (Su et al., RoFormer, arXiv 2104.09864).
RotaryTables rotaryTables(GraphBuilder &b, const Value &tokens, const Value &positions, int64_t headDim, double theta);
/// Rotates x [batch, heads, seq, headDim], pairs (i, i + headDim/2).
Value rotary(GraphBuilder &b, const Value &x, const RotaryTables &tables, int64_t headDim);

/// [batch, seq, heads * headDim] -> [batch, heads, seq, headDim], and back.
Value splitHeads(GraphBuilder &b, const Value &x, int64_t heads, int64_t headDim);
Value mergeHeads(GraphBuilder &b, const Value &x, int64_t heads, int64_t headDim);

struct AttentionShape {
  int64_t heads = 1, kvHeads = 1, headDim = 1;
  double scale = 1;
  bool causal = true;
  int64_t window = 0;  ///< keys a query sees, itself included; 0: all that the mask allows
  double softCap = 0;  ///< scores become c tanh(scores / c); 0: none
  Value bias = {};     ///< [1, heads, queries, keys], added to the scores; empty: none
};
/// query [batch, heads, seq, headDim], key and value [batch, kvHeads, seq, headDim]; `positions` [seq].
Value attention(GraphBuilder &b, const Value &query, const Value &key, const Value &value, const Value &positions,
                const AttentionShape &shape);

} // namespace mt::models
#endif
