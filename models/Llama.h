// Llama's graph under the names of its Hugging Face checkpoints (Touvron et al., arXiv 2302.13971): rotary positions,
// RMSNorm, grouped-query attention, gated MLP. Used for made-up models and for checkpoints alike.
#ifndef MT_MODELS_LLAMA_H
#define MT_MODELS_LLAMA_H

#include "models/Families.h"

namespace mt::models {

struct LlamaConfig {
  Shape shape;
  int64_t headDim = 0;
  double epsilon = 1e-5, theta = 500000;
  int64_t window = 0;     ///< keys a query sees; 0: all before it
  bool tiedHead = false;
};

void buildLlama(GraphBuilder &b, const LlamaConfig &config);

} // namespace mt::models
#endif
