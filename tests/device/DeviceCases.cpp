#include "tests/device/DeviceCases.h"

#include "runtime/device/MakeDevice.h"

namespace mt::tests {

const std::vector<DeviceCase> &deviceCases() {
  static const std::vector<DeviceCase> cases = {
      {"cpu", [](bool poison) { return device::makeDevice("cpu", {.threads = 2, .poison = poison}); }},
      {"cpuJitter",
       [](bool poison) { return device::makeDevice("cpu", {.threads = 2, .jitterSeed = 5, .poison = poison}); }},
      {"cuda", [](bool poison) { return device::makeDevice("cuda", {.threads = 2, .poison = poison}); }},
      {"cudaJitter",
       [](bool poison) { return device::makeDevice("cuda", {.threads = 2, .jitterSeed = 5, .poison = poison}); }},
      {"cudaGraphs",
       [](bool poison) { return device::makeDevice("cuda", {.threads = 2, .poison = poison, .graphs = true}); }},
  };
  return cases;
}

} // namespace mt::tests
