// A decoder in the manner of Gemma (Gemma Team, arXiv 2408.00118): layers that alternate between a window and the whole
// sequence, gains of 1 + w, norms after as well as before, an embedding scaled by sqrt(hidden), capped logits.
#include "models/Blocks.h"
#include "models/Families.h"

#include <cmath>

namespace mt::models {
namespace {

constexpr double kEpsilon = 1e-6, kTheta = 10000, kLogitCap = 30;
const Generator kFresh = normal(0.02);

Value selfAttention(GraphBuilder &b, const Shape &s, const Value &x, const Value &positions, const RotaryTables &tables,
                    const std::string &name, int64_t window) {
  const int64_t d = s.hidden / s.heads;
  Value query = splitHeads(b, linear(b, x, name + ".q_proj", s.hidden, s.hidden, false, kFresh), s.heads, d);
  Value key = splitHeads(b, linear(b, x, name + ".k_proj", s.hidden, s.kvHeads * d, false, kFresh), s.kvHeads, d);
  Value value = splitHeads(b, linear(b, x, name + ".v_proj", s.hidden, s.kvHeads * d, false, kFresh), s.kvHeads, d);
  GraphBuilder::Scope scope(b, name);
  Value mixed = attention(b, rotary(b, query, tables, d), rotary(b, key, tables, d), value, positions,
                          {.heads = s.heads, .kvHeads = s.kvHeads, .headDim = d, .scale = 1 / std::sqrt(double(d)),
                           .window = window});
  return linear(b, mergeHeads(b, mixed, s.heads, d), name + ".o_proj", s.hidden, s.hidden, false, kFresh);
}

Value gatedMlp(GraphBuilder &b, const Shape &s, const Value &x, const std::string &name) {
  Value gate = gelu(b, linear(b, x, name + ".gate_proj", s.hidden, s.intermediate, false, kFresh));
  Value up = linear(b, x, name + ".up_proj", s.hidden, s.intermediate, false, kFresh);
  return linear(b, b.node("Mul", {gate, up}), name + ".down_proj", s.intermediate, s.hidden, false, kFresh);
}

Value norm(GraphBuilder &b, const Value &x, const std::string &name, int64_t hidden) {
  return rmsNorm(b, x, name, hidden, kEpsilon, true);
}

} // namespace

Status buildGemma(GraphBuilder &b, const Shape &s) {
  if ((s.hidden / s.heads) % 2 != 0)
    return fail("--hidden {} and --heads {} give heads of odd size; rotary positions need an even one", s.hidden, s.heads);
  Value tokens = b.tokens("input_ids");
  Value place = positions(b, tokens);
  RotaryTables tables = rotaryTables(b, tokens, place, s.hidden / s.heads, kTheta);
  Value embedding = b.parameter("model.embed_tokens.weight", {s.vocab, s.hidden}, kFresh);
  Value x = b.node("Mul", {b.node("Gather", {embedding, tokens}), b.real(std::sqrt(double(s.hidden)))});
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string name = fmt::format("model.layers.{}", i);
    const int64_t window = i % 2 == 0 ? s.seq / 4 : 0;
    Value inner = norm(b, x, name + ".input_layernorm", s.hidden);
    inner = selfAttention(b, s, inner, place, tables, name + ".self_attn", window);
    x = b.node("Add", {x, norm(b, inner, name + ".post_attention_layernorm", s.hidden)});
    inner = gatedMlp(b, s, norm(b, x, name + ".pre_feedforward_layernorm", s.hidden), name + ".mlp");
    x = b.node("Add", {x, norm(b, inner, name + ".post_feedforward_layernorm", s.hidden)});
  }
  x = headProduct(b, norm(b, x, "model.norm", s.hidden), embedding);
  x = b.node("Tanh", {b.node("Div", {x, b.real(kLogitCap)})});
  b.output(b.node("Mul", {x, b.real(kLogitCap)}, {}, "logits"), {"batch", "seq", s.vocab});
  return {};
}

} // namespace mt::models
