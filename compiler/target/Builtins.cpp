// Peak numbers are the vendors'; what a plan can count on is a share of them, the same for all devices of a kind:
//   matrix rates     0.70 of the dense tensor-core peak (bf16 operands, fp32 sums) on data-centre devices, 0.80 on
//                    desktop boards, whose peaks are lower against their bandwidth; 0.80 of the plain fp32 peak
//                    (no TF32)
//   device memory    0.90 of peak bandwidth; size less about 2 % that the driver, the context and libraries take
//   link             PCIe 5.0 x16 carries 55, PCIe 4.0 x16 25 GB/s of payload each way from pinned memory, of 63 and
//                    31.5 after line coding
//   between devices  0.85 of the peak of their links, each way
//   host memory      0.75 of the peak of the sockets next to the devices; copies to and from devices take their part of
//   it, and
//                    from each other where all of them want more than there is
// `mtrun probe` measures a machine; its file is better than any of these.
#include "compiler/target/Builtins.h"

#include "runtime/base/ControlGroups.h"

#include <fmt/format.h>

#include <algorithm>
#include <unistd.h>

namespace mt::target {
namespace {

constexpr uint64_t kGiB = uint64_t(1) << 30;
constexpr double kGB = 1e9, kTB = 1e12, kTflops = 1e12, kGflops = 1e9;
constexpr double kPcie5 = 55 * kGB, kPcie4 = 25 * kGB;
// Between all devices of a board, each way (data sheets: 900 and 600 GB/s both ways together).
constexpr const char *kNvlink4 = "all 382e9", *kNvlink3 = "all 255e9";

/// Seven eighths of what this machine, or the container, may use: the rest is the system's.
uint64_t machineMemory() {
  const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  uint64_t memory = pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) : 8 * kGiB;
  for (const ControlGroup &group : controlGroups("memory"))
    memory = std::min(memory, numberIn(memoryLimitFile(group)).value_or(memory));
  return memory / 8 * 7;
}

/// A processor of two to four cores with AVX-512 or AVX2: oneDNN reaches 200 to 450 Gflop/s in fp32 products there;
/// bf16 products are computed in fp32. One or two channels of DDR4 or DDR5.
Target cpu(uint64_t memory) {
  return {.name = "cpu",
          .device = "cpu",
          .unified = true,
          .deviceMemory = memory,
          .hostMemory = memory,
          .uploadBandwidth = 10 * kGB,
          .downloadBandwidth = 10 * kGB,
          .hostBandwidth = 20 * kGB,
          .deviceBandwidth = 20 * kGB,
          .fp32Flops = 300 * kGflops,
          .bf16Flops = 300 * kGflops,
          .kernelOverheadSeconds = 5e-6,
          .copyOverheadSeconds = 5e-6,
          .contention = {}};
}

/// The same processor behind a separate arena: for tests and experiments with small budgets. Both memories are parts
/// of one, so a quarter is the device's. That copies and updates take cores from computing is left to `mtrun probe`.
Target cpuDiscrete(uint64_t memory) {
  Target target = cpu(memory);
  target.name = "cpu-discrete";
  target.unified = false;
  target.deviceMemory = memory / 4;
  target.hostMemory = memory - target.deviceMemory;
  return target;
}

/// CUDA devices of a machine: peaks as the vendor states them.
struct Card {
  std::string name;
  uint64_t deviceMemory, hostMemory;
  double link, hostPeak, memoryPeak, fp32Peak, bf16Peak;
  double matrixShare;
  uint32_t devices = 1;
  std::vector<std::string> peers = {};
};
Target cuda(const Card &card) {
  const double hostBandwidth = 0.75 * card.hostPeak;
  std::vector<std::string> contention = {fmt::format("upload host {:.3g}", card.link / card.hostPeak),
                                         fmt::format("download host {:.3g}", card.link / card.hostPeak)};
  Target target = {.name = card.name,
                   .device = "cuda",
                   .unified = false,
                   .devices = card.devices,
                   .deviceMemory = card.deviceMemory,
                   .hostMemory = card.hostMemory,
                   .uploadBandwidth = card.link,
                   .downloadBandwidth = card.link,
                   .hostBandwidth = hostBandwidth,
                   .deviceBandwidth = 0.90 * card.memoryPeak,
                   .fp32Flops = 0.80 * card.fp32Peak,
                   .bf16Flops = card.matrixShare * card.bf16Peak,
                   .kernelOverheadSeconds = 4e-6,
                   .copyOverheadSeconds = 8e-6,
                   .peers = card.peers,
                   .contention = std::move(contention)};
  shareHostMemory(target);
  return target;
}

} // namespace

