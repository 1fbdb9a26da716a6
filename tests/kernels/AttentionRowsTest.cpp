// Rows of scores against plain sums in 64 bits, with every instruction set that this processor has: ranges of any length
// at any place of a row, blocks one after another, and numbers that are none.
#include "kernels/cpu/AttentionRows.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace mt::kernels::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kRows = 13, kStep = 96;

/// Floats at a line of the cache, NaN where nothing was written.
class Block {
public:
  explicit Block(int64_t rows = kRows)
      : held(static_cast<float *>(std::aligned_alloc(64, static_cast<size_t>(rows * kStep) * sizeof(float))),
             &std::free) {
    std::fill_n(held.get(), rows * kStep, std::nanf(""));
  }
  float *data() { return held.get(); }
  float &at(int64_t row, int64_t column) { return held.get()[row * kStep + column]; }

private:
  std::unique_ptr<float, decltype(&std::free)> held;
};

std::vector<RowRange> ranges(std::mt19937 &random) {
  std::vector<RowRange> seen = {{0, kStep}, {0, 1}, {kStep - 1, kStep}, {16, 32}, {0, 0}};
  while (seen.size() < kRows) {
    const auto begin = static_cast<int64_t>(random() % kStep);
    seen.push_back({begin, begin + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(kStep - begin))});
  }
  return seen;
}

/// Calls test() held to each set that the processor has; none has scalars alone.
template <typename Test> void withEverySet(Test test) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (target == HWY_SCALAR)
      continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    test();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(AttentionRows, FoldBlocksOneAfterAnother) {
  withEverySet([] {
    std::mt19937 random(1);
    std::normal_distribution<float> values(0, 4);
    std::vector<float> most(kRows, -kInfinity), factors(kRows);
    std::vector<double> totals(kRows), expected(kRows); // of e^score, which is not shifted
    for (int block = 0; block < 4; ++block) {
      const float scale = block % 2 == 0 ? 1.0F : 0.25F;
      const std::vector<RowRange> seen = ranges(random);
      Block scores;
      std::vector<std::vector<double>> before(kRows);
      const std::vector<float> earlier = most;
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t i = seen[static_cast<size_t>(row)].begin; i < seen[static_cast<size_t>(row)].end; ++i) {
          scores.at(row, i) = values(random);
          before[static_cast<size_t>(row)].push_back(static_cast<double>(scores.at(row, i) * scale));
        }
      foldScores({scores.data(), kRows, kStep, seen.data()}, scale, most.data(), totals.data(), factors.data());
      for (size_t row = 0; row < kRows; ++row) {
        for (const double score : before[row])
          expected[row] += std::exp(score);
        const double shift = std::isinf(most[row]) ? 0 : static_cast<double>(most[row]);
        EXPECT_NEAR(totals[row] * std::exp(shift), expected[row], 1e-6 * expected[row]) << "row " << row;
        EXPECT_EQ(factors[row], most[row] == earlier[row] ? 1 : std::exp(earlier[row] - most[row]));
        for (int64_t i = 0; i < kStep; ++i) {
          const auto place = static_cast<size_t>(i - seen[row].begin);
          const double term = i >= seen[row].begin && place < before[row].size() ? std::exp(before[row][place] - shift) : 0;
          ASSERT_NEAR(static_cast<double>(scores.at(static_cast<int64_t>(row), i)), term, 1e-6 * term) << row << ", " << i;
        }
      }
    }
  });
}

TEST(AttentionRows, WhatSeesNothingKeepsWhatItHas) {
  withEverySet([] {
    const std::vector<RowRange> seen(kRows, {3, 40});
    Block scores;
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t i = 3; i < 40; ++i)
        scores.at(row, i) = row == 1 && i == 20 ? std::nanf("") : -kInfinity;
    std::vector<float> most(kRows, -kInfinity), factors(kRows);
    std::vector<double> totals(kRows, 0.5);
    most[2] = 7;
    foldScores({scores.data(), kRows, kStep, seen.data()}, 1, most.data(), totals.data(), factors.data());
    EXPECT_EQ(totals[0], 0.5);
    EXPECT_EQ(factors[0], 1);
    EXPECT_TRUE(std::isnan(totals[1])); // NaN is not hidden
    EXPECT_EQ(most[2], 7);
    EXPECT_EQ(totals[2], 0.5);
    for (int64_t i = 0; i < kStep; ++i)
      ASSERT_EQ(scores.at(0, i), 0);
  });
}

