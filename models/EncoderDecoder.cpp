// An encoder-decoder in the manner of T5 (Raffel et al., arXiv 1910.10683): the encoder's output is a shared value that
// every decoder layer attends to, and so is the relative position bias, a parameter all layers of a stack use.
#include "models/Blocks.h"
#include "models/Families.h"

#include <cmath>

namespace mt::models {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr int64_t kReach = 16; ///< relative positions further apart than this share a bias

struct Stack {
  GraphBuilder &b;
  const Shape &s;
  std::string name;
  Value positions;
  Value bias; ///< [1, heads, seq, seq]
  bool causal;
};

Value project(GraphBuilder &b, const Value &x, const std::string &name, int64_t in, int64_t out) {
  return linear(b, x, name, in, out, false, normal(1 / std::sqrt(double(in))));
}

/// bias[0, h, q, k] = table[clip(k - q, -reach, reach - 1) + reach, h].
Value relativeBias(GraphBuilder &b, const Value &positions, const std::string &name, int64_t heads) {
  GraphBuilder::Scope scope(b, name);
  Value table = b.parameter(name + ".weight", {2 * kReach, heads}, normal(0.1));
  Value distance = b.node("Sub", {b.node("Unsqueeze", {positions, b.ints({0})}),
                                  b.node("Unsqueeze", {positions, b.ints({1})})});
  Value bucket = b.node("Clip", {distance, b.integer(-kReach), b.integer(kReach - 1)});
  Value rows = b.node("Gather", {table, b.node("Add", {bucket, b.integer(kReach)})});
  return b.node("Unsqueeze", {b.node("Transpose", {rows}, {{"perm", Dims{2, 0, 1}}}), b.ints({0})});
}

/// Attention from `x` to `memory`; with the stack's bias and mask where they are the same sequence.
Value attend(const Stack &stack, const Value &x, const Value &memory, const std::string &name, bool self) {
  GraphBuilder &b = stack.b;
  const Shape &s = stack.s;
  const int64_t d = s.hidden / s.heads;
  Value query = splitHeads(b, project(b, x, name + ".q", s.hidden, s.hidden), s.heads, d);
  Value key = splitHeads(b, project(b, memory, name + ".k", s.hidden, s.hidden), s.heads, d);
  Value value = splitHeads(b, project(b, memory, name + ".v", s.hidden, s.hidden), s.heads, d);
  GraphBuilder::Scope scope(b, name);
  AttentionShape shape = {.heads = s.heads, .kvHeads = s.heads, .headDim = d, .scale = 1 / std::sqrt(double(d)),
                          .causal = self && stack.causal, .bias = self ? stack.bias : Value()};
  Value mixed = attention(b, query, key, value, stack.positions, shape);
  return project(b, mergeHeads(b, mixed, s.heads, d), name + ".o", s.hidden, s.hidden);
}

Value residual(const Stack &stack, const Value &x, const std::string &layer, const Value &change) {
  GraphBuilder::Scope scope(stack.b, layer);
  return stack.b.node("Add", {x, change});
}

Value normed(const Stack &stack, const Value &x, const std::string &layer) {
  return rmsNorm(stack.b, x, layer + ".layer_norm", stack.s.hidden, kEpsilon);
}

/// One block: self-attention, cross-attention where `memory` is set, feed-forward.
Value block(const Stack &stack, Value x, const Value &memory, int64_t index) {
  const Shape &s = stack.s;
  const std::string name = fmt::format("{}.block.{}.layer.", stack.name, index);
  std::string layer = name + "0";
  Value inner = normed(stack, x, layer);
  x = residual(stack, x, layer, attend(stack, inner, inner, layer + ".SelfAttention", true));
  if (!memory.empty()) {
    layer = name + "1";
    x = residual(stack, x, layer, attend(stack, normed(stack, x, layer), memory, layer + ".EncDecAttention", false));
  }
  layer = name + (memory.empty() ? "1" : "2");
  inner = project(stack.b, normed(stack, x, layer), layer + ".DenseReluDense.wi", s.hidden, s.intermediate);
  inner = project(stack.b, stack.b.node("Relu", {inner}), layer + ".DenseReluDense.wo", s.intermediate, s.hidden);
  return residual(stack, x, layer, inner);
}

Value runStack(GraphBuilder &b, const Shape &s, const Value &tokens, const Value &embedding, const std::string &name,
               const Value &memory) {
  Value place = positions(b, tokens);
  Value bias = relativeBias(b, place, name + ".relative_attention_bias", s.heads);
  const Stack stack = {b, s, name, place, bias, !memory.empty()};
  Value x = b.node("Gather", {embedding, tokens});
  for (int64_t i = 0; i < s.layers; ++i)
    x = block(stack, x, memory, i);
  return rmsNorm(b, x, name + ".final_layer_norm", s.hidden, kEpsilon);
}

} // namespace

Status buildEncoderDecoder(GraphBuilder &b, const Shape &s) {
  Value source = b.tokens("input_ids"), target = b.tokens("decoder_input_ids");
  Value embedding = b.parameter("shared.weight", {s.vocab, s.hidden}, normal(1.0));
  Value memory = runStack(b, s, source, embedding, "encoder", {});
  Value x = runStack(b, s, target, embedding, "decoder", memory);
  x = b.node("Mul", {x, b.real(1 / std::sqrt(double(s.hidden)))});
  b.output(headProduct(b, x, embedding, "logits"), {"batch", "seq", s.vocab});
  return {};
}

} // namespace mt::models
