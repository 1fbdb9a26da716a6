// Stands in for the CUDA driver where the host's side of the CUDA device is tested: streams are threads with queues,
// memory of the GPU is heap, and the CPU's kernels run in place of the GPU's. No GPU is involved and no kernel of the
// GPU runs, unless a simulation brings them (tests/simt): what passes here says that the device issues the right calls
// in the right order, and nothing about kernels. It is as nasty as the driver may be: copies with memory that is not
// registered touch that before the call returns; those that leave a registration fail, and so does a test in which
// something is released that is still under way.
#ifndef MT_TESTS_DEVICE_SIMULATEDDRIVER_H
#define MT_TESTS_DEVICE_SIMULATEDDRIVER_H

#include "runtime/device/cuda/Driver.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace mt::tests {

/// What a test asks of a driver and learns from it; outlives the driver.
struct Simulation {
  device::DeviceMemory memory{8ULL << 30, 8ULL << 30};
  uint64_t libraryBytes = 0;      ///< taken by openLibraries()
  uint64_t registrationBytes = 0; ///< taken by each registerHost()
  uint64_t kernelBytes = 0;       ///< taken by each kernel that is preloaded
  bool peers = true;              ///< whether its GPUs copy to each other without the host
  std::map<const std::byte *, const std::byte *> registered; ///< by all of them: begin, end
  double idleMilliseconds = 0;    ///< between the first event that happens and the others
  /// Runs in place of a kernel when its turn on the stream comes; by name. Others are the CPU's.
  std::map<std::string, std::function<void(const kernels::cuda::Launch &)>> kernels;
  /// Makes all other calls ready, instead of the CPU's kernels.
  std::function<Result<kernels::cuda::Run>(const kernels::Signature &)> prepare;
  /// Those calls run as they are issued, not when their turn comes: they put on the stream what should happen there.
  bool atIssue = false;

  /// The `nth` call of that name fails with "injected".
  void failAt(std::string call, int nth = 1);
  int count(const std::string &call);
  std::vector<std::string> calls();
  /// Notes a call; the injected error if it is its turn.
  Status enter(const std::string &call);
  /// What was made and not given back.
  std::atomic<int> alive = 0;

private:
  std::mutex mutex;
  std::vector<std::string> log;
  std::map<std::string, int> failures;
};

/// Puts work on a stream of a simulated driver.
void enqueue(cudaStream_t stream, std::function<void()> work);

std::unique_ptr<device::Driver> simulatedDriver(Simulation &simulation);

/// What the device or a kernel did wrong. Each program has its own: in tests it fails the one that runs.
void simulationFailed(const std::string &what);

} // namespace mt::tests
#endif
