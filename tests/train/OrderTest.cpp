// The order of rows, and the learning rate against numbers that the schedulers of PyTorch and transformers gave.
#include "runtime/train/Order.h"
#include "runtime/train/Recipe.h"
#include "runtime/train/RowSplit.h"
#include "runtime/train/Schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
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

std::vector<int64_t> order(const Order &order, int64_t begin, int64_t end) {
  std::vector<int64_t> rows;
  for (int64_t i = begin; i < end; ++i)
    rows.push_back(order.at(i).row);
  return rows;
}

TEST(Order, OfOnePartIsThatOfItsRows) {
  EXPECT_EQ(order(Order(10, true, 3), 0, 50), order(Sampler(10, true, 3), 0, 50));
  const std::vector<int64_t> rows = {10};
  EXPECT_EQ(order(Order(rows, std::vector{7.0}, true, 3), 0, 50), order(Sampler(10, true, 3), 0, 50));
}

/// The part that each of the first positions takes a row of, with the rows in which it does.
std::vector<std::vector<int64_t>>
takenOf(const Order &order, const std::vector<int64_t> &rows, int64_t positions,
        const std::function<void(int64_t, const std::vector<std::vector<int64_t>> &)> &see) {
  std::vector<std::vector<int64_t>> taken(rows.size());
  for (int64_t position = 0; position < positions; ++position) {
    int64_t row = order.at(position).row;
    size_t part = 0;
    for (; row >= rows[part]; ++part)
      row -= rows[part];
    taken[part].push_back(row);
    see(position + 1, taken);
  }
  return taken;
}

TEST(Order, EveryPartHasItsShareOfEveryPrefix) {
  const std::vector<std::pair<std::vector<double>, double>> cases = {{{0.7, 0.3}, 0.5},
                                                                     {{1, 1}, 0.5},
                                                                     {{1, 1e-5}, 0.5},
                                                                     {{3, 1, 2}, 1},
                                                                     {{5, 1, 1, 1}, 1},
                                                                     {{1, 2, 3, 4, 5}, 1.5},
                                                                     {{9, 1, 1, 7, 2, 2, 5, 3}, 1.5},
                                                                     {{1e-300, 1e300, 1e300}, 1}};
  for (const auto &[weights, most] : cases) {
    const std::vector<int64_t> rows(weights.size(), 1000);
    double all = 0;
    for (double weight : weights)
      all += weight;
    takenOf(Order(rows, weights, true, 1), rows, 3000, [&, most = most](int64_t count, const auto &taken) {
      for (size_t part = 0; part < rows.size(); ++part)
        ASSERT_LE(
            std::abs(static_cast<double>(taken[part].size()) - static_cast<double>(count) * (weights[part] / all)),
            most + 1e-5)
            << "part " << part << " of " << rows.size() << " among the first " << count;
    });
  }
}

TEST(Order, PartsKeepTheirOwnEpochs) {
  const std::vector<int64_t> rows = {3, 100, 7};
  const std::vector<double> weights = {1, 2, 1};
  for (bool shuffle : {false, true}) {
    auto taken = takenOf(Order(rows, weights, shuffle, 9), rows, 1000, [](int64_t, const auto &) {});
    for (size_t part = 0; part < rows.size(); ++part)
      for (size_t at = 0; at + static_cast<size_t>(rows[part]) <= taken[part].size();
           at += static_cast<size_t>(rows[part])) {
        std::vector<int64_t> epoch(taken[part].begin() + static_cast<ptrdiff_t>(at),
                                   taken[part].begin() + static_cast<ptrdiff_t>(at) + rows[part]);
        if (shuffle)
          std::ranges::sort(epoch);
        for (int64_t row = 0; row < rows[part]; ++row)
          ASSERT_EQ(epoch[static_cast<size_t>(row)], row) << "part " << part << ", from its row " << at;
      }
  }
}

TEST(Order, PartsOfOneSizeGoInOrdersOfTheirOwn) {
  const std::vector<int64_t> rows = {50, 50};
  auto taken = takenOf(Order(rows, std::vector{1.0, 1.0}, true, 9), rows, 100, [](int64_t, const auto &) {});
  EXPECT_NE(taken[0], taken[1]);
}

TEST(Order, EpochsOfAMixtureHaveAsManyRowsAsThereAre) {
  const std::vector<int64_t> rows = {3, 5};
  const Order mixture(rows, std::vector{9.0, 1.0}, true, 0);
  EXPECT_EQ(mixture.rows(), 8);
  EXPECT_EQ(mixture.epoch(7), 0);
  EXPECT_EQ(mixture.epoch(8), 1);
}

