// What a configuration says about rotary positions: `rope_parameters` as transformers 5 writes them, `rope_theta` and
// `rope_scaling` as 4 did. Every kind of scaling is computed as transformers does.
#ifndef MT_MODELS_ROPESCALING_H
#define MT_MODELS_ROPESCALING_H

#include "models/CheckpointConfig.h"
#include "models/Rotary.h"

namespace mt::models {

struct RopeDefaults {
  double theta = 10000;
  const char *thetaName = "rope_theta"; ///< outside the object
  bool partial = false;                 ///< a part of each head may turn
  bool renamed = false;                 ///< `su` and `yarn` mean longrope, as in early configurations of Phi-3
};

/// Of heads of `headDim`; `rope` is the object that says it, `config` the whole.
Rotary readRotary(CheckpointConfig &config, CheckpointConfig rope, int64_t headDim, const RopeDefaults &defaults);
/// The object that says it for all layers.
CheckpointConfig ropeOf(CheckpointConfig &config);

/// Kinds of scaling that are known, with what each reads, for the reference page.
std::string ropeKinds();

} // namespace mt::models
#endif
