// A training loop in small, on the linear plan of tests/plan: what executors are driven by, and what comes out.
#ifndef MT_TESTS_DEVICE_LOOP_H
#define MT_TESTS_DEVICE_LOOP_H

#include "runtime/device/Device.h"
#include "runtime/executor/Executor.h"
#include "tests/plan/LinearPlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>

namespace mt::tests {

using kernels::Scalars;
using plan::ProgramKind;

inline constexpr float kLearningRate = 0.05f, kMomentum = 0.9f;
inline constexpr size_t kWeights = Linear::kIn * Linear::kOut;

/// Inputs of a step or batch: x [8, 6], then labels [8, 5].
inline std::vector<float> rowsOf(bool evaluating, int step) {
  std::mt19937 random(static_cast<uint32_t>(step) + (evaluating ? 1000 : 0));
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> rows(Linear::kBatch * (Linear::kIn + Linear::kOut));
  std::ranges::generate(rows, [&] { return uniform(random); });
  return rows;
}

inline void fillScalars(double *scalars, int step) {
  std::fill_n(scalars, +Scalars::kCount, 0.0);
  scalars[Scalars::kStep] = step + 1;
  scalars[Scalars::kLearningRate] = kLearningRate;
  scalars[Scalars::kBiasCorrection1] = scalars[Scalars::kBiasCorrection2] = 1;
  scalars[Scalars::kInverseValid] = 1.0 / (Linear::kBatch * Linear::kOut);
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
  /// `device`: one that the test made; else the options say which.
  Loop(bool unified, executor::ExecutorOptions options, std::unique_ptr<device::Device> device = nullptr)
      : plan(linearPlan(unified)) {
    using executor::Callbacks, executor::Executor;
    Callbacks callbacks{
        [this](std::span<void *const> parts) { return feed(parts); },
        [this](float loss, std::span<const double> scalars, std::span<const float>) { return report(loss, scalars); },
        [this](int64_t parameter, int64_t first, std::span<const float> gradient) {
          EXPECT_EQ(parameter, 0);
          EXPECT_EQ(first, 0);
          outcome.gradients.emplace_back(gradient.begin(), gradient.end());
        }};
    auto made = device ? Executor::create(plan, std::move(device), std::move(options), std::move(callbacks))
                       : Executor::create(plan, std::move(options), std::move(callbacks));
    EXPECT_EQ(made.status().message(), "");
    executor = std::move(*made);
    EXPECT_EQ(executor->loadWeights().status().message(), "");
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
  std::unique_ptr<executor::Executor> executor; ///< released first

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
    for (int row = 0; row < 2; ++row) // of the step, and of the parameter
      fillScalars(static_cast<double *>(parts[4]) + row * Scalars::kCount, fed);
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

} // namespace mt::tests
#endif
