// The executor on the CUDA device with the simulated driver: the CPU's kernels stand in for the GPU's, so the bits must
// be those of the CPU device, whatever the timing, the window, poison, tracing or graphs. No GPU is involved.
#include "runtime/device/cuda/CudaDevice.h"
#include "tests/device/Loop.h"
#include "tests/device/SimulatedDriver.h"

#include <gtest/gtest.h>

namespace mt::tests {
namespace {

Outcome train(std::unique_ptr<device::Device> device, executor::ExecutorOptions options = {}) {
  Loop loop(false, std::move(options), std::move(device));
  EXPECT_EQ(loop.steps(10).message(), "");
  return loop.finish();
}

TEST(SimulatedGpu, GivesTheBitsOfTheCpuInEveryTiming) {
  const Outcome expected = train(nullptr);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Simulation simulation;
    if (seed % 4 == 3)
      simulation.failAt("registerHost");
    device::CudaOptions options{.threads = 2,
                                .measure = seed % 2 == 1,
                                .graphs = seed % 3 == 0,
                                .poison = seed % 2 == 0,
                                .window = seed % 2 == 0 ? 2U : 64U,
                                .mostLaunches = seed % 4 < 2 ? 1U : 256U,
                                .registerBytes = seed < 4 ? 96U : 1U << 20};
    if (seed > 0)
      options.jitterSeed = seed;
    EXPECT_EQ(train(device::makeCudaDevice(options, simulatedDriver(simulation))), expected) << seed;
    EXPECT_EQ(simulation.alive, 0) << seed;
  }
}

TEST(SimulatedGpu, AFaultInTheStepUpdatesNothing) {
  Simulation simulation;
  simulation.kernels["squared_error_grad"] = [](const kernels::cuda::Launch &launch) {
    *launch.fault = static_cast<uint32_t>(kernels::cuda::Fault::labelOutOfRange);
  };
  Loop loop(false, {}, device::makeCudaDevice({.threads = 1}, simulatedDriver(simulation)));
  const plan::Span &span = loop.plan.parameters[0].parts[0].span;
  auto bytes = [&] {
    std::span<std::byte> now = loop.executor->host(span);
    return std::vector<std::byte>(now.begin(), now.end());
  };
  const std::vector<std::byte> before = bytes();
  Status status = loop.steps(3);
  if (status.ok())
    status = loop.executor->drain();
  EXPECT_EQ(status.message().find("\"compute train mb 0\": squared_error_grad of "), 0u) << status.message();
  EXPECT_EQ(loop.executor->drain().message(), status.message());
  EXPECT_EQ(bytes(), before);
}

} // namespace
} // namespace mt::tests