TEST(AttentionRows, SendBackProbabilitiesAndSlopes) {
  withEverySet([] {
    std::mt19937 random(2);
    std::normal_distribution<float> values;
    const std::vector<RowRange> seen = ranges(random);
    constexpr float kScale = 0.3F;
    Block scores, slopes;
    Block before, gradients;
    std::vector<float> logsumexp(kRows), deltas(kRows);
    for (int64_t row = 0; row < kRows; ++row) {
      logsumexp[static_cast<size_t>(row)] = row == 7 ? -kInfinity : values(random), deltas[static_cast<size_t>(row)] = values(random);
      for (int64_t i = seen[static_cast<size_t>(row)].begin; i < seen[static_cast<size_t>(row)].end; ++i)
        before.at(row, i) = scores.at(row, i) = values(random), gradients.at(row, i) = slopes.at(row, i) = values(random);
    }
    sendBackScores({scores.data(), kRows, kStep, seen.data()}, kScale, logsumexp.data(), deltas.data(), slopes.data());
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t i = 0; i < kStep; ++i) {
        const auto of = static_cast<size_t>(row);
        const bool isSeen = i >= seen[of].begin && i < seen[of].end && row != 7;
        const double p = isSeen ? std::exp(static_cast<double>(before.at(row, i)) * static_cast<double>(kScale) - static_cast<double>(logsumexp[of])) : 0,
                     slope = isSeen ? p * static_cast<double>(gradients.at(row, i) - deltas[of]) : 0;
        ASSERT_NEAR(static_cast<double>(scores.at(row, i)), p, 1e-6 * p) << row << ", " << i;
        ASSERT_NEAR(static_cast<double>(slopes.at(row, i)), slope, 1e-6 * std::abs(slope) + 1e-30) << row << ", " << i;
      }
  });
}

TEST(AttentionRows, WeightsOfNoConsequenceAreZero) {
  withEverySet([] {
    constexpr float kGone = -71, kKept = -68; // e^-69.66 is 2^-100.5
    constexpr int64_t kMany = 37;             // not all at once
    const std::vector<RowRange> seen(kMany, {0, kStep});
    Block scores(kMany), slopes(kMany);
    const auto fill = [&] {
      for (int64_t row = 0; row < kMany; ++row)
        for (int64_t i = 0; i < kStep; ++i)
          scores.at(row, i) = i == 40 ? 0 : i % 2 == 0 ? kGone : kKept, slopes.at(row, i) = 1;
    };
    const auto expectWeights = [&](Block &of) {
      for (int64_t row = 0; row < kMany; ++row)
        for (int64_t i = 0; i < kStep; ++i) {
          const double weight = i == 40 ? 1 : i % 2 == 0 ? 0 : std::exp(static_cast<double>(kKept));
          ASSERT_NEAR(static_cast<double>(of.at(row, i)), weight, 1e-6 * weight) << row << ", " << i;
        }
    };
    fill();
    std::vector<float> most(kMany, -kInfinity), factors(kMany);
    std::vector<double> totals(kMany);
    foldScores({scores.data(), kMany, kStep, seen.data()}, 1, most.data(), totals.data(), factors.data());
    expectWeights(scores);
    fill();
    const std::vector<float> none(kMany);
    sendBackScores({scores.data(), kMany, kStep, seen.data()}, 1, none.data(), none.data(), slopes.data());
    expectWeights(scores);
    expectWeights(slopes);
  });
}

} // namespace
} // namespace mt::kernels::cpu
