// GPT-2's graph under the names of its Hugging Face checkpoints (Radford et al., Language Models are Unsupervised
// Multitask Learners, 2019). Used for made-up models and for checkpoints alike.
#ifndef MT_MODELS_GPT2_H
#define MT_MODELS_GPT2_H

#include "models/Blocks.h"
#include "models/Families.h"

namespace mt::models {

struct Gpt2Config {
  Shape shape;
  double epsilon = 1e-5;
  Activation activation = Activation::geluTanh;
  bool tiedHead = true;
  std::string prefix = "transformer."; ///< of every parameter's name
};

void buildGpt2(GraphBuilder &b, const Gpt2Config &config);

} // namespace mt::models
#endif
