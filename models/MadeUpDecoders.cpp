// Decoders of any size with made-up weights: in the manner of Llama, and of Gemma (Gemma Team, arXiv 2408.00118).
#include "models/Decoder.h"

#include <cmath>

namespace mt::models {
namespace {

Result<Decoder> decoderOf(const Shape &shape, double theta) {
  Decoder decoder;
  decoder.shape = shape;
  decoder.headDim = shape.hidden / shape.heads;
  if (decoder.headDim % 2 != 0)
    return fail("--hidden {} and --heads {} give heads of {}; rotary positions need an even size", shape.hidden,
                shape.heads, decoder.headDim);
  decoder.layers.resize(static_cast<size_t>(shape.layers));
  decoder.rotaries = {plainRotary(decoder.headDim, theta)};
  decoder.attentionScale = 1 / std::sqrt(double(decoder.headDim));
  return decoder;
}

} // namespace

Status buildLlama(GraphBuilder &b, const Shape &shape) {
  MT_ASSIGN(Decoder decoder, decoderOf(shape, 500000));
  decoder.epsilon = 1e-5;
  // Starts smaller the more layers there are (Radford et al., 2019, section 2.3).
  decoder.residual = normal(0.02 / std::sqrt(2.0 * double(shape.layers)));
  buildDecoder(b, decoder);
  return {};
}

/// Every other layer sees a window; gains of 1 + w, norms after as well as before, a scaled embedding, capped logits.
Status buildGemma(GraphBuilder &b, const Shape &shape) {
  MT_ASSIGN(Decoder decoder, decoderOf(shape, 10000));
  for (size_t i = 0; i < decoder.layers.size(); i += 2)
    decoder.layers[i].window = shape.seq / 4;
  decoder.activation = Activation::geluTanh;
  decoder.gainPlusOne = decoder.tiedHead = true;
  decoder.norms = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                   "post_feedforward_layernorm"};
  decoder.embeddingScale = std::sqrt(double(shape.hidden));
  decoder.logitCap = 30;
  buildDecoder(b, decoder);
  return {};
}

} // namespace mt::models
