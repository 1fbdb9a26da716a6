// The CPU as a device: every stream is a worker thread with a queue, every space an arena of ordinary memory. Runs
// unified plans, which have no copies, and discrete ones, where device spaces are arenas of their own and copies are
// real; so schedules are exercised where there is no accelerator. Kernels come from kernels/cpu and share one pool.
#ifndef MT_RUNTIME_DEVICE_CPU_CPUDEVICE_H
#define MT_RUNTIME_DEVICE_CPU_CPUDEVICE_H

#include "runtime/device/Device.h"
#include "runtime/device/common/HostScratch.h"

#include <memory>
#include <optional>

namespace mt::device {

struct CpuOptions {
  int threads = 0;                    ///< of the kernels' pool; 0: the machine's cores
  HostScratch scratch = {};           ///< of the plan; not counted: threads allocate what they take
  bool measure = false;               ///< keep the times of commands
  bool measureCalls = false;          ///< and add up those of kernel calls
  std::optional<uint64_t> jitterSeed = std::nullopt; ///< random delays before commands
  /// NaN into all spaces at the start; into what a run binds as fresh, and into its workspace, just before it runs.
  bool poison = false;
  double slowCopyBytesPerSecond = 0; ///< copies take at least bytes / this
  /// Nothing else runs beside a command of a compute stream, and host spaces are inaccessible to it.
  bool protectHost = false;
  std::string stateFolder = {}; ///< of files
};

std::unique_ptr<Device> makeCpuDevice(CpuOptions options);

} // namespace mt::device
#endif
