// Which device a run uses, by the name that people give it: "cpu", "cuda" or "cuda:N". The one place that knows all
// devices, and which of them this build has. Above runtime/device/{cpu,cuda}, below the executor.
#ifndef MT_RUNTIME_DEVICE_MAKEDEVICE_H
#define MT_RUNTIME_DEVICE_MAKEDEVICE_H

#include "runtime/device/Device.h"
#include "runtime/device/common/HostScratch.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mt::network {
class Network;
}

namespace mt::device {

/// What devices are told; see CpuOptions and CudaOptions. Slow copies and protection are the CPU's alone,
/// graphs a GPU's.
struct DeviceOptions {
  int threads = 0;
  HostScratch scratch = {};
  bool measure = false, measureCalls = false;
  std::optional<uint64_t> jitterSeed = std::nullopt;
  bool poison = false;
  double slowCopyBytesPerSecond = 0;
  bool protectHost = false;
  bool graphs = false;
  std::string stateFolder = {};
  network::Network *network = nullptr; ///< of several ranks
  uint32_t devices = 1; ///< GPUs, where the name does not list them: the first ones
};

/// Errors: a name that means no device, a GPU that is not there or cannot be used, a build without CUDA, options that
/// the device does not have. Each names the remedy.
Result<std::unique_ptr<Device>> makeDevice(const std::string &name, const DeviceOptions &options);

/// Cores of a machine that are left to the threads that issue work to a GPU: two of sixteen, one of few, none of two.
constexpr int issuingCores(int cores) { return cores <= 2 ? 0 : cores < 16 ? 1 : cores / 8; }

/// Threads of the kernels on the host: as many as are wanted, or for 0 the machine's cores, of which a GPU's issuing
/// threads keep an eighth: updates would starve them, and with them the GPU.
int kernelThreads(const std::string &name, int wanted);

/// What the kernels of the host take beside the plan's spaces, on a pool of `threads` (0: the machine's cores).
Result<HostScratch> scratchOf(const std::string &name, const plan::Plan &plan, int threads);

/// Whether the name means a device that is there and can run the plan, and the machine has the memory for it. Reserves
/// nothing. `processes` of the plan share that memory. Errors name the remedy, and of memory the bytes needed and those
/// there.
Status checkMachine(const std::string &name, const plan::Plan &plan, int threads, uint32_t processes = 1);

/// Bytes that a device of that name could reserve now: of a GPU what it has free with the vendor's libraries opened,
/// less what is kept for kernels; else the machine's.
Result<uint64_t> availableMemory(const std::string &name);

/// What results depend on in their last bits, beside the plan: the processor's vector instructions, and the kind of GPU
/// where one takes part.
Result<std::string> processorsOf(const std::string &name);

/// Holds the kernels of the host to the instruction set (kernels/InstructionSets.h) that a run names, else to that of
/// the plan's target: where the machine lacks this, a warning says so, and kernels use the best there is. Before
/// anything is prepared.
Status useInstructionSet(const std::string &name, const plan::Target &target = {});
/// Whether tiles could multiply f32 here, and kernels are not held to less: and from then on, whether those that are
/// prepared let them.
bool couldMultiplyFloatsOnTiles();
void multiplyFloatsOnTiles(bool does);

/// The CUDA version this was built with, "13.0"; empty without CUDA.
std::string builtWithCuda();

} // namespace mt::device
#endif
