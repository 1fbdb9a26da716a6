#include "models/Llama.h"

#include "models/Blocks.h"

#include <cmath>

namespace mt::models {
namespace {

const Generator kFresh = normal(0.02);

/// What adds to the carried value starts smaller the more of it there is (Radford et al., 2019, section 2.3).
Generator residual(const Shape &s) { return normal(0.02 / std::sqrt(2.0 * double(s.layers))); }

/// A projection with a bias where the checkpoint has one.
Value project(GraphBuilder &b, const Value &x, const std::string &name, int64_t in, int64_t out,
              const Generator &fresh = kFresh) {
  return linear(b, x, name, in, out, b.hasParameter(name + ".bias"), fresh);
}

Value selfAttention(GraphBuilder &b, const LlamaConfig &config, const Value &x, const Value &positions,
                    const RotaryTables &tables, const std::string &name) {
  const Shape &s = config.shape;
  const int64_t d = config.headDim;
  Value query = splitHeads(b, project(b, x, name + ".q_proj", s.hidden, s.heads * d), s.heads, d);
  Value key = splitHeads(b, project(b, x, name + ".k_proj", s.hidden, s.kvHeads * d), s.kvHeads, d);
  Value value = splitHeads(b, project(b, x, name + ".v_proj", s.hidden, s.kvHeads * d), s.kvHeads, d);
  GraphBuilder::Scope scope(b, name);
  Value mixed = attention(b, rotary(b, query, tables, d), rotary(b, key, tables, d), value, positions,
                          {.heads = s.heads, .kvHeads = s.kvHeads, .headDim = d, .scale = 1 / std::sqrt(double(d)),
                           .window = config.window});
  return project(b, mergeHeads(b, mixed, s.heads, d), name + ".o_proj", s.heads * d, s.hidden, residual(s));
}

Value gatedMlp(GraphBuilder &b, const Shape &s, const Value &x, const std::string &name) {
  Value gate = silu(b, project(b, x, name + ".gate_proj", s.hidden, s.intermediate));
  Value up = project(b, x, name + ".up_proj", s.hidden, s.intermediate);
  return project(b, b.node("Mul", {gate, up}), name + ".down_proj", s.intermediate, s.hidden, residual(s));
}

} // namespace

void buildLlama(GraphBuilder &b, const LlamaConfig &config) {
  const Shape &s = config.shape;
  Value tokens = b.tokens("input_ids");
  Value place = positions(b, tokens);
  RotaryTables tables = rotaryTables(b, tokens, place, config.headDim, config.theta);
  Value embedding = b.parameter("model.embed_tokens.weight", {s.vocab, s.hidden}, kFresh);
  Value x = b.node("Gather", {embedding, tokens});
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string name = fmt::format("model.layers.{}", i);
    Value inner = rmsNorm(b, x, name + ".input_layernorm", s.hidden, config.epsilon);
    x = b.node("Add", {x, selfAttention(b, config, inner, place, tables, name + ".self_attn")});
    inner = rmsNorm(b, x, name + ".post_attention_layernorm", s.hidden, config.epsilon);
    x = b.node("Add", {x, gatedMlp(b, s, inner, name + ".mlp")});
  }
  x = rmsNorm(b, x, "model.norm", s.hidden, config.epsilon);
  Value head = config.tiedHead ? embedding : b.parameter("lm_head.weight", {s.vocab, s.hidden}, kFresh);
  b.output(headProduct(b, x, head, "logits"), {"batch", "seq", s.vocab});
}

Status buildLlama(GraphBuilder &b, const Shape &shape) {
  const int64_t headDim = shape.hidden / shape.heads;
  if (headDim % 2 != 0)
    return fail("--hidden {} and --heads {} give heads of {}; rotary positions need an even size", shape.hidden,
                shape.heads, headDim);
  buildLlama(b, LlamaConfig{.shape = shape, .headDim = headDim});
  return {};
}

} // namespace mt::models
