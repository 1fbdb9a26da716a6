// The executor on the linear plan of tests/plan: the same numbers as plain loops, and the same bits whatever the
// memory, the timing or the disturbance.
#include "runtime/executor/Executor.h"
#include "runtime/host/Generator.h"
#include "tests/plan/LinearPlan.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <bit>
#include <cmath>
#include <fstream>
#include <latch>
#include <random>

namespace mt::executor {
namespace {

using kernels::Scalars;
using plan::ProgramKind;
using tests::Linear;

constexpr float kLearningRate = 0.05f, kMomentum = 0.9f;
constexpr size_t kWeights = Linear::kIn * Linear::kOut;

/// Inputs of a step or batch: x [8, 6], then labels [8, 5].
std::vector<float> rowsOf(bool evaluating, int step) {
  std::mt19937 random(static_cast<uint32_t>(step) + (evaluating ? 1000 : 0));
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> rows(Linear::kBatch * (Linear::kIn + Linear::kOut));
  std::ranges::generate(rows, [&] { return uniform(random); });
  return rows;
}

void fillScalars(double *scalars, int step) {
  std::fill_n(scalars, +Scalars::kCount, 0.0);
  scalars[Scalars::kStep] = step + 1;
  scalars[Scalars::kLearningRate] = kLearningRate;
  scalars[Scalars::kBiasCorrection1] = scalars[Scalars::kBiasCorrection2] = 1;
  scalars[Scalars::kValid] = Linear::kBatch * Linear::kOut;
  scalars[Scalars::kInverseValid] = 1 / scalars[Scalars::kValid];
  scalars[Scalars::kClipThreshold] = INFINITY;
  scalars[Scalars::kClipScale] = 1;
  scalars[Scalars::kMomentum] = kMomentum;
}

/// What a run leaves behind.
struct Outcome {
  std::vector<float> losses, evaluated, weights, momentum;
  std::vector<double> norms;
  std::vector<std::vector<float>> gradients;
  bool operator==(const Outcome &) const = default;
};

/// Drives an executor as a training loop does.
class Loop {
public:
  Loop(bool unified, ExecutorOptions options) : plan(tests::linearPlan(unified)) {
    Callbacks callbacks{[this](std::span<void *const> parts) { return feed(parts); },
                        [this](float loss, std::span<const double> scalars) { return report(loss, scalars); },
                        [this](int64_t parameter, std::span<const float> gradient) {
                          EXPECT_EQ(parameter, 0);
                          outcome.gradients.emplace_back(gradient.begin(), gradient.end());
                        }};
    auto made = Executor::create(plan, std::move(options), std::move(callbacks));
    EXPECT_EQ(made.status().message(), "");
    executor = std::move(*made);
    EXPECT_EQ(executor->loadWeights().message(), "");
  }

  Status steps(int count) {
    for (int i = 0; i < count; ++i)
      MT_TRY(executor->run(ProgramKind::step));
    return {};
  }
  void evaluate() {
    ASSERT_TRUE(executor->drain().ok());
    evaluating = true;
    ASSERT_TRUE(executor->run(ProgramKind::evaluate).ok());
    ASSERT_TRUE(executor->drain().ok());
    evaluating = false;
  }
  Outcome finish() {
    EXPECT_EQ(executor->run(ProgramKind::finish).message(), "");
    EXPECT_EQ(executor->drain().message(), "");
    for (auto *to : {&outcome.weights, &outcome.momentum}) {
      const plan::Span &span = plan.parameters[0].parts[to == &outcome.momentum].span;
      auto *from = reinterpret_cast<const float *>(executor->host(span).data());
      to->assign(from, from + kWeights);
    }
    return outcome;
  }

  plan::Plan plan;
  Outcome outcome;
  std::function<Status(int step)> onReport = [](int) { return Status(); };
  int fed = 0, reported = 0;
  std::atomic<int> underWay = 0, mostUnderWay = 0;
  std::unique_ptr<Executor> executor; ///< released first

private:
  bool evaluating = false;
  int evaluations = 0;

  Status feed(std::span<void *const> parts) {
    EXPECT_EQ(parts.size(), 5u);
    std::vector<float> rows = rowsOf(evaluating, evaluating ? evaluations++ : fed);
    const float *from = rows.data();
    for (size_t i = 0; i < 4; ++i) {
      size_t count = plan.inputs[i / 2].parts[i % 2].bytes / sizeof(float);
      std::copy_n(from, count, static_cast<float *>(parts[i]));
      from += count;
    }
    fillScalars(static_cast<double *>(parts[4]), fed);
    fed += evaluating ? 0 : 1;
    mostUnderWay = std::max(mostUnderWay.load(), ++underWay);
    return {};
  }

