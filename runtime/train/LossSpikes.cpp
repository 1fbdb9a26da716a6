#include "runtime/train/LossSpikes.h"

#include <algorithm>
#include <cmath>

namespace mt::train {
namespace {

constexpr int64_t kFirst = 50; ///< steps before there is a usual loss
constexpr int64_t kWindow = 100;
constexpr double kDeviations = 6;
constexpr double kLeastDeviation = 0.01; ///< of the mean: less than 6 % above it is no spike, however smooth the curve

} // namespace

std::optional<double> LossSpikes::add(float loss) {
  if (!std::isfinite(loss))
    return std::nullopt;
  const double usual = mean;
  const double limit = mean + kDeviations * std::max(std::sqrt(variance), kLeastDeviation * std::abs(mean));
  const bool isSpike = count >= kFirst && loss > limit;
  ++count;
  // A spike counts no further than the limit: it does not hide the next one, and a level that stays becomes the usual
  // one.
  const double share = 1 / static_cast<double>(std::min(count, kWindow));
  const double difference = (isSpike ? limit : loss) - mean;
  mean += share * difference;
  variance = (1 - share) * (variance + share * difference * difference);
  return isSpike ? std::optional(usual) : std::nullopt;
}

} // namespace mt::train
