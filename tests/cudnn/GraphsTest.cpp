// cuDNN's own library on the graphs of attention, for GPUs that are described and not there: each that would be chosen
// builds, within the scratch that the catalogue allots, but for those that are known to go by blocks. The driver is a
// stub (StubDriver.c); nothing runs.
#include "kernels/cuda/Dnn.h"
#include "kernels/cuda/GraphAttention.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace mt::kernels {
namespace {

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

enum class Mask : uint8_t { full, causal, window };

struct Shape {
  int64_t batch, length, heads, groups, width;
  Mask mask = Mask::causal;
  std::string text() const {
    const char *const names[] = {"full", "causal", "window"};
    return fmt::format("{} x {}, {} heads of {} in {} groups, {}", batch, length, heads, width, groups,
                       names[static_cast<size_t>(mask)]);
  }
};

Signature callOf(const Shape &shape, bool gradient) {
  Attributes attributes{{"scale", 0.1}};
  if (shape.mask != Mask::full)
    attributes["minDistance"] = int64_t{0};
  if (shape.mask == Mask::window)
    attributes["maxDistance"] = int64_t{127};
  auto operand = [](Dims dims, Effect effect = Effect::read, DType type = DType::bf16) {
    return OperandType{type, std::move(dims), effect, true};
  };
  const OperandType none{DType::f32, {}, Effect::read, false};
  const Dims query{shape.batch, shape.length, shape.heads, shape.width},
      key{shape.batch, shape.length, shape.groups, shape.width}, statistic{shape.batch, shape.heads, shape.length};
  if (!gradient)
    return {"attention",
            attributes,
            {operand(query), operand(key), operand(key), none, none, none, none, operand(query, Effect::write),
             operand(statistic, Effect::write, DType::f32)}};
  return {"attention_grad",
          attributes,
          {operand(query),
           operand(query),
           operand(key),
           operand(key),
           none,
           none,
           none,
           none,
           operand(query),
           operand(statistic, Effect::read, DType::f32),
           operand(query, Effect::write),
           operand(key, Effect::write),
           operand(key, Effect::write),
           {DType::f32, {}, Effect::write, false}}};
}

/// Models' shapes: of tests, of benches, and a table of what users have. MT_CUDNN_ALL=1: all of the table.
std::vector<Shape> shapes() {
  std::vector<Shape> list = {{4, 32, 4, 4, 16},      {4, 32, 4, 2, 16}, // the reference cases
                             {8, 1024, 32, 8, 64},   {8, 1024, 24, 8, 128},
                             {8, 1024, 32, 32, 128},                                      // the benches' 1 B, 3 B, 7 B
                             {1, 16384, 32, 8, 128}, {1, 24576, 8, 8, 64, Mask::window}}; // long ones, cut into parts

  const bool all = std::getenv("MT_CUDNN_ALL") != nullptr;
  for (int64_t width : {64, 96, 128, 256})
    for (int64_t groups : {8, 32})
      for (Mask mask : {Mask::full, Mask::causal, Mask::window})
        for (int64_t length : {200, 1024, 4096, 32768})
          if (all ||
              (groups == 8 && (mask == Mask::causal ? length == 200 || length == 4096 : width == 128 && length == 200)))
            list.push_back({1, length, 32, groups, width, mask});
  if (all)
    list.push_back({1, 131072, 32, 8, 128});
  return list;
}

class Graphs : public testing::TestWithParam<Gpu> {};

TEST_P(Graphs, BuildWithinTheirScratch) {
  const std::string folder = MT_CUDNN_FOLDER;
  if (!std::filesystem::exists(folder + "/libcudnn.so.9"))
    GTEST_SKIP() << "skipped: cuDNN's graphs, for its library is not in third_party/cudnn: tools/setup.sh --cudnn";
  cuda::LibraryFolders folders = cuda::LibraryFolders::in(cuda::Surroundings::ofProcess());
  if (folders.named.empty()) // MT_CUDA_LIBRARIES: another version
    folders.named.push_back(folder);
  auto dnn = cuda::Dnn::load(folders);
  ASSERT_TRUE(dnn.ok()) << dnn.status().message();
  ASSERT_EQ(cuda::describeGpu(**dnn, GetParam().capability, GetParam().text()).message(), "");
  int built = 0, byBlocks = 0, whole = 0;
  for (const Shape &shape : shapes())
    for (bool gradient : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", shape.text(), gradient ? ", gradient" : ""));
      const Signature call = callOf(shape, gradient);
      ASSERT_EQ(check(call), "");
      const FusedAttention fused = FusedAttention::of(call);
      ASSERT_EQ(fused.refusal, "");
      bool narrower = false; // than cuDNN's heads may be on this GPU, which goes by blocks, with this remark
      for (const cuda::GraphPart &part : cuda::graphParts(call, fused)) {
        const Result<uint64_t> workspace = cuda::graphWorkspace(part.graph, fused.library, **dnn);
        const bool wide =
            GetParam().capability == 90 || (GetParam().capability == 100 && (*dnn)->call.cudnnGetVersion() >= 92300);
        if (gradient && shape.width > 128 && !wide) {
          EXPECT_NE(workspace.status().message().find("hidden_dim should be less than or equal to 128"),
                    std::string::npos)
              << workspace.status().message();
          narrower = true;
          break;
        }
        ASSERT_TRUE(workspace.ok()) << part.graph.text() << ": " << workspace.status().message();
        EXPECT_LE(*workspace, fused.library);
        ++built;
      }
      byBlocks += narrower;
      if (!fused.sums() || narrower)
        continue;
      // Where sums in a fixed order need no room for all pairs, the call is not cut.
      const FusedAttention linear = FusedAttention::linear(call, fused);
      const Result<uint64_t> workspace =
          cuda::graphWorkspace(cuda::graphParts(call, linear).front().graph, linear.library, **dnn);
      EXPECT_EQ(workspace.ok(), GetParam().capability == 100 ||
                                    (GetParam().capability == 90 && (*dnn)->call.cudnnGetVersion() >= 92500))
          << workspace.status().message();
      whole += workspace.ok();
    }
  std::printf(
      "compute capability %d: %d graphs built by cuDNN %zu, %d long gradients in one graph, %d calls go by blocks\n",
      GetParam().capability, built, (*dnn)->call.cudnnGetVersion(), whole, byBlocks);
  EXPECT_GT(built, byBlocks);
}

INSTANTIATE_TEST_SUITE_P(Described, Graphs,
                         testing::Values(Gpu{80, 108, 166912, 40 << 20}, Gpu{89, 128, 101376, 72 << 20},
                                         Gpu{90, 132, 232448, 50 << 20}, Gpu{100, 148, 232448, 126 << 20}),
                         [](const auto &info) { return fmt::format("capability{}", info.param.capability); });

} // namespace
} // namespace mt::kernels
