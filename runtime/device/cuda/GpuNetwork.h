// The GPUs of a number, one of each rank, which exchange from their memory by NCCL: no byte goes through the host's.
// Private to runtime/device/cuda.
#ifndef MT_RUNTIME_DEVICE_CUDA_GPUNETWORK_H
#define MT_RUNTIME_DEVICE_CUDA_GPUNETWORK_H

#include "kernels/cuda/Nccl.h"
#include "runtime/device/cuda/Driver.h"
#include "runtime/network/Network.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace mt::device {

class GpuNetwork {
public:
  /// All ranks join for the same device at once. Every GPU has sent to every other then, so that none makes
  /// connections, or takes memory for them, in a step. Errors: there is no NCCL on some rank, or it fails.
  static Result<std::unique_ptr<GpuNetwork>> join(Driver &driver, network::Network &network, cudaStream_t stream);
  /// Waits for no other rank. All that it sent must have arrived: as it has where a step has ended, which needs what
  /// others make of it.
  ~GpuNetwork();
  GpuNetwork(const GpuNetwork &) = delete;

  /// An exchange of the catalogue, in device memory: what enqueues it. It lives as long as this.
  kernels::cuda::Run prepare(const kernels::Signature &call);
  /// Exchanges that are enqueued end without having received anything; later ones are refused. From any thread.
  void abort();

private:
  using Clock = std::chrono::steady_clock;
  Driver &driver;
  network::Network &network;
  const kernels::cuda::Nccl &nccl;
  std::atomic<kernels::cuda::NcclComm> comm = nullptr; ///< null: aborted
  cudaEvent_t last = {};                               ///< of the newest exchange
  std::timed_mutex issuing;                            ///< held by who calls NCCL to exchange
  std::mutex mutex;                                    ///< of what follows
  std::condition_variable_any changed;
  std::optional<Clock::time_point> enqueued; ///< the newest exchange, if it is not known to be done
  double slowest = 0;                        ///< seconds from there to its end, at most; of the thread that watches
  std::jthread watching;

  GpuNetwork(Driver &driver, network::Network &network, const kernels::cuda::Nccl &nccl)
      : driver(driver), network(network), nccl(nccl) {}
  Status open(cudaStream_t stream);
  Status meet(cudaStream_t stream);
  Status exchange(const kernels::Signature &call, const kernels::cuda::Launch &launch);
  Status send(std::span<const network::Message> sends, std::span<const network::Message> receives, cudaStream_t stream);
  void watch(const std::stop_token &ends);
  Status look();
};

} // namespace mt::device
#endif
