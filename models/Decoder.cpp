#include "models/Decoder.h"

namespace mt::models {
namespace {

Value norm(GraphBuilder &b, const Decoder &d, const Value &x, const std::string &name, int64_t width) {
  return rmsNorm(b, x, name, width, d.epsilon, d.gainPlusOne);
}

/// A norm of the carried value where the model has one: `part` of the layer `name`.
Value normIn(GraphBuilder &b, const Decoder &d, const Value &x, const std::string &name, const std::string &part) {
  return part.empty() ? x : norm(b, d, x, name + "." + part, d.shape.hidden);
}

/// Projected queries, keys or values as [batch, heads, seq, headDim]; normalized if `normName` says so.
Value headsOf(GraphBuilder &b, const Decoder &d, Value x, int64_t heads, const std::string &normName = {}) {
  const HeadNorms norms = normName.empty() ? HeadNorms::none : d.headNorms;
  if (norms == HeadNorms::all)
    x = norm(b, d, x, normName, heads * d.headDim);
  x = cutHeads(b, x, heads, d.headDim);
  return headsFirst(b, norms == HeadNorms::each ? norm(b, d, x, normName, d.headDim) : x);
}

struct Heads {
  Value query, key, value;
};

Heads projectHeads(GraphBuilder &b, const Decoder &d, const Value &x, const std::string &name) {
  const Shape &s = d.shape;
  const int64_t wide = s.heads * d.headDim, narrow = s.kvHeads * d.headDim;
  auto project = [&](const char *part, int64_t out) {
    return linear(b, x, name + part, s.hidden, out, d.inputBias, d.fresh);
  };
  Heads heads;
  if (d.fusedInput) {
    Value all = project(".qkv_proj", wide + 2 * narrow);
    std::vector<Value> parts = b.nodes("Split", {all, b.ints({wide, narrow, narrow})}, {{"axis", int64_t(2)}}, 3);
    heads.query = headsOf(b, d, parts[0], s.heads, name + ".q_norm");
    heads.key = headsOf(b, d, parts[1], s.kvHeads, name + ".k_norm");
    heads.value = headsOf(b, d, parts[2], s.kvHeads);
    return heads;
  }
  heads.query = headsOf(b, d, project(".q_proj", wide), s.heads, name + ".q_norm");
  heads.key = headsOf(b, d, project(".k_proj", narrow), s.kvHeads, name + ".k_norm");
  heads.value = headsOf(b, d, project(".v_proj", narrow), s.kvHeads);
  return heads;
}

/// What every layer uses.
struct Shared {
  Places places;
  std::vector<RotaryTables> tables;
};

Value selfAttention(GraphBuilder &b, const Decoder &d, const DecoderLayer &layer, const Value &x, const Shared &shared,
                    const std::string &name) {
  const Shape &s = d.shape;
  Heads heads = projectHeads(b, d, x, name);
  GraphBuilder::Scope scope(b, name);
  if (layer.rotary != DecoderLayer::kNoRotary) {
    heads.key = rotate(b, heads.key, shared.tables[layer.rotary], d.headDim);
    heads.query = rotate(b, heads.query, shared.tables[layer.rotary], d.headDim);
  }
  Value mixed = attention(b, heads.query, heads.key, heads.value, shared.places.inRow,
                          {.heads = s.heads,
                           .kvHeads = s.kvHeads,
                           .headDim = d.headDim,
                           .scale = d.attentionScale,
                           .window = layer.window,
                           .softCap = d.attentionCap,
                           .segments = shared.places.segments});
  mixed = mergeHeads(b, mixed, s.heads, d.headDim);
  return linear(b, mixed, name + ".o_proj", s.heads * d.headDim, s.hidden, d.outputBias, d.residual);
}

Value block(GraphBuilder &b, const Decoder &d, const DecoderLayer &layer, Value x, const Shared &shared,
            const std::string &name) {
  const GatedMlp mlp = {d.shape.hidden, d.shape.intermediate, d.activation, d.mlpBias, d.fusedGate, d.fresh,
                        d.residual};
  Value inner = normIn(b, d, x, name, d.norms.beforeAttention);
  inner = selfAttention(b, d, layer, inner, shared, name + ".self_attn");
  inner = normIn(b, d, inner, name, d.norms.afterAttention);
  x = b.node("Add", {x, scaled(b, inner, d.residualScale)});
  inner = normIn(b, d, x, name, d.norms.beforeMlp);
  inner = layer.routed ? routedMlp(b, d.experts, mlp, inner, name + "." + d.experts.block)
                       : gatedMlp(b, mlp, inner, name + ".mlp");
  inner = normIn(b, d, inner, name, d.norms.afterMlp);
  return b.node("Add", {x, scaled(b, inner, d.residualScale)});
}

} // namespace

void buildDecoder(GraphBuilder &b, const Decoder &d) {
  const Shape &s = d.shape;
  Value tokens = b.tokens("input_ids");
  Shared shared = {places(b, tokens), {}};
  for (const Rotary &rotary : d.rotaries)
    shared.tables.push_back(rotaryTables(b, tokens, shared.places.own, rotary));
  Value embedding = b.parameter("model.embed_tokens.weight", {s.vocab, s.hidden}, d.fresh);
  Value x = scaled(b, b.node("Gather", {embedding, tokens}), d.embeddingScale);
  for (size_t i = 0; i < d.layers.size() && b.ok(); ++i)
    x = block(b, d, d.layers[i], x, shared, fmt::format("model.layers.{}", i));
  x = scaled(b, norm(b, d, x, "model.norm", s.hidden), d.headScale);
  Value head = d.tiedHead ? embedding : b.parameter("lm_head.weight", {s.vocab, s.hidden}, d.fresh);
  x = headProduct(b, x, head, d.logitCap > 0 ? "" : "logits");
  if (d.logitCap > 0)
    x = capped(b, x, d.logitCap, "logits");
  b.output(x, {"batch", "seq", s.vocab});
}

} // namespace mt::models
