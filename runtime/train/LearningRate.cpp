#include "runtime/train/LearningRate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mt::train {

double LearningRate::at(int64_t step) const {
  if (step <= warmup)
    return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (decline == Decline::constant)
    return peak;
  auto length = static_cast<double>(std::max<int64_t>(steps - warmup, 1));
  double progress = std::min(1.0, static_cast<double>(step - 1 - warmup) / length);
  double left = decline == Decline::linear ? 1 - progress : (1 + std::cos(std::numbers::pi * progress)) / 2;
  return least + (peak - least) * left;
}

} // namespace mt::train
