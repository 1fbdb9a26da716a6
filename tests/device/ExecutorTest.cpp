// The executor on the linear plan of tests/plan: the same numbers as plain loops, and the same bits whatever the
// memory, the timing or the disturbance.
#include "runtime/base/Threads.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/executor/Rehearsal.h"
#include "runtime/host/Generator.h"
#include "tests/device/DeviceCases.h"
#include "tests/device/Loop.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <latch>

namespace mt::executor {
namespace {

using kernels::Scalars;
using plan::ProgramKind;
using namespace tests;

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

TEST(Executor, TrainsOnAGpuAsPlainLoopsDo) {
  MT_SKIP_WITHOUT(device::makeDevice("cuda", {}));
  const Outcome outcome = train(false, {.device = "cuda"});
  Plain plain(10);
  ASSERT_EQ(outcome.losses.size(), 10u);
  for (size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(outcome.losses[i], plain.losses[i], 1e-6) << i;
  for (size_t i = 0; i < kWeights; ++i)
    EXPECT_NEAR(outcome.weights[i], plain.weights[i], 1e-6) << i;
  for (uint64_t seed = 1; seed <= 5; ++seed)
    EXPECT_EQ(train(false, {.device = "cuda", .jitterSeed = seed, .poison = seed % 2 == 0}), outcome) << seed;
  EXPECT_EQ(train(false, {.device = "cuda", .tracePath = testing::TempDir() + std::to_string(::getpid()) + "trace.json"}), outcome) << "trace";
  EXPECT_EQ(train(false, {.device = "cuda", .cudaGraphs = true}), outcome) << "graphs";
}

TEST(Executor, RefusesDevicesThatAreNotThere) {
  plan::Plan plan = linearPlan(false);
  for (const char *name : {"abacus", "cpu:1", "cuda:", "cuda:x", "cuda:-1", "cudax", "cuda:1x"})
    EXPECT_NE(Executor::create(plan, {.device = name}, {}).status().message().find("there are cpu, cuda and cuda:N"),
              std::string::npos)
        << name;
  EXPECT_NE(Executor::create(plan, {.cudaGraphs = true}, {}).status().message().find("the CPU has none"),
            std::string::npos);
  std::string message = Executor::create(plan, {.device = "cuda:99"}, {}).status().message();
  EXPECT_EQ(message.find("--device cuda:99: "), 0u) << message; // without CUDA, a driver, or so many GPUs
  EXPECT_EQ(checkMachine(plan, "cuda:99", 1).message(), message);
  EXPECT_NE(checkMachine(linearPlan(true), "cuda", 1).message().find("shares the host's memory"), std::string::npos);
}

TEST(Machine, WhoIssuesWorkToAGpuHasCoresOfItsOwn) {
  EXPECT_EQ(device::issuingCores(1), 0);
  EXPECT_EQ(device::issuingCores(2), 0);
  EXPECT_EQ(device::issuingCores(8), 1);
  EXPECT_EQ(device::issuingCores(16), 2);
  EXPECT_EQ(device::issuingCores(128), 16);
  const int cores = static_cast<int>(coreCount());
  EXPECT_EQ(device::kernelThreads("cpu", 0), cores);
  EXPECT_EQ(device::kernelThreads("cuda:1", 0), cores - device::issuingCores(cores));
  EXPECT_EQ(device::kernelThreads("cuda", cores), cores) << "what the user wants is done";
}

TEST(Executor, RunsPlansForAGpuOnTheCpu) {
  plan::Plan plan = linearPlan(false);
  plan.target = {.name = "h100", .device = "cuda", .unified = false};
  EXPECT_TRUE(checkMachine(plan, "cpu", 1).ok());
  EXPECT_TRUE(Executor::create(plan, {.device = "cpu"}, {}).ok());
}

TEST(Executor, GivesTheSameBitsInEveryMemoryAndTiming) {
  const Outcome expected = train(false);
  EXPECT_EQ(train(true), expected);
  for (bool unified : {false, true}) {
    for (uint64_t seed = 1; seed <= 5; ++seed)
      EXPECT_EQ(train(unified, {.jitterSeed = seed, .poison = seed % 2 == 0}), expected) << "jitter " << seed;
    for (int threads : {1, 2, 4})
      EXPECT_EQ(train(unified, {.threads = threads, .poison = true}), expected) << threads << " threads";
    EXPECT_EQ(train(unified, {.tracePath = testing::TempDir() + std::to_string(::getpid()) + "trace.json"}), expected) << "trace";
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
  EXPECT_TRUE(checkMachine(loop.plan, "", 1).ok());
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
  plan::Plan plan = linearPlan(true);
  EXPECT_NE(Executor::create(plan, {.protectHost = true}, {}).status().message().find("unified"), std::string::npos);
  plan.programs.erase(plan.programs.begin() + 1);
  auto executor = Executor::create(plan, {}, {});
  ASSERT_TRUE(executor.ok());
  EXPECT_NE((*executor)->run(ProgramKind::finish).message().find("the plan has no program finish"), std::string::npos);
}

/// No command is shorter than predicted, and each comes after what it awaits; the host's bytes are never asked for.
TEST(Rehearsal, TakesThePredictedTimeOfEveryCommand) {
  plan::Plan plan = linearPlan(false);
  for (plan::Program &program : plan.programs)
    for (plan::Command &command : program.commands)
      command.predictedSeconds = 1e-4;
  const std::string path = testing::TempDir() + std::to_string(::getpid()) + "rehearsal.json";
  auto took = rehearse(plan, 3, path);
  ASSERT_EQ(took.status().message(), "");
  const std::vector<plan::Command> &commands = plan.program(ProgramKind::step)->commands;
  EXPECT_EQ(took->commands, commands.size());
  nlohmann::json trace = nlohmann::json::parse(std::ifstream(path));
  size_t seen = 0;
  for (const auto &event : trace["traceEvents"])
    if (event["ph"] == "X" && event["pid"] == 1) {
      EXPECT_GE(event["dur"].get<double>(), 100 - 1e-3) << event;
      ++seen;
    }
  EXPECT_EQ(seen, commands.size() * (2 + 2 + 3));
  plan.programs.clear();
  EXPECT_NE(rehearse(plan, 1, "").status().message().find("the plan has no step"), std::string::npos);
}

TEST(Trace, ShowsPlannedAndMeasuredSideBySide) {
  std::string path = testing::TempDir() + std::to_string(::getpid()) + "trace.json";
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
  for (const char *share : {"computeBusy", "copiesHidden", "updatesHidden"}) {
    EXPECT_GE(trace["otherData"][share], 0) << share;
    EXPECT_LE(trace["otherData"][share], 1) << share;
  }
  for (const char *seconds : {"seconds", "copySeconds", "updateSeconds"})
    EXPECT_GT(trace["otherData"][seconds], 0) << seconds;
}

} // namespace
} // namespace mt::executor
