// The choice of a token: pure, and held against shares that are counted.
#include "runtime/train/ChooseToken.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace mt::train {
namespace {

constexpr std::array<float, 5> kLogits = {1, 3, 2, 3, -INFINITY};

/// How often each token comes of so many equal steps of the number that decides.
std::map<uint32_t, int> counts(const ChoiceOptions &options, int steps = 10000) {
  std::map<uint32_t, int> found;
  for (int i = 0; i < steps; ++i)
    ++found[*chooseToken(kLogits, options, i / static_cast<double>(steps))];
  return found;
}

TEST(ChooseToken, TakesTheFirstOfTheLikeliestWithoutTemperature) {
  for (double uniform : {0.0, 0.5, 0.999})
    EXPECT_EQ(*chooseToken(kLogits, {0, 0, 1}, uniform), 1u);
}

TEST(ChooseToken, DrawsAsTheSoftmaxSays) {
  for (double temperature : {0.5, 1.0, 2.0}) {
    std::map<uint32_t, int> found = counts({temperature, 0, 1});
    double all = 0;
    for (float logit : kLogits)
      all += std::exp(logit / temperature);
    for (uint32_t token = 0; token < kLogits.size(); ++token)
      EXPECT_NEAR(found[token], 10000 * std::exp(kLogits[token] / temperature) / all, 1.5) << token;
  }
}

TEST(ChooseToken, DrawsFromTheLikeliestAlone) {
  const std::map<uint32_t, int> three = counts({1, 3, 1}), most = counts({1, 0, 0.9}), one = counts({1, 1, 1}),
                                least = counts({1, 0, 1e-9});
  EXPECT_EQ(three.size(), 3u);
  EXPECT_FALSE(three.contains(0));
  EXPECT_EQ(most.size(), 3u); // 0.40 + 0.40 + 0.15
  EXPECT_EQ(one, (std::map<uint32_t, int>{{1, 10000}}));
  EXPECT_EQ(least, one);
  EXPECT_EQ(counts({1, 99, 1}), counts({1, 0, 1}));
}

TEST(ChooseToken, RefusesWhatIsNoNumber) {
  const std::array<float, 2> bad = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(chooseToken(bad, {}, 0).status().message(), "what the model predicts for token 1 is not a number");
  EXPECT_FALSE(chooseToken({}, {}, 0));
}

} // namespace
} // namespace mt::train
