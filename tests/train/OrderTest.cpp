// The order of rows, and the learning rate against numbers that the schedulers of PyTorch and transformers gave.
#include "runtime/train/Recipe.h"
#include "runtime/train/Sampler.h"
#include "runtime/train/Schedules.h"

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

/// transformers.optimization, lr 0.1: get_cosine_with_hard_restarts_schedule_with_warmup(2, 12, num_cycles=2),
/// get_wsd_schedule(3, 4, 12, decay_type=.., min_lr_ratio=0.1), get_inverse_sqrt_schedule(4) and (0); what follows the
/// warm-up, from its current_step on, which is the step before ours.
TEST(LearningRate, FollowsTransformersAfterTheWarmUp) {
  auto expect = [](const LearningRate &rate, const std::vector<double> &wanted) {
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(rate.at(rate.warmup + static_cast<int64_t>(i) + 1), wanted[i], 1e-15)
          << "step " << i + 1 << " after it";
  };
  expect({.peak = 0.1, .decline = Decline::cosine, .warmup = 2, .steps = 12, .cycles = 2},
         {0.1, 0.09045084971874738, 0.06545084971874737, 0.03454915028125263, 0.009549150281252633, 0.1,
          0.09045084971874738, 0.06545084971874739, 0.034549150281252626, 0.009549150281252633, 0.0});
  LearningRate wsd{.peak = 0.1, .least = 0.01, .decline = Decline::linear, .warmup = 3, .steps = 12, .stable = 5};
  expect(wsd, {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.07750000000000001, 0.05500000000000001, 0.0325, 0.010000000000000002});
  wsd.decline = Decline::cosine;
  expect(wsd, {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.08681980515339464, 0.05500000000000001, 0.023180194846605367,
               0.010000000000000002});
  wsd.decline = Decline::root;
  expect(wsd, {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05500000000000001, 0.03636038969321072, 0.022057713659400527,
               0.010000000000000002});
  expect({.peak = 0.1, .decline = Decline::inverseSqrt, .warmup = 4, .steps = 12},
         {0.1, 0.08944271909999159, 0.08164965809277262, 0.07559289460184544, 0.07071067811865475, 0.06666666666666667,
          0.0632455532033676, 0.06030226891555273, 0.05773502691896259});
  expect({.peak = 0.1, .decline = Decline::inverseSqrt, .steps = 12}, {0.1, 0.09999500037496878, 0.09999000149975007});
}

RecipeOptions scheduled(const std::string &schedule, int64_t steps, int64_t warmup = 0) {
  RecipeOptions all;
  all.schedule = schedule;
  all.steps = steps;
  fillDefaults(all, plan::Plan());
  all.warmup = warmup;
  return all;
}

TEST(Schedules, OfWsdTheDecayIsAFifthOrWhatTheWarmUpLeaves) {
  EXPECT_EQ(rateOf(scheduled("wsd", 100, 10), {})->stable, 70);
  EXPECT_EQ(rateOf(scheduled("wsd", 100, 90), {})->stable, 0);
  EXPECT_EQ(rateOf(scheduled("wsd", 3, 0), {})->stable, 2);
  EXPECT_EQ(rateOf(scheduled("wsd", 10, 10), {})->stable, 0);
  RecipeOptions said, all = scheduled("wsd", 100, 10);
  all.decaySteps = said.decaySteps = 90;
  EXPECT_EQ(rateOf(all, said)->stable, 0);
  all.decaySteps = said.decaySteps = 91;
  EXPECT_EQ(rateOf(all, said).status().message(),
            "--decay-steps 91 and --warmup 10 are more than the 100 steps of the run: say fewer, or more --steps");
}

TEST(Schedules, WhatIsNotReadIsAnError) {
  auto refusal = [](const std::string &schedule, auto change) {
    RecipeOptions said, all = scheduled(schedule, 100);
    change(said);
    change(all);
    return rateOf(all, said).status().message();
  };
  auto least = [](RecipeOptions &o) { o.leastRate = 1e-4; };
  auto cycles = [](RecipeOptions &o) { o.cycles = 3; };
  auto steps = [](RecipeOptions &o) { o.decaySteps = 3; };
  auto shape = [](RecipeOptions &o) { o.decayShape = "1-sqrt"; };
  EXPECT_EQ(refusal("constant", least),
            "--min-lr: --lr-schedule constant does not read it: leave it out, or choose linear, cosine, wsd");
  EXPECT_NE(refusal("inverse-sqrt", least), "");
  EXPECT_EQ(refusal("wsd", cycles), "--lr-cycles: --lr-schedule wsd does not read it: leave it out, or choose cosine");
  EXPECT_EQ(refusal("cosine", steps),
            "--decay-steps: --lr-schedule cosine does not read it: leave it out, or choose wsd");
  EXPECT_EQ(refusal("linear", shape),
            "--decay-shape: --lr-schedule linear does not read it: leave it out, or choose wsd");
  for (const char *schedule : {"linear", "cosine", "wsd"})
    EXPECT_EQ(refusal(schedule, least), "") << schedule;
  EXPECT_EQ(refusal("cosine", cycles), "");
  EXPECT_EQ(refusal("wsd", [&](RecipeOptions &o) { steps(o), shape(o); }), "");
  EXPECT_EQ(refusal("square", [](RecipeOptions &) {}), // of a checkpoint, say
            "--lr-schedule square: there are constant, linear, cosine, wsd, inverse-sqrt");
}

TEST(LearningRate, StaysAtTheLeastAfterTheEnd) {
  LearningRate rate{0.1, 0.01, Decline::cosine, 0, 10};
  EXPECT_NEAR(rate.at(11), 0.01, 1e-15);
  EXPECT_NEAR(rate.at(50), 0.01, 1e-15);
}

} // namespace
} // namespace mt::tests
