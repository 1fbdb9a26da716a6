// Which losses stand out, against mean and deviation by weights that are written out.
#include "runtime/train/LossSpikes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace mt::tests {
namespace {

using train::LossSpikes;

/// A weighted mean and deviation: each step's share is 1/n up to the hundredth, and a hundredth then, of what it
/// leaves.
std::pair<double, double> usualOf(const std::vector<double> &values) {
  std::vector<double> weights;
  for (size_t n = 1; n <= values.size(); ++n) {
    const double share = 1.0 / static_cast<double>(std::min<size_t>(n, 100));
    for (double &weight : weights)
      weight *= 1 - share;
    weights.push_back(share);
  }
  double mean = 0, square = 0;
  for (size_t i = 0; i < values.size(); ++i)
    mean += weights[i] * values[i];
  for (size_t i = 0; i < values.size(); ++i)
    square += weights[i] * (values[i] - mean) * (values[i] - mean);
  return {mean, std::sqrt(square)};
}

TEST(LossSpikes, AreSixDeviationsAboveTheMean) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0, 0.1);
  LossSpikes spikes;
  std::vector<double> counted;
  int found = 0;
  for (int step = 1; step <= 400; ++step) {
    const auto loss = static_cast<float>(2 + 3 * std::exp(-step / 10.0) + normal(random) + (step % 37 == 0 ? 6 : 0));
    auto [mean, deviation] = usualOf(counted);
    const double limit = mean + 6 * std::max(deviation, mean / 100);
    const bool isSpike = step > 50 && loss > limit;
    std::optional<double> usual = spikes.add(loss);
    ASSERT_EQ(usual.has_value(), isSpike) << step;
    EXPECT_NEAR(usual.value_or(mean), mean, 1e-9);
    found += isSpike;
    EXPECT_TRUE(!isSpike || step % 37 == 0) << step;
    counted.push_back(isSpike ? limit : loss);
  }
  EXPECT_GT(found, 5);
}

TEST(LossSpikes, ALevelThatStaysBecomesTheUsualOne) {
  LossSpikes spikes;
  for (int step = 0; step < 200; ++step)
    EXPECT_FALSE(spikes.add(static_cast<float>(2 + 0.1 * std::sin(step))));
  int noted = 0;
  for (int step = 0; step < 200; ++step)
    noted += spikes.add(20).has_value();
  EXPECT_GT(noted, 0);
  EXPECT_LT(noted, 60);
  EXPECT_FALSE(spikes.add(20));
}

TEST(LossSpikes, WhatSaysNothingIsNone) {
  LossSpikes spikes;
  for (int step = 0; step < 100; ++step)
    EXPECT_FALSE(spikes.add(step == 20 ? 1e9F : 1)) << "the first fifty only make up what is usual";
  LossSpikes smooth;
  for (int step = 0; step < 100; ++step)
    EXPECT_FALSE(smooth.add(1));
  EXPECT_FALSE(smooth.add(1.05F)) << "a few percent";
  EXPECT_FALSE(smooth.add(INFINITY));
  EXPECT_FALSE(smooth.add(NAN));
  EXPECT_FALSE(smooth.add(-100));
  EXPECT_TRUE(smooth.add(1e6F));
}

} // namespace
} // namespace mt::tests
