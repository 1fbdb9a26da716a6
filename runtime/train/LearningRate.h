// The learning rate as a function of the step: linear warm-up, then constant or declining. Formulas are those of
// torch.optim.lr_scheduler - SequentialLR of LinearLR(1/warmup .. 1) and {ConstantLR, LinearLR, CosineAnnealingLR} -
// and, for what that does not have, of transformers.optimization, whose current_step is step - 1 after the warm-up.
// Which schedules users choose among, Schedules.h says.
#ifndef MT_RUNTIME_TRAIN_LEARNINGRATE_H
#define MT_RUNTIME_TRAIN_LEARNINGRATE_H

#include <cstdint>

namespace mt::train {

/// `root`: 1 - sqrt(progress), Haegele et al., arXiv 2405.18392; `inverseSqrt` has no end: see at().
enum class Decline : uint8_t { constant, linear, cosine, root, inverseSqrt };

struct LearningRate {
  double peak = 1e-3, least = 0;
  Decline decline = Decline::constant;
  int64_t warmup = 0; ///< steps; step s <= warmup has peak * s / warmup
  int64_t steps = 0;  ///< of the whole run; a declining rate would reach `least` at step steps + 1
  int64_t stable = 0; ///< steps at the peak between the warm-up and the decline
  int64_t cycles = 1; ///< of a cosine: each but the first begins at the peak again

  /// Rate of a step, counted from 1. With inverseSqrt, peak * sqrt(t / (t + steps since the warm-up)), where t is the
  /// warm-up, or 10,000 without one.
  double at(int64_t step) const;
};

} // namespace mt::train
#endif
