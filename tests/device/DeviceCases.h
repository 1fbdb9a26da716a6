// The devices that the conformance suite (DeviceTest.cpp) runs on, by name: each test program lists its own.
#ifndef MT_TESTS_DEVICE_DEVICECASES_H
#define MT_TESTS_DEVICE_DEVICECASES_H

#include "runtime/device/Device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

namespace mt::tests {

struct DeviceCase {
  std::string name;
  /// An error: the machine has no such device.
  std::function<Result<std::unique_ptr<device::Device>>(bool poison)> make;
};

const std::vector<DeviceCase> &deviceCases();

/// Whether tests that find no GPU must fail: MT_REQUIRE_CUDA=1, as on machines that have one.
inline bool cudaIsRequired() {
  const char *value = std::getenv("MT_REQUIRE_CUDA");
  return value && std::string_view(value) == "1";
}

/// Skips the test, with the reason, where the result is an error.
#define MT_SKIP_WITHOUT(result)                                                                                        \
  if (const Status mtMissing = (result).status(); !mtMissing.ok()) {                                                   \
    if (::mt::tests::cudaIsRequired())                                                                                 \
      FAIL() << "MT_REQUIRE_CUDA=1, and there is no CUDA device: " << mtMissing.message();                             \
    GTEST_SKIP() << "no CUDA device: " << mtMissing.message();                                                         \
  }                                                                                                                    \
  static_assert(true)

} // namespace mt::tests
#endif
