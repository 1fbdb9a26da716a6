// The CUDA device on the simulated driver: its host side only, no kernel of a GPU.
#include "runtime/device/cuda/CudaDevice.h"
#include "tests/device/DeviceCases.h"
#include "tests/device/SimulatedDriver.h"

#include <gtest/gtest.h>

namespace mt::tests {

void simulationFailed(const std::string &what) { ADD_FAILURE() << what; }

namespace {

Result<std::unique_ptr<device::Device>> make(device::CudaOptions options) {
  static Simulation simulation;
  options.threads = 2;
  return device::makeCudaDevice(options, simulatedDriver(simulation));
}

} // namespace

const std::vector<DeviceCase> &deviceCases() {
  static const std::vector<DeviceCase> cases = {
      {"simulatedGpu", [](bool poison) { return make({.poison = poison}); }},
      {"simulatedGpuJitter", [](bool poison) { return make({.jitterSeed = 5, .poison = poison}); }},
      {"simulatedGpuSmallWindow", [](bool poison) { return make({.jitterSeed = 6, .poison = poison, .window = 2}); }},
      {"simulatedGpuGraphs", [](bool poison) { return make({.graphs = true, .poison = poison}); }},
  };
  return cases;
}

} // namespace mt::tests
