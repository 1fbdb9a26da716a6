// What the kernels of the host take beside a plan's spaces: scratch of each thread, and what the threads share. Counted
// from the plan before anything is reserved, and lent to the threads when a device starts.
#ifndef MT_RUNTIME_DEVICE_COMMON_HOSTSCRATCH_H
#define MT_RUNTIME_DEVICE_COMMON_HOSTSCRATCH_H

#include "runtime/base/Status.h"
#include "runtime/host/Arena.h"
#include "runtime/plan/Program.h"

#include <optional>

namespace mt::kernels::cpu {
class ThreadPool;
}

namespace mt::device {

struct HostScratch {
  int threads = 0;      ///< that may run kernels at once: the pool's, and those of streams; 0: not counted
  int streams = 0;      ///< of which those of streams
  uint64_t own = 0;     ///< bytes of a thread that are reserved at the start
  uint64_t library = 0; ///< bytes of a thread that the library which multiplies allocates as it goes, at most
  uint64_t shared = 0;  ///< bytes of a stream, reserved at the start, for all threads that run its call

  /// What is reserved.
  uint64_t lent() const { return static_cast<uint64_t>(threads) * own + static_cast<uint64_t>(streams) * shared; }
  uint64_t bytes() const { return lent() + static_cast<uint64_t>(threads) * library; }
};

/// Of a plan on a pool of so many threads. `gpu`: only host streams run kernels of the host. Errors name template and
/// call: a kernel that the CPU does not have.
Result<HostScratch> hostScratch(const plan::Plan &plan, int threads, bool gpu);

/// Reserves the scratch but that of the library in `arena` and lends it to the pool, before its first loop; the arena
/// must outlive the last. Nothing where nothing was counted.
Status lendScratch(const HostScratch &scratch, kernels::cpu::ThreadPool &pool, std::optional<host::Arena> &arena);

} // namespace mt::device
#endif
