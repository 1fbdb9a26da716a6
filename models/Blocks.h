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

enum class Activation { silu, gelu, geluTanh, relu };
Value activate(GraphBuilder &b, const Value &x, Activation activation);
Value gelu(GraphBuilder &b, const Value &x); ///< the tanh form

/// Whether attention, RMSNorm, rotary and GELU are single nodes.
bool isFused(const GraphBuilder &b);
/// x * factor; x itself where that is 1.
Value scaled(GraphBuilder &b, const Value &x, double factor);
/// cap * tanh(x / cap)
Value capped(GraphBuilder &b, const Value &x, double cap, const std::string &result = {});

/// 0 .. seq-1 as int64 [seq], for the sequence of `tokens` [batch, seq].
Value positions(GraphBuilder &b, const Value &tokens);
/// Where the tokens are. In packed graphs inputs [batch, seq] say what of it is not the same in all rows.
struct Places {
  Value inRow;    ///< as positions()
  Value own;      ///< of each within its sequence: the input position_ids, or as `inRow`
  Value segments; ///< the number of the sequence that each is of: the input segment_ids; empty: a row is one
};
Places places(GraphBuilder &b, const Value &tokens);

/// [batch, seq, heads * headDim] -> [batch, heads, seq, headDim], and back.
Value splitHeads(GraphBuilder &b, const Value &x, int64_t heads, int64_t headDim);
/// The two steps of it: [batch, seq, heads, headDim] between them.
Value cutHeads(GraphBuilder &b, const Value &x, int64_t heads, int64_t headDim);
Value headsFirst(GraphBuilder &b, const Value &x);
Value mergeHeads(GraphBuilder &b, const Value &x, int64_t heads, int64_t headDim);

struct AttentionShape {
  int64_t heads = 1, kvHeads = 1, headDim = 1;
  double scale = 1;
  bool causal = true;
  int64_t window = 0;  ///< keys a query sees, itself included; 0: all that the mask allows
  double softCap = 0;  ///< scores become c tanh(scores / c); 0: none
  Value bias = {};     ///< [1, heads, queries, keys], added to the scores; empty: none
  Value segments = {}; ///< [batch, seq]: a query sees the keys of its own alone; empty: of any. Where it is causal
};
/// query [batch, heads, seq, headDim], key and value [batch, kvHeads, seq, headDim]; `positions` [seq].
Value attention(GraphBuilder &b, const Value &query, const Value &key, const Value &value, const Value &positions,
                const AttentionShape &shape);

} // namespace mt::models
#endif