TEST(Order, EpochsOfPartsShiftWindows) {
  const std::vector<int64_t> rows = {3, 100};
  const Order mixture(rows, std::vector{1.0, 1.0}, true, 5);
  std::set<uint64_t> ofFirst;
  for (int64_t position = 0; position < 200; ++position) {
    const RowPlace place = mixture.at(position);
    if (place.row >= 3)
      EXPECT_EQ(place.shift, 0u) << "its first epoch";
    else
      ofFirst.insert(place.shift);
  }
  EXPECT_EQ(ofFirst.size(), 34u) << "an epoch each, the first of which shifts nothing";
  EXPECT_TRUE(ofFirst.contains(0));
  EXPECT_EQ(Order(3, false, 5).at(100).shift, 0u) << "file order is kept";
}

TEST(Order, OfAMixtureIsPinned) {
  const std::vector<int64_t> rows = {4, 3, 5};
  EXPECT_EQ(order(Order(rows, std::vector{2.0, 1.0, 1.0}, true, 0), 0, 12),
            (std::vector<int64_t>{0, 6, 3, 8, 2, 5, 1, 11, 1, 4, 0, 9}));
}

TEST(Order, IsExactFarOut) { // beyond what 64 bits hold of position times share
  const std::vector<int64_t> rows = {10, 10};
  const Order mixture(rows, std::vector{1.0, 2.0}, false, 0);
  const int64_t far = int64_t(1) << 60;
  int64_t first = 0;
  for (int64_t i = 0; i < 300; ++i)
    first += mixture.at(far + i).row < 10 ? 1 : 0;
  EXPECT_EQ(first, 100);
}

std::vector<int64_t> heldBackRows(const RowSplit &split) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < split.heldBack(); ++i)
    rows.push_back(split.heldBackRow(i));
  return rows;
}

TEST(RowSplit, BothKindsAreAllRowsInOrder) {
  for (int64_t count : {2, 3, 7, 10, 64, 1001})
    for (double share : {0.001, 0.1, 0.25, 0.5, 0.6, 0.9, 0.999}) {
      const RowSplit split(count, share, 7);
      EXPECT_EQ(split.heldBack(), std::llround(share * static_cast<double>(count)));
      EXPECT_EQ(split.heldBack() + split.kept(), count);
      if (split.heldBack() == 0 || split.kept() == 0)
        continue;
      const std::vector<int64_t> held = heldBackRows(split);
      std::vector<int64_t> kept;
      for (int64_t row = 0; row < count; ++row) // by another way: what is not held back
        if (!std::ranges::binary_search(held, row))
          kept.push_back(row);
      ASSERT_TRUE(std::ranges::is_sorted(held) && std::set<int64_t>(held.begin(), held.end()).size() == held.size());
      for (size_t i = 0; i < kept.size(); ++i)
        ASSERT_EQ(split.keptRow(static_cast<int64_t>(i)), kept[i]) << count << " rows, " << share;
      for (size_t i = 0; i < held.size() + kept.size(); ++i) {
        const bool isHeld = i < held.size();
        const int64_t index = static_cast<int64_t>(isHeld ? i : i - held.size());
        const int64_t row = isHeld ? held[i] : kept[i - held.size()];
        ASSERT_TRUE(split.isHeldBack(row) == isHeld && split.indexOf(row) == index)
            << row << " of " << count << ", " << share;
      }
    }
}

TEST(RowSplit, IsSpreadEvenlyAndFollowsTheSeed) {
  const std::vector<int64_t> held = heldBackRows(RowSplit(1000, 0.05, 1));
  for (size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ(held[i] / 20, static_cast<int64_t>(i));
  EXPECT_EQ(held, heldBackRows(RowSplit(1000, 0.05, 1)));
  EXPECT_NE(held, heldBackRows(RowSplit(1000, 0.05, 2)));
}

TEST(RowSplit, IsPinned) { // another choice would train a resumed run on what it was evaluated on
  EXPECT_EQ(heldBackRows(RowSplit(40, 0.2, 0)), (std::vector<int64_t>{0, 8, 11, 15, 23, 29, 31, 36}));
}

TEST(RowSplit, OfMoreRowsThanATableCouldHold) {
  const int64_t count = int64_t(1) << 52;
  for (double share : {0.1, 0.7}) {
    const RowSplit split(count, share, 3);
    for (int64_t i : {int64_t(0), int64_t(12345), split.kept() / 3, split.kept() - 1}) {
      const int64_t row = split.keptRow(i);
      EXPECT_FALSE(split.isHeldBack(row));
      EXPECT_EQ(split.indexOf(row), i);
    }
    EXPECT_TRUE(split.isHeldBack(split.heldBackRow(split.heldBack() - 1)));
  }
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
