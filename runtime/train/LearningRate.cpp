#include "runtime/train/LearningRate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mt::train {
namespace {

/// What is left of the way down, of 1, after a part of it.
double leftOf(const LearningRate &rate, double progress) {
  if (rate.decline == Decline::linear)
    return 1 - progress;
  if (rate.decline == Decline::root)
    return 1 - std::sqrt(progress);
  if (progress == 1) // where another cycle would begin
    return 0;
  return (1 + std::cos(std::numbers::pi * std::fmod(static_cast<double>(rate.cycles) * progress, 1.0))) / 2;
}

} // namespace

double LearningRate::at(int64_t step) const {
  if (step <= warmup)
    return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (decline == Decline::constant)
    return peak;
  if (decline == Decline::inverseSqrt) {
    const auto scale = static_cast<double>(warmup > 0 ? warmup : 10000);
    return peak * std::sqrt(scale / (scale + static_cast<double>(step - 1 - warmup)));
  }
  const int64_t begin = warmup + stable;
  auto length = static_cast<double>(std::max<int64_t>(steps - begin, 1));
  double progress = std::clamp(static_cast<double>(step - 1 - begin) / length, 0.0, 1.0);
  return least + (peak - least) * leftOf(*this, progress);
}

} // namespace mt::train
