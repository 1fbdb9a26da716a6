// The devices that the conformance suite (DeviceTest.cpp) runs on, by name: each test program lists its own.
#ifndef MT_TESTS_DEVICE_DEVICECASES_H
#define MT_TESTS_DEVICE_DEVICECASES_H

#include "runtime/device/Device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <ostream>
#include <vector>

namespace mt::tests {

struct DeviceCase {
  std::string name;
  /// An error: the machine has no such device.
  std::function<Result<std::unique_ptr<device::Device>>(bool poison)> make;
};

inline void PrintTo(const DeviceCase &one, std::ostream *out) { *out << one.name; }

const std::vector<DeviceCase> &deviceCases();

/// Whether tests that find no GPU to use must fail: MT_REQUIRE_CUDA=1 says so, 0 that they need not; else where the
/// system has an NVIDIA driver, and this build has CUDA.
inline bool cudaIsRequired() {
  if (const char *value = std::getenv("MT_REQUIRE_CUDA"))
    return std::string_view(value) == "1";
#ifdef MT_HAS_CUDA
  return ::access("/dev/nvidiactl", F_OK) == 0;
#else
  return false;
#endif
}

/// Skips the test, with the reason, where the result is an error.
#define MT_SKIP_WITHOUT(result)                                                                                        \
  if (const Status mtMissing = (result).status(); !mtMissing.ok()) {                                                   \
    if (::mt::tests::cudaIsRequired())                                                                                 \
      FAIL() << "a GPU is required here, and there is no CUDA device: " << mtMissing.message();                        \
    GTEST_SKIP() << "no CUDA device: " << mtMissing.message();                                                         \
  }                                                                                                                    \
  static_assert(true)

} // namespace mt::tests
#endif
