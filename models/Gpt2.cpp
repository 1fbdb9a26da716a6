#include "models/Gpt2.h"

#include <cmath>

namespace mt::models {
namespace {

constexpr double kDeviation = 0.02;

Value selfAttention(GraphBuilder &b, const Gpt2Config &config, const Value &x, const Places &places,
                    const std::string &name, const Generator &residual) {
  GraphBuilder::Scope scope(b, "attn");
  const Shape &s = config.shape;
  const int64_t headDim = s.hidden / s.heads;
  Value qkv = affine(b, x, name + ".c_attn", s.hidden, 3 * s.hidden, normal(kDeviation));
  std::vector<Value> parts = b.nodes("Split", {qkv, b.ints({s.hidden, s.hidden, s.hidden})}, {{"axis", int64_t(2)}}, 3);
  for (Value &part : parts)
    part = splitHeads(b, part, s.heads, headDim);
  Value mixed = attention(b, parts[0], parts[1], parts[2], places.inRow,
                          {.heads = s.heads,
                           .kvHeads = s.heads,
                           .headDim = headDim,
                           .scale = 1 / std::sqrt(headDim),
                           .segments = places.segments});
  return affine(b, mergeHeads(b, mixed, s.heads, headDim), name + ".c_proj", s.hidden, s.hidden, residual);
}

Value block(GraphBuilder &b, const Gpt2Config &config, Value x, const Places &places, const std::string &name) {
  GraphBuilder::Scope scope(b, name);
  const Shape &s = config.shape;
  const Generator residual = normal(kDeviation / std::sqrt(2.0 * double(s.layers)));
  Value attended = selfAttention(b, config, layerNorm(b, x, name + ".ln_1", s.hidden, config.epsilon), places,
                                 name + ".attn", residual);
  x = b.node("Add", {attended, x});
  Value inner = layerNorm(b, x, name + ".ln_2", s.hidden, config.epsilon);
  inner = activate(b, affine(b, inner, name + ".mlp.c_fc", s.hidden, s.intermediate, normal(kDeviation)),
                   config.activation);
  return b.node("Add", {x, affine(b, inner, name + ".mlp.c_proj", s.intermediate, s.hidden, residual)});
}

} // namespace

void buildGpt2(GraphBuilder &b, const Gpt2Config &config) {
  const Shape &s = config.shape;
  Value tokens = b.tokens("input_ids");
  const Places where = places(b, tokens);
  Value embedding = b.parameter(config.prefix + "wte.weight", {s.vocab, s.hidden}, normal(kDeviation));
  Value learned = b.parameter(config.prefix + "wpe.weight", {s.seq, s.hidden}, normal(kDeviation));
  Value x = b.node("Add", {b.node("Gather", {embedding, tokens}), b.node("Gather", {learned, where.own})});
  for (int64_t i = 0; i < s.layers && b.ok(); ++i)
    x = block(b, config, x, where, fmt::format("{}h.{}", config.prefix, i));
  x = layerNorm(b, x, config.prefix + "ln_f", s.hidden, config.epsilon);
  Value head = config.tiedHead ? embedding : b.parameter("lm_head.weight", {s.vocab, s.hidden}, normal(kDeviation));
  b.output(headProduct(b, x, head, "logits"), {"batch", "seq", s.vocab});
}

Status buildGpt2(GraphBuilder &b, const Shape &shape) {
  buildGpt2(b, Gpt2Config{.shape = shape});
  return {};
}

} // namespace mt::models
