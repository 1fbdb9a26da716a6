// A GPU as a device. Streams of the GPU become CUDA streams, host streams worker threads that run the CPU's kernels;
// a device space is one cudaMalloc of exactly its bytes, staging is registered with the GPU, state is ordinary memory.
// Runs discrete plans, on as many GPUs as they have. No device or pinned memory, stream, event or algorithm is made
// while commands are issued, but for the capture of graphs where that is asked for.
//
// Every stream has an issuing thread, also those of the GPU, where a task only enqueues: a wait for a host stream's
// event is then a wait of that thread, and no flag that the GPU polls can hang it when a run stops.
#ifndef MT_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
#define MT_RUNTIME_DEVICE_CUDA_CUDADEVICE_H

#include "runtime/device/Device.h"
#include "runtime/device/common/HostScratch.h"
#include "runtime/device/cuda/Driver.h"

#include <memory>
#include <optional>
#include <vector>

namespace mt::network {
class Network;
}

namespace mt::device {

struct CudaOptions {
  int threads = 0;      ///< of the pool of the host streams' kernels; 0: the machine's cores
  HostScratch scratch = {}; ///< of the plan's host streams; not counted: threads allocate what they take
  bool measure = false; ///< keep the times of commands
  bool measureCalls = false; ///< and add up those of kernel calls; with `measure`, without `graphs`
  /// Captures the launches of a template call at its first run and replays them where template, addresses and effects
  /// are the same. Off: on no machine has it been measured to be faster.
  bool graphs = false;
  std::optional<uint64_t> jitterSeed = std::nullopt; ///< for tests: random delays before commands are issued
  /// For tests: NaN into all spaces at the start; into what a run binds as fresh, and into its workspace, before it
  /// runs.
  bool poison = false;
  /// Commands of one stream, and launches of them together, that may be on the GPU before issuing another waits for the
  /// oldest. The driver's queue holds about a thousand launches, and a call of the driver that finds it full holds back
  /// those of all threads. A call may be hundreds of launches.
  size_t window = 64, mostLaunches = 512;
  /// Bytes of staging that are registered at once, whole pages. Drivers fail at 512 GiB: what they note of each page
  /// must fit into 2 GiB.
  uint64_t registerBytes = uint64_t{64} << 30;
  std::string stateFolder = {}; ///< of files
  network::Network *network = nullptr; ///< of several ranks, whose GPUs may exchange, too
};

/// `drivers` are the GPUs that openDriver() gave, or a test's, in the order of the plan's devices; `driver` is the only one.
std::unique_ptr<Device> makeCudaDevice(CudaOptions options, std::vector<std::unique_ptr<Driver>> drivers);
std::unique_ptr<Device> makeCudaDevice(CudaOptions options, std::unique_ptr<Driver> driver);

/// Of the free memory of a GPU, with the vendor's libraries opened, what a plan may have.
uint64_t memoryForPlan(DeviceMemory memory);
/// Whether that holds the device spaces. The error names the bytes needed, those there, and the remedy.
Status checkGpuMemory(std::string_view gpu, std::span<const plan::Space> spaces, DeviceMemory memory);

} // namespace mt::device
#endif
