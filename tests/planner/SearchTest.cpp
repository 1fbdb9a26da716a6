// The search against every vector of decisions of small models, and what it promises.
#include "SmallModel.h"
#include "compiler/planner/Builder.h"
#include "compiler/planner/Search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace mt::planner {
namespace {

Timing timeOf(const Model &model, const Machine &machine, const Decisions &decisions) {
  Schedule schedule = build(model, machine, decisions, false);
  return time(schedule, schedule.step, machine, decisions, true);
}

/// The shortest step of all rungs, places of weights and parked values.
double best(const Model &model, const Machine &machine, const Constraints &constraints) {
  Decisions decisions = leastMemory(model);
  decisions.deviceLimit = constraints.deviceMemory;
  const size_t layers = model.layers.size(), inner = layers - 1;
  double seconds = 1e9;
  size_t rungs = 1;
  for (size_t l = 0; l < inner; ++l)
    rungs *= model.layers[l].rungs.size();
  for (size_t rung = 0; rung < rungs; ++rung)
    for (size_t places = 0; places < static_cast<size_t>(std::pow(3, layers)); ++places)
      for (size_t parked = 0; parked < (size_t(1) << inner); ++parked) {
        size_t left = rung, place = places;
        bool valid = true;
        for (size_t l = 0; l < layers; ++l) {
          decisions.layers[l].kept = place % 3 == 1;
          decisions.layers[l].resident = place % 3 == 2;
          place /= 3;
          if (l < inner) {
            decisions.layers[l].rung = static_cast<int64_t>(left % model.layers[l].rungs.size());
            left /= model.layers[l].rungs.size();
            decisions.parked[l] = parked >> l & 1;
          }
        }
        for (size_t l = 0; l < inner; ++l)
          valid &= !decisions.parked[l] || canPark(model, decisions, static_cast<int64_t>(l));
        if (!valid)
          continue;
        const Timing timing = timeOf(model, machine, decisions);
        if (timing.fits())
          seconds = std::min(seconds, timing.seconds);
      }
  return seconds;
}

TEST(Search, IsNearTheBestOfAllDecisions) {
  const char *wanted = std::getenv("MT_SEARCH_MODELS");
  const int models = wanted ? std::atoi(wanted) : 20;
  std::mt19937 random(11);
  double worst = 1;
  for (int i = 0; i < models; ++i) {
    const Model model = randomModel(random, 3);
    const Machine machine(randomTarget(random));
    Constraints constraints;
    const int64_t least = leastOf(model, machine, {}).decisions.deviceLimit;
    constraints.deviceMemory = least / 16 * std::uniform_int_distribution<int>(17, 48)(random);
    const Found found = search(model, machine, constraints);
    ASSERT_TRUE(found.timing.fits()) << "model " << i;
    const double optimum = best(model, machine, constraints);
    worst = std::max(worst, found.timing.seconds / optimum);
    EXPECT_LE(found.timing.seconds, 1.03 * optimum) << "model " << i;
  }
  std::printf("%d models, at worst %.4f of the best of all decisions\n", models, worst);
}

TEST(Search, MoreMemoryIsNeverSlower) {
  std::mt19937 random(3);
  for (int i = 0; i < 6; ++i) {
    const Model model = randomModel(random, 5);
    const Machine machine(smallTarget());
    const int64_t least = leastOf(model, machine, {}).decisions.deviceLimit;
    double before = 1e9;
    for (int eighths = 9; eighths <= 24; eighths += 3) {
      Constraints constraints;
      constraints.deviceMemory = least / 8 * eighths;
      const double seconds = search(model, machine, constraints).timing.seconds;
      EXPECT_LT(seconds, before * 1.03) << "model " << i << ", " << eighths << " eighths of the least";
      before = std::min(before, seconds);
    }
  }
}

TEST(Search, TakesWhatIsGiven) {
  std::mt19937 random(5);
  const Model model = randomModel(random, 5);
  const Machine machine(smallTarget());
  Constraints constraints;
  constraints.saved = "rung1";
  constraints.kept = true;
  constraints.parked = false;
  const Found found = search(model, machine, constraints);
  for (size_t l = 0; l + 1 < model.layers.size(); ++l) {
    EXPECT_EQ(found.decisions.layers[l].rung, 1);
    EXPECT_TRUE(found.decisions.layers[l].kept);
    EXPECT_FALSE(found.decisions.parked[l]);
  }
  Decisions decisions = leastMemory(model);
  constraints.saved = "rung9";
  EXPECT_FALSE(constrain(model, machine, constraints, decisions).ok());
}

TEST(Search, NeverBeatsItsBound) {
  std::mt19937 random(13);
  for (int i = 0; i < 30; ++i) {
    const Model model = randomModel(random, 5);
    const Machine machine(randomTarget(random));
    Constraints constraints;
    constraints.deviceMemory = std::uniform_int_distribution<int64_t>(1, 400)(random) << 20;
    const Found found = search(model, machine, constraints);
    if (!found.timing.fits())
      continue;
    EXPECT_GE(found.timing.seconds, lowerBound(model, machine, constraints.deviceMemory) * (1 - 1e-6)) << "model " << i;
  }
}

TEST(Search, SaysThatNothingFits) {
  std::mt19937 random(17);
  const Model model = randomModel(random, 4);
  const Machine machine(smallTarget());
  Constraints constraints;
  constraints.deviceMemory = 1000;
  EXPECT_GT(search(model, machine, constraints).timing.missingDevice, 0);
  constraints.deviceMemory = INT64_MAX;
  constraints.hostMemory = 1000;
  EXPECT_GT(search(model, machine, constraints).timing.missingHost, 0);
}

} // namespace
} // namespace mt::planner
