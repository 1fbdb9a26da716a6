// Mixtures of experts: a router picks a few of many gated MLPs for each token and adds up what they say, by weight
// (Shazeer et al., arXiv 1701.06538). Written so that mtc makes nn.expert_matmul of the products.
#ifndef MT_MODELS_EXPERTS_H
#define MT_MODELS_EXPERTS_H

#include "models/Blocks.h"

namespace mt::models {

struct Experts {
  int64_t count = 0, perToken = 0;
  int64_t width = 0;                          ///< inner width of each
  bool normalized = false;                    ///< the weights of a token's experts add up to 1
  int64_t sharedWidth = 0;                    ///< of the one that all tokens see, behind a gate of its own; 0: none
  std::string block = "mlp", router = "gate"; ///< names, in a layer and in the block
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj"; ///< experts.I.NAME.weight
  std::string fusedGate,
      fusedDown; ///< where one tensor holds all experts: NAME.weight [count, 2 width, hidden] and its like
};

/// down(act(gate(x)) * up(x)) of `width`, under `name`.
struct GatedMlp {
  int64_t hidden = 0, width = 0;
  Activation activation = Activation::silu;
  bool bias = false;
  bool fusedGate = false; ///< gate_up_proj
  Generator fresh, residual;
};
Value gatedMlp(GraphBuilder &b, const GatedMlp &mlp, const Value &x, const std::string &name);

/// x and the result are [batch, seq, hidden]; of `mlp` hidden, activation and generators.
Value routedMlp(GraphBuilder &b, const Experts &experts, const GatedMlp &mlp, const Value &x, const std::string &name);

} // namespace mt::models
#endif
