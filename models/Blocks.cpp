#include "models/Blocks.h"

#include <cmath>

namespace mt::models {
namespace {

constexpr int64_t kFusedOpset = 23;
bool fused(const GraphBuilder &b) { return b.opset() >= kFusedOpset; }

Value transpose(GraphBuilder &b, const Value &x, const Dims &perm) { return b.node("Transpose", {x}, {{"perm", perm}}); }

/// Boolean [seq, seq]: key <= query, and query - key < window where there is one.
Value seenKeys(GraphBuilder &b, const Value &positions, const AttentionShape &shape) {
  Value rows = b.node("Unsqueeze", {positions, b.ints({1})});
  Value columns = b.node("Unsqueeze", {positions, b.ints({0})});
  Value seen = b.node("LessOrEqual", {columns, rows});
  if (shape.window == 0)
    return seen;
  Value distance = b.node("Sub", {rows, columns});
  return b.node("And", {seen, b.node("Less", {distance, b.integer(shape.window)})});
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
  const bool masked = shape.causal && shape.window > 0;
  if (masked)
    inputs.push_back(seenKeys(b, positions, shape));
  else if (!shape.bias.empty())
    inputs.push_back(shape.bias);
  std::vector<Attribute> attributes = {{"is_causal", int64_t(shape.causal && !masked)}, {"scale", shape.scale}};
  if (shape.softCap > 0)
    attributes.push_back({"softcap", shape.softCap});
  return b.node("Attention", inputs, attributes);
}

Value cap(GraphBuilder &b, const Value &scores, double softCap) {
  Value limit = b.real(softCap);
  return b.node("Mul", {b.node("Tanh", {b.node("Div", {scores, limit})}), limit});
}

Value decomposedAttention(GraphBuilder &b, const Value &query, const Value &key, const Value &value,
                          const Value &positions, const AttentionShape &shape) {
  Value keys = transpose(b, repeatHeads(b, key, shape), {0, 1, 3, 2});
  Value scores = b.node("Mul", {b.node("MatMul", {query, keys}), b.real(shape.scale)});
  if (shape.softCap > 0)
    scores = cap(b, scores, shape.softCap);
  if (!shape.bias.empty())
    scores = b.node("Add", {scores, shape.bias});
  if (shape.causal)
    scores = b.node("Where", {seenKeys(b, positions, shape), scores, b.real(-3.4028234663852886e38)});
  Value weights = b.node("Softmax", {scores}, {{"axis", int64_t(-1)}});
  return b.node("MatMul", {weights, repeatHeads(b, value, shape)});
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
  if (fused(b))
    return b.node("RMSNormalization", {x, gain}, {{"axis", int64_t(-1)}, {"epsilon", epsilon}});
  Value mean = b.node("ReduceMean", {b.node("Pow", {x, b.real(2.0)}), b.ints({-1})}, {{"keepdims", int64_t(1)}});
  Value root = b.node("Sqrt", {b.node("Add", {mean, b.real(epsilon)})});
  return b.node("Mul", {gain, b.node("Mul", {x, b.node("Reciprocal", {root})})});
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): Hendrycks and Gimpel, arXiv 1606.08415.
Value gelu(GraphBuilder &b, const Value &x) {
  if (fused(b))
    return b.node("Gelu", {x}, {{"approximate", std::string("tanh")}});
  Value cubic = b.node("Mul", {b.node("Pow", {x, b.real(3.0)}), b.real(0.044715)});
  Value inner = b.node("Mul", {b.node("Add", {x, cubic}), b.real(std::sqrt(2.0 / M_PI))});
  Value outer = b.node("Add", {b.node("Tanh", {inner}), b.real(1.0)});
  return b.node("Mul", {b.node("Mul", {x, b.real(0.5)}), outer});
}

Value silu(GraphBuilder &b, const Value &x) { return b.node("Mul", {x, b.node("Sigmoid", {x})}); }

Value positions(GraphBuilder &b, const Value &tokens) {
  Value length = b.node("Shape", {tokens}, {{"start", int64_t(1)}, {"end", int64_t(2)}});
  return b.node("Range", {b.integer(0), b.node("Squeeze", {length}), b.integer(1)});
}

RotaryTables rotaryTables(GraphBuilder &b, const Value &tokens, const Value &positions, int64_t headDim, double theta) {
  GraphBuilder::Scope scope(b, "rotary_emb");
  std::vector<float> frequencies;
  for (int64_t i = 0; i < headDim / 2; ++i)
    frequencies.push_back(static_cast<float>(std::pow(theta, -2.0 * double(i) / double(headDim))));
  Value column = b.node("Cast", {b.node("Unsqueeze", {positions, b.ints({0, 2})})},
                        {{"to", int64_t(onnx::TensorProto::FLOAT)}});
  Value angles = b.node("Mul", {column, b.reals("inv_freq", frequencies)});
  if (!fused(b)) {
    angles = b.node("Concat", {angles, angles}, {{"axis", int64_t(-1)}});
    angles = b.node("Unsqueeze", {angles, b.ints({1})});
    return {b.node("Cos", {angles}), b.node("Sin", {angles})};
  }
  Value batch = b.node("Shape", {tokens}, {{"start", int64_t(0)}, {"end", int64_t(1)}});
  Value shape = b.node("Concat", {batch, b.ints({1, 1})}, {{"axis", int64_t(0)}});
  return {b.node("Expand", {b.node("Cos", {angles}), shape}), b.node("Expand", {b.node("Sin", {angles}), shape})};
}

Value rotary(GraphBuilder &b, const Value &x, const RotaryTables &tables, int64_t headDim) {
  if (fused(b))
    return b.node("RotaryEmbedding", {x, tables.cos, tables.sin}, {{"interleaved", int64_t(0)}});
  Value half = b.ints({headDim / 2}), axis = b.ints({3}), step = b.ints({1});
  Value low = b.node("Slice", {x, b.ints({0}), half, axis, step});
  Value high = b.node("Slice", {x, half, b.ints({INT64_MAX}), axis, step});
  Value turned = b.node("Concat", {b.node("Neg", {high}), low}, {{"axis", int64_t(-1)}});
  return b.node("Add", {b.node("Mul", {x, tables.cos}), b.node("Mul", {turned, tables.sin})});
}

Value splitHeads(GraphBuilder &b, const Value &x, int64_t heads, int64_t headDim) {
  return transpose(b, b.node("Reshape", {x, b.ints({0, 0, heads, headDim})}), {0, 2, 1, 3});
}

Value mergeHeads(GraphBuilder &b, const Value &x, int64_t heads, int64_t headDim) {
  return b.node("Reshape", {transpose(b, x, {0, 2, 1, 3}), b.ints({0, 0, heads * headDim})});
}

Value attention(GraphBuilder &b, const Value &query, const Value &key, const Value &value, const Value &positions,
                const AttentionShape &shape) {
  return fused(b) ? fusedAttention(b, query, key, value, positions, shape)
                  : decomposedAttention(b, query, key, value, positions, shape);
}

} // namespace mt::models
