// The order of rows, and the learning rate against numbers that PyTorch's schedulers gave.
#include "runtime/train/LearningRate.h"
#include "runtime/train/Sampler.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace mt::tests {
namespace {

using namespace train;

TEST(Permutation, IsOneForEveryCount) {
  for (uint64_t count : {1, 2, 3, 4, 5, 7, 8, 9, 64, 100, 1000, 4097}) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < count; ++i)
      seen.insert(permute(i, count, 42));
    EXPECT_EQ(seen.size(), count);
    EXPECT_LT(*seen.rbegin(), count);
  }
}

std::vector<int64_t> order(const Sampler &sampler, int64_t begin, int64_t end) {
  std::vector<int64_t> rows;
  for (int64_t i = begin; i < end; ++i)
    rows.push_back(sampler.row(i));
  return rows;
}

TEST(Sampler, EpochsDifferAndSeedsDifferAndBothRepeat) {
  Sampler sampler(100, true, 5), same(100, true, 5), other(100, true, 6);
  EXPECT_EQ(order(sampler, 0, 300), order(same, 0, 300));
  EXPECT_NE(order(sampler, 0, 100), order(sampler, 100, 200));
  EXPECT_NE(order(sampler, 0, 100), order(other, 0, 100));
  std::vector<int64_t> second = order(sampler, 100, 200);
  EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), 100u);
  EXPECT_EQ(sampler.epoch(99), 0);
  EXPECT_EQ(sampler.epoch(100), 1);
}

TEST(Sampler, IsPinned) { // changing the order would silently change what a resumed run sees
  EXPECT_EQ(order(Sampler(10, true, 0), 0, 10), (std::vector<int64_t>{7, 2, 5, 4, 0, 8, 3, 9, 1, 6}));
}

TEST(Sampler, WithoutShufflingGoesInOrderAndLeftoversBeginTheNextEpoch) {
  EXPECT_EQ(order(Sampler(3, false, 9), 0, 8), (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
}

/// torch.optim.lr_scheduler.SequentialLR([LinearLR(1/4, 1, total_iters=3), <decline>(10 - 4 steps)], [4]), lr 0.1,
/// minimum 0.01, rates of steps 1 to 10.
void expectRates(LearningRate rate, const std::vector<double> &wanted) {
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(rate.at(static_cast<int64_t>(i) + 1), wanted[i], 1e-12) << "step " << i + 1;
}

TEST(LearningRate, FollowsPyTorch) {
  expectRates({0.1, 0, Decline::constant, 0, 10}, {0.1, 0.1, 0.1});
  expectRates({0.1, 0, Decline::constant, 4, 10}, {0.025, 0.05, 0.075, 0.1, 0.1, 0.1});
  expectRates({0.1, 0.01, Decline::cosine, 4, 10}, {0.025, 0.05, 0.07500000000000001, 0.1, 0.1, 0.09397114317029975, 0.07750000000000001, 0.055000000000000014, 0.032500000000000015, 0.01602885682970026});
  expectRates({0.1, 0.01, Decline::linear, 4, 10}, {0.025, 0.05, 0.07500000000000001, 0.1, 0.1, 0.085, 0.07, 0.05500000000000001, 0.04000000000000001, 0.025000000000000005});
}

TEST(LearningRate, StaysAtTheLeastAfterTheEnd) {
  LearningRate rate{0.1, 0.01, Decline::cosine, 0, 10};
  EXPECT_NEAR(rate.at(11), 0.01, 1e-15);
  EXPECT_NEAR(rate.at(50), 0.01, 1e-15);
}

} // namespace
} // namespace mt::tests
