#include "models/Blocks.h"

#include <cmath>

namespace mt::models {
namespace {

constexpr int64_t kFusedOpset = 23;

Value transpose(GraphBuilder &b, const Value &x, const Dims &perm) { return b.node("Transpose", {x}, {{"perm", perm}}); }

/// Boolean [seq, seq], of segments [batch, 1, seq, seq]: key <= query, and query - key < window where there is one, and
/// both are of the same segment where there are some.
Value seenKeys(GraphBuilder &b, const Value &positions, const AttentionShape &shape) {
  Value rows = b.node("Unsqueeze", {positions, b.ints({1})});
  Value columns = b.node("Unsqueeze", {positions, b.ints({0})});
  Value seen = b.node("LessOrEqual", {columns, rows});
  if (shape.window > 0) {
    Value distance = b.node("Sub", {rows, columns});
    seen = b.node("And", {seen, b.node("Less", {distance, b.integer(shape.window)})});
  }
  if (shape.segments.empty())
    return seen;
  Value ofQuery = b.node("Unsqueeze", {shape.segments, b.ints({1, 3})});
  Value ofKey = b.node("Unsqueeze", {shape.segments, b.ints({1, 2})});
  return b.node("And", {seen, b.node("Equal", {ofQuery, ofKey})});
}

/// Repeats [batch, kvHeads, seq, headDim] so that every query head has its own.
Value repeatHeads(GraphBuilder &b, const Value &x, const AttentionShape &shape) {
  if (shape.heads == shape.kvHeads)
    return x;
  Value wide = b.node("Unsqueeze", {x, b.ints({2})});
  wide = b.node("Expand", {wide, b.ints({1, 1, shape.heads / shape.kvHeads, 1, 1})});
  return b.node("Reshape", {wide, b.ints({0, shape.heads, -1, shape.headDim})});
}

Value fusedAttention(GraphBuilder &b, const Value &query, const Value &key, const Value &value, const Value &positions,
                     const AttentionShape &shape) {
  std::vector<Value> inputs = {query, key, value};
  const bool masked = shape.causal && (shape.window > 0 || !shape.segments.empty());
  if (masked)
    inputs.push_back(seenKeys(b, positions, shape));
  else if (!shape.bias.empty())
    inputs.push_back(shape.bias);
  std::vector<Attribute> attributes = {{"is_causal", int64_t(shape.causal && !masked)}, {"scale", shape.scale}};
  if (shape.softCap > 0)
    attributes.push_back({"softcap", shape.softCap});
  return b.node("Attention", inputs, attributes);
}

Value decomposedAttention(GraphBuilder &b, const Value &query, const Value &key, const Value &value,
                          const Value &positions, const AttentionShape &shape) {
  Value keys = transpose(b, repeatHeads(b, key, shape), {0, 1, 3, 2});
  Value scores = b.node("Mul", {b.node("MatMul", {query, keys}), b.real(shape.scale)});
  if (shape.softCap > 0)
    scores = capped(b, scores, shape.softCap);
  if (!shape.bias.empty())
    scores = b.node("Add", {scores, shape.bias});
  if (shape.causal)
    scores = b.node("Where", {seenKeys(b, positions, shape), scores, b.real(-3.4028234663852886e38)});
  Value weights = b.node("Softmax", {scores}, {{"axis", int64_t(-1)}});
  return b.node("MatMul", {weights, repeatHeads(b, value, shape)});
}

// 0.5 x (1 + erf(x / sqrt(2))): Hendrycks and Gimpel, arXiv 1606.08415.
Value exactGelu(GraphBuilder &b, const Value &x) {
  if (isFused(b))
    return b.node("Gelu", {x});
  Value outer = b.node("Add", {b.node("Erf", {b.node("Mul", {x, b.real(std::sqrt(0.5))})}), b.real(1.0)});
  return b.node("Mul", {b.node("Mul", {x, b.real(0.5)}), outer});
}

Value rmsGain(GraphBuilder &b, const std::string &name, int64_t width, bool plusOne) {
  Value gain = b.parameter(name + ".weight", {width}, plusOne ? zeros() : ones());
  return plusOne ? b.node("Add", {gain, b.real(1.0)}) : gain;
}

} // namespace

Value linear(GraphBuilder &b, const Value &x, const std::string &name, int64_t in, int64_t out, bool bias,
             const Generator &fresh) {
  GraphBuilder::Scope scope(b, name);
  Value weight = b.parameter(name + ".weight", {out, in}, fresh);
  Value y = b.node("MatMul", {x, transpose(b, weight, {1, 0})});
  return bias ? b.node("Add", {y, b.parameter(name + ".bias", {out}, zeros())}) : y;
}

Value affine(GraphBuilder &b, const Value &x, const std::string &name, int64_t in, int64_t out,
             const Generator &fresh) {
  GraphBuilder::Scope scope(b, name);
  Value y = b.node("MatMul", {x, b.parameter(name + ".weight", {in, out}, fresh)});
  return b.node("Add", {y, b.parameter(name + ".bias", {out}, zeros())});
}

Value headProduct(GraphBuilder &b, const Value &x, const Value &weight, const std::string &result) {
  GraphBuilder::Scope scope(b, "lm_head");
  return b.node("MatMul", {x, transpose(b, weight, {1, 0})}, {}, result);
}

Value layerNorm(GraphBuilder &b, const Value &x, const std::string &name, int64_t width, double epsilon) {
  GraphBuilder::Scope scope(b, name);
  Value gain = b.parameter(name + ".weight", {width}, ones());
  Value bias = b.parameter(name + ".bias", {width}, zeros());
  return b.node("LayerNormalization", {x, gain, bias}, {{"axis", int64_t(-1)}, {"epsilon", epsilon}});
}

Value rmsNorm(GraphBuilder &b, const Value &x, const std::string &name, int64_t width, double epsilon, bool plusOne) {
  GraphBuilder::Scope scope(b, name);
  Value gain = rmsGain(b, name, width, plusOne);
  if (isFused(b))
    return b.node("RMSNormalization", {x, gain}, {{"axis", int64_t(-1)}, {"epsilon", epsilon}});
  Value mean = b.node("ReduceMean", {b.node("Pow", {x, b.real(2.0)}), b.ints({-1})}, {{"keepdims", int64_t(1)}});
  Value root = b.node("Sqrt", {b.node("Add", {mean, b.real(epsilon)})});
  return b.node("Mul", {gain, b.node("Mul", {x, b.node("Reciprocal", {root})})});
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): Hendrycks and Gimpel, arXiv 1606.08415.
Value gelu(GraphBuilder &b, const Value &x) {
  if (isFused(b))
    return b.node("Gelu", {x}, {{"approximate", std::string("tanh")}});
  Value cubic = b.node("Mul", {b.node("Pow", {x, b.real(3.0)}), b.real(0.044715)});
  Value inner = b.node("Mul", {b.node("Add", {x, cubic}), b.real(std::sqrt(2.0 / M_PI))});
  Value outer = b.node("Add", {b.node("Tanh", {inner}), b.real(1.0)});
  return b.node("Mul", {b.node("Mul", {x, b.real(0.5)}), outer});
}

Value activate(GraphBuilder &b, const Value &x, Activation activation) {
  if (activation == Activation::silu)
    return b.node("Mul", {x, b.node("Sigmoid", {x})});
  if (activation == Activation::relu)
    return b.node("Relu", {x});
  return activation == Activation::gelu ? exactGelu(b, x) : gelu(b, x);
}

bool isFused(const GraphBuilder &b) { return b.opset() >= kFusedOpset; }

Value scaled(GraphBuilder &b, const Value &x, double factor) {
  return factor == 1 ? x : b.node("Mul", {x, b.real(factor)});
}

Value capped(GraphBuilder &b, const Value &x, double cap, const std::string &result) {
  Value limit = b.real(cap);
  return b.node("Mul", {b.node("Tanh", {b.node("Div", {x, limit})}), limit}, {}, result);
}

Value positions(GraphBuilder &b, const Value &tokens) {
  Value length = b.node("Shape", {tokens}, {{"start", int64_t(1)}, {"end", int64_t(2)}});
  return b.node("Range", {b.integer(0), b.node("Squeeze", {length}), b.integer(1)});
}

Places places(GraphBuilder &b, const Value &tokens) {
  Value inRow = positions(b, tokens);
  if (!b.isPacked())
    return {inRow, inRow, {}};
  return {inRow, b.tokens("position_ids"), b.tokens("segment_ids")};
}

Value splitHeads(GraphBuilder &b, const Value &x, int64_t heads, int64_t headDim) {
  return headsFirst(b, cutHeads(b, x, heads, headDim));
}

Value cutHeads(GraphBuilder &b, const Value &x, int64_t heads, int64_t headDim) {
  return b.node("Reshape", {x, b.ints({0, 0, heads, headDim})});
}

Value headsFirst(GraphBuilder &b, const Value &x) { return transpose(b, x, {0, 2, 1, 3}); }

Value mergeHeads(GraphBuilder &b, const Value &x, int64_t heads, int64_t headDim) {
  return b.node("Reshape", {transpose(b, x, {0, 2, 1, 3}), b.ints({0, 0, heads * headDim})});
}

Value attention(GraphBuilder &b, const Value &query, const Value &key, const Value &value, const Value &positions,
                const AttentionShape &shape) {
  return isFused(b) ? fusedAttention(b, query, key, value, positions, shape)
                    : decomposedAttention(b, query, key, value, positions, shape);
}

} // namespace mt::models
