// GPUs that are described to cuDNN's own library and not there: it says what it can build for them.
#ifndef MT_TESTS_CUDNN_DESCRIBED_H
#define MT_TESTS_CUDNN_DESCRIBED_H

#include "kernels/cuda/Dnn.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace mt::kernels {

/// What cuDNN wants to know of a GPU.
struct Gpu {
  int capability; ///< 10 * major + minor
  int multiprocessors;
  int sharedMemory; ///< bytes that a block can have
  int64_t cache;    ///< bytes of the second level
  std::string text() const {
    return fmt::format(
        R"({{"deviceVer": {}, "driverVer": 13000, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
        "regsPerBlock": 65536, "multiProcessorCount": {}, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "l2CacheSize": {},
        "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": {}, "reservedSharedMemoryPerBlock": 1024,
        "maxRegistersPerSM": 65536, "pciDeviceId": 0, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
        "isTccDriver": 0, "memoryBusWidth": 5120, "oversizedSharedMemoryPerBlock": 0, "smCountOrigin": 0, "supportCoopLaunch": 1, "cudaDeviceId": 0, "totalGlobalMem": 85520809984, "deviceName": "described"}})",
        10 * capability, multiprocessors, cache, sharedMemory);
  }
};

inline const auto kGpus = testing::Values(Gpu{80, 108, 166912, 40 << 20}, Gpu{89, 128, 101376, 72 << 20},
                                          Gpu{90, 132, 232448, 50 << 20}, Gpu{100, 148, 232448, 126 << 20});
inline std::string nameOfGpu(const testing::TestParamInfo<Gpu> &info) {
  return fmt::format("capability{}", info.param.capability);
}

class Described : public testing::TestWithParam<Gpu> {
protected:
  std::unique_ptr<cuda::Dnn> dnn;

  void SetUp() override {
    const std::string folder = MT_CUDNN_FOLDER;
    if (!std::filesystem::exists(folder + "/libcudnn.so.9"))
      GTEST_SKIP() << "skipped: cuDNN's graphs, for its library is not in third_party/cudnn: tools/setup.sh --cudnn";
    cuda::LibraryFolders folders = cuda::LibraryFolders::in(cuda::Surroundings::ofProcess());
    if (folders.named.empty()) // MT_CUDA_LIBRARIES: another version
      folders.named.push_back(folder);
    auto loaded = cuda::Dnn::load(folders);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    dnn = std::move(*loaded);
    ASSERT_EQ(cuda::describeGpu(*dnn, GetParam().capability, GetParam().text()).message(), "");
  }
};

} // namespace mt::kernels
#endif