  Status report(float loss, std::span<const double> scalars) {
    --underWay;
    (evaluating ? outcome.evaluated : outcome.losses).push_back(loss);
    if (evaluating)
      return {};
    outcome.norms.push_back(scalars[Scalars::kGradientNorm]);
    return onReport(reported++);
  }
};

Outcome train(bool unified, ExecutorOptions options = {}) {
  Loop loop(unified, std::move(options));
  EXPECT_EQ(loop.steps(10).message(), "");
  return loop.finish();
}

/// The same training in plain loops, in double.
struct Plain {
  std::vector<double> weights, momentum = std::vector<double>(kWeights), losses, norms;

  explicit Plain(int steps) {
    std::vector<float> initial(kWeights);
    host::generateNormal(host::generatorKey("weight", 3), 0, 0, 0.5, initial);
    weights.assign(initial.begin(), initial.end());
    for (int i = 0; i < steps; ++i)
      step(rowsOf(false, i));
  }
  void step(const std::vector<float> &rows) {
    const float *x = rows.data(), *target = x + Linear::kBatch * Linear::kIn;
    std::vector<double> gradient(kWeights);
    double loss = 0, squares = 0;
    for (int64_t b = 0; b < Linear::kBatch; ++b)
      for (int64_t o = 0; o < Linear::kOut; ++o) {
        double difference = -target[b * Linear::kOut + o];
        for (int64_t i = 0; i < Linear::kIn; ++i)
          difference += x[b * Linear::kIn + i] * weights[static_cast<size_t>(i * Linear::kOut + o)];
        loss += difference * difference / (Linear::kBatch * Linear::kOut);
        for (int64_t i = 0; i < Linear::kIn; ++i)
          gradient[static_cast<size_t>(i * Linear::kOut + o)] +=
              x[b * Linear::kIn + i] * 2 * difference / (Linear::kBatch * Linear::kOut);
      }
    for (size_t i = 0; i < kWeights; ++i) {
      squares += gradient[i] * gradient[i];
      momentum[i] = kMomentum * momentum[i] + gradient[i];
      weights[i] -= kLearningRate * momentum[i];
    }
    losses.push_back(loss);
    norms.push_back(std::sqrt(squares));
  }
};

TEST(Executor, TrainsAsPlainLoopsDo) {
  Outcome outcome = train(false);
  Plain plain(10);
  ASSERT_EQ(outcome.losses.size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_NEAR(outcome.losses[i], plain.losses[i], 1e-6) << i;
    EXPECT_NEAR(outcome.norms[i], plain.norms[i], 1e-6) << i;
  }
  for (size_t i = 0; i < kWeights; ++i) {
    EXPECT_NEAR(outcome.weights[i], plain.weights[i], 1e-6) << i;
    EXPECT_NEAR(outcome.momentum[i], plain.momentum[i], 1e-6) << i;
  }
  EXPECT_LT(outcome.losses[9], outcome.losses[0]);
  EXPECT_EQ(outcome.gradients.size(), 10u);
}

TEST(Executor, GivesTheSameBitsInEveryMemoryAndTiming) {
  const Outcome expected = train(false);
  EXPECT_EQ(train(true), expected);
  for (bool unified : {false, true}) {
    for (uint64_t seed = 1; seed <= 5; ++seed)
      EXPECT_EQ(train(unified, {.jitterSeed = seed, .poison = seed % 2 == 0}), expected) << "jitter " << seed;
    for (int threads : {1, 2, 4})
      EXPECT_EQ(train(unified, {.threads = threads, .poison = true}), expected) << threads << " threads";
    EXPECT_EQ(train(unified, {.tracePath = testing::TempDir() + "trace.json"}), expected) << "trace";
  }
  EXPECT_EQ(train(false, {.slowCopyBytesPerSecond = 1e6}), expected) << "slow copies";
  EXPECT_EQ(train(false, {.poison = true, .protectHost = true}), expected) << "protected host";
}

TEST(Executor, EvaluatesInBetweenWithoutChangingAnything) {
  const Outcome expected = train(false);
  for (bool unified : {false, true}) {
    Loop loop(unified, {.jitterSeed = 3, .poison = true});
    for (int steps : {1, 4, 5}) {
      ASSERT_TRUE(loop.steps(steps).ok());
      loop.evaluate();
    }
    Outcome outcome = loop.finish();
    ASSERT_EQ(outcome.evaluated.size(), 3u);
    EXPECT_GT(outcome.evaluated[0], 0);
    outcome.evaluated.clear();
    EXPECT_EQ(outcome, expected);
  }
}

TEST(Executor, RunsAheadByTwoIterationsAtMost) {
  Loop loop(false, {});
  std::latch issued(1);
  loop.onReport = [&](int step) {
    if (step == 0)
      issued.wait();
    return Status();
  };
  ASSERT_TRUE(loop.steps(2).ok()); // returns although the first step cannot end
  issued.count_down();
  ASSERT_TRUE(loop.steps(20).ok());
  loop.finish();
  EXPECT_EQ(loop.reported, 22);
  EXPECT_LE(loop.mostUnderWay, 2);
}

TEST(Executor, ReservesWhatThePlanSays) {
  Loop loop(false, {});
  using plan::SpaceKind;
  EXPECT_EQ(loop.executor->reservedBytes(SpaceKind::device), loop.plan.spaces[0].bytes);
  EXPECT_EQ(loop.executor->reservedBytes(SpaceKind::staging), loop.plan.spaces[1].bytes);
  EXPECT_EQ(loop.executor->reservedBytes(SpaceKind::state), loop.plan.spaces[2].bytes);
  EXPECT_TRUE(checkMemory(loop.plan).ok());
}

TEST(Executor, PassesErrorsOfCallbacksOn) {
  Loop loop(true, {});
  loop.onReport = [](int step) { return step == 3 ? fail("the metrics file cannot be written") : Status(); };
  Status status = loop.steps(10);
  if (status.ok())
    status = loop.executor->drain();
  EXPECT_EQ(status.message(), "\"report\": report of node_0: the metrics file cannot be written");
  EXPECT_EQ(loop.executor->run(ProgramKind::step).message(), status.message());
  EXPECT_EQ(loop.executor->drain().message(), status.message());
  EXPECT_EQ(loop.reported, 4);
}

TEST(Executor, StopsAtGradientsThatAreNotFinite) {
  Loop loop(false, {});
  std::span<std::byte> weight = loop.executor->host(loop.plan.parameters[0].parts[0].span);
  reinterpret_cast<float *>(weight.data())[7] = NAN;
  Status status = loop.steps(1);
  if (status.ok())
    status = loop.executor->drain();
  EXPECT_EQ(status.message().find("\"step norm\": step_norm of node_0: "), 0u) << status.message();
  for (size_t i = 8; i < kWeights; ++i)
    EXPECT_TRUE(std::isfinite(reinterpret_cast<float *>(weight.data())[i])); // nothing was updated
}

TEST(Executor, RefusesWhatMakesNoSense) {
  plan::Plan plan = tests::linearPlan(true);
  EXPECT_NE(Executor::create(plan, {.protectHost = true}, {}).status().message().find("unified"), std::string::npos);
  plan.programs.erase(plan.programs.begin() + 1);
  auto executor = Executor::create(plan, {}, {});
  ASSERT_TRUE(executor.ok());
  EXPECT_NE((*executor)->run(ProgramKind::finish).message().find("the plan has no program finish"), std::string::npos);
}

TEST(Trace, ShowsPlannedAndMeasuredSideBySide) {
  std::string path = testing::TempDir() + "trace.json";
  Loop loop(false, {.tracePath = path});
  ASSERT_TRUE(loop.steps(3).ok());
  loop.evaluate();
  loop.finish();
  EXPECT_GT(loop.executor->busySeconds(plan::StreamKind::compute), 0);
  ASSERT_EQ(loop.executor->writeTrace().message(), "");
  nlohmann::json trace = nlohmann::json::parse(std::ifstream(path));
  size_t measured = 0, planned = 0, rows = 0;
  for (const auto &event : trace["traceEvents"]) {
    bool command = event["ph"] == "X";
    measured += command && event["pid"] == 1;
    planned += command && event["pid"] == 2;
    rows += event["name"] == "thread_name";
    if (command && event["name"] == "compute train mb 1") {
      EXPECT_EQ(event["args"]["role"], "compute");
      EXPECT_EQ(event["args"]["layer"], 0);
      EXPECT_EQ(event["args"]["microBatch"], 1);
      EXPECT_GT(event["args"]["bytes"], 0);
    }
  }
  size_t commands = 3 * loop.plan.programs[0].commands.size() + loop.plan.programs[2].commands.size();
  EXPECT_EQ(measured, commands);
  EXPECT_EQ(planned, commands);
  EXPECT_EQ(rows, 2 * loop.plan.streams.size());
}

} // namespace
} // namespace mt::executor