std::vector<Target> builtinTargets() {
  const uint64_t memory = machineMemory();
  return {
      cpu(memory),
      cpuDiscrete(memory),
      // NVIDIA H200 SXM data sheet: 141 GB, 4.8 TB/s, 67 and 989 (dense) Tflop/s. Host: eight channels of DDR5-4800.
      cuda({"h200",
            138 * kGiB,
            1536 * kGiB,
            kPcie5,
            307 * kGB,
            4.8 * kTB,
            67 * kTflops,
            989 * kTflops,
            0.70,
            1,
            {kNvlink4}}),
      // NVIDIA H100 SXM data sheet: 80 GB, 3.35 TB/s, 67 and 989 (dense) Tflop/s. Host as above.
      cuda({"h100",
            78 * kGiB,
            1024 * kGiB,
            kPcie5,
            307 * kGB,
            3.35 * kTB,
            67 * kTflops,
            989 * kTflops,
            0.70,
            1,
            {kNvlink4}}),
      // NVIDIA DGX H100 and H200 user guides: eight of either, all linked to all, 2 TB; two sockets as above.
      cuda({"dgx-h100",
            78 * kGiB,
            1900 * kGiB,
            kPcie5,
            614 * kGB,
            3.35 * kTB,
            67 * kTflops,
            989 * kTflops,
            0.70,
            8,
            {kNvlink4}}),
      cuda({"dgx-h200",
            138 * kGiB,
            1900 * kGiB,
            kPcie5,
            614 * kGB,
            4.8 * kTB,
            67 * kTflops,
            989 * kTflops,
            0.70,
            8,
            {kNvlink4}}),
      // NVIDIA A100 80GB SXM data sheet: 2.039 TB/s, 19.5 and 312 Tflop/s. Host: eight channels of DDR4-3200.
      cuda({"a100-80gb",
            78 * kGiB,
            1024 * kGiB,
            kPcie4,
            204 * kGB,
            2.039 * kTB,
            19.5 * kTflops,
            312 * kTflops,
            0.70,
            1,
            {kNvlink3}}),
      // NVIDIA Ada architecture white paper, RTX 4090: 24 GB, 1.008 TB/s, 82.6 and 165.2 Tflop/s. Host: two channels
      // of DDR5-5600.
      cuda({"rtx-4090", 23 * kGiB, 120 * kGiB, kPcie4, 89 * kGB, 1.008 * kTB, 82.6 * kTflops, 165.2 * kTflops, 0.80}),
      // Eight of them in a server without links between them, which the driver does not let copy to each other either;
      // eight channels of DDR4-3200.
      cuda({"8x-rtx-4090", 23 * kGiB, 480 * kGiB, kPcie4, 204 * kGB, 1.008 * kTB, 82.6 * kTflops, 165.2 * kTflops, 0.80,
            8}),
      // NVIDIA Ampere GA102 white paper, RTX 3090: 24 GB, 0.936 TB/s, 35.6 and 71 Tflop/s. Host: two channels of
      // DDR4-3200.
      cuda({"rtx-3090", 23 * kGiB, 120 * kGiB, kPcie4, 51 * kGB, 0.936 * kTB, 35.6 * kTflops, 71 * kTflops, 0.80}),
      // Four of them, linked in pairs by bridges (the same paper: 112.5 GB/s both ways together); eight channels of
      // DDR4-3200.
      cuda({"4x-rtx-3090",
            23 * kGiB,
            240 * kGiB,
            kPcie4,
            204 * kGB,
            0.936 * kTB,
            35.6 * kTflops,
            71 * kTflops,
            0.80,
            4,
            {"0 1 48e9", "2 3 48e9"}}),
      // The same paper, RTX 3080: 10 GB, 0.760 TB/s, 29.8 and 59.5 Tflop/s.
      cuda({"rtx-3080", 9 * kGiB, 60 * kGiB, kPcie4, 51 * kGB, 0.760 * kTB, 29.8 * kTflops, 59.5 * kTflops, 0.80}),
  };
}

} // namespace mt::target
