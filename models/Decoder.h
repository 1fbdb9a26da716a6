// One description of the decoders that follow Llama (Touvron et al., arXiv 2302.13971), and the one function that
// builds their graphs under the names of Hugging Face checkpoints: for made-up models (MadeUpDecoders.cpp) and
// checkpoints (Architectures.cpp) alike. What a model does not have is off by default.
#ifndef MT_MODELS_DECODER_H
#define MT_MODELS_DECODER_H

#include "models/Blocks.h"
#include "models/Experts.h"
#include "models/Families.h"
#include "models/Rotary.h"

namespace mt::models {

/// What a layer may do differently from its neighbours.
struct DecoderLayer {
  static constexpr size_t kNoRotary = SIZE_MAX;
  int64_t window = 0;  ///< keys a query sees, itself included; 0: all before it
  size_t rotary = 0;   ///< which of Decoder::rotaries turns its queries and keys, or kNoRotary
  bool routed = false; ///< experts in place of the MLP
};

/// Names of a layer's norms; without one there is no norm.
struct LayerNorms {
  std::string beforeAttention = "input_layernorm", afterAttention;
  std::string beforeMlp = "post_attention_layernorm", afterMlp;
};

enum class HeadNorms { none, each, all }; ///< of queries and keys: over each head, or all heads at once

struct Decoder {
  Shape shape; ///< `layers` and `seq` aside
  int64_t headDim = 0;
  std::vector<DecoderLayer> layers;
  std::vector<Rotary> rotaries;
  Activation activation = Activation::silu;
  double epsilon = 1e-6;
  bool gainPlusOne = false; ///< norms multiply by 1 + weight
  LayerNorms norms;
  HeadNorms headNorms = HeadNorms::none;
  bool inputBias = false, outputBias = false, mlpBias = false; ///< of attention's projections, and the MLP's
  bool fusedInput = false, fusedGate = false;                  ///< qkv_proj, gate_up_proj
  double embeddingScale = 1, attentionScale = 1, residualScale = 1;
  double headScale = 1;                  ///< of what the head multiplies
  double attentionCap = 0, logitCap = 0; ///< 0: none
  bool tiedHead = false;
  Experts experts; ///< of layers that are `routed`
  Generator fresh = normal(0.02),
            residual = normal(0.02); ///< made-up weights; `residual` of what adds to the carried value
};

void buildDecoder(GraphBuilder &b, const Decoder &decoder);

} // namespace mt::models
#endif
