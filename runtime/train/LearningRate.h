// The learning rate as a function of the step: linear warm-up, then constant, linear or cosine. Formulas are those of
// torch.optim.lr_scheduler: SequentialLR of LinearLR(1/warmup .. 1) and {ConstantLR, LinearLR, CosineAnnealingLR}.
#ifndef MT_RUNTIME_TRAIN_LEARNINGRATE_H
#define MT_RUNTIME_TRAIN_LEARNINGRATE_H

#include <cstdint>

namespace mt::train {

enum class Decline : uint8_t { constant, linear, cosine };

struct LearningRate {
  double peak = 1e-3, least = 0;
  Decline decline = Decline::constant;
  int64_t warmup = 0; ///< steps; step s <= warmup has peak * s / warmup
  int64_t steps = 0;  ///< of the whole run; a declining rate would reach `least` at step steps + 1

  /// Rate of a step, counted from 1.
  double at(int64_t step) const;
};

} // namespace mt::train
#endif
