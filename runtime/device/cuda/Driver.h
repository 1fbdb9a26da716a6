// Exactly the calls that the CUDA device makes to one GPU, so that the host's side of it can be tested where there is
// none. Not a wrapper for general use: no call is here that the device does not make. CudaDriver.cpp makes the real
// calls; tests/device holds one that only records them. Errors are the driver's words; callers add what they were
// doing.
#ifndef MT_RUNTIME_DEVICE_CUDA_DRIVER_H
#define MT_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "kernels/cuda/CudaKernels.h"
#include "kernels/cuda/Nccl.h"
#include "runtime/base/Status.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mt::device {

struct DeviceMemory {
  uint64_t free = 0, total = 0;
};

/// Calls may come from any thread that has called bind(), several at once; calls on one stream from one thread.
class Driver {
public:
  virtual ~Driver() = default;
  /// "GPU 0, NVIDIA H100 80GB HBM3".
  virtual std::string name() const = 0;
  /// Makes the GPU the calling thread's.
  virtual Status bind() = 0;
  virtual Result<DeviceMemory> memory() = 0;
  /// Lets it copy to and from another GPU without the host. False: that cannot be, and such copies go through the host.
  virtual Result<bool> enablePeer(Driver &other) = 0;

  virtual Result<void *> allocate(uint64_t bytes) = 0;
  virtual void release(void *memory) = 0;
  /// Zeroed host memory that the GPU can write at the same address.
  virtual Result<void *> allocatePinned(uint64_t bytes) = 0;
  virtual void releasePinned(void *memory) = 0;
  /// A copy with registered memory must lie within one registration.
  virtual Status registerHost(void *memory, uint64_t bytes) = 0;
  virtual void unregisterHost(void *memory) = 0;

  virtual Result<cudaStream_t> createStream() = 0;
  virtual void destroy(cudaStream_t stream) = 0;
  virtual Status synchronize(cudaStream_t stream) = 0;
  /// Waiting for it on the host sleeps; `timed`: seconds() can be asked of it.
  virtual Result<cudaEvent_t> createEvent(bool timed) = 0;
  virtual void destroy(cudaEvent_t event) = 0;
  virtual Status record(cudaEvent_t event, cudaStream_t stream) = 0;
  virtual Status wait(cudaStream_t stream, cudaEvent_t event) = 0;
  virtual Status synchronize(cudaEvent_t event) = 0;
  virtual Result<bool> isDone(cudaEvent_t event) = 0;
  virtual Result<double> seconds(cudaEvent_t from, cudaEvent_t to) = 0;

  virtual Status copy(void *to, const void *from, uint64_t bytes, cudaMemcpyKind kind, cudaStream_t stream) = 0;
  virtual Status fill(void *memory, int byte, uint64_t bytes, cudaStream_t stream) = 0;

  virtual bool supports(std::string_view kernel) const = 0;
  /// Opens the vendor's libraries that are there, so that what they take of the GPU's memory is known. prepare() names
  /// one that is missing and needed.
  virtual void openLibraries() = 0;
  virtual Result<kernels::cuda::Run> prepare(const kernels::Signature &call) = 0;
  /// NCCL, opened when it is first asked for. Errors say where it was looked for.
  virtual Result<const kernels::cuda::Nccl *> nccl() = 0;
  /// Has the driver load the kernels of what `launches` enqueues on the stream, of which nothing runs: any addresses of
  /// the GPU will do. Fails only where the GPU has no code for a kernel; what else goes wrong will at the launch too.
  virtual Status preload(cudaStream_t stream, const std::function<Status()> &launches) = 0;

  /// What the calling thread enqueues between the two is not run but kept.
  virtual Status beginCapture(cudaStream_t stream) = 0;
  virtual Result<cudaGraphExec_t> endCapture(cudaStream_t stream) = 0;
  virtual Status launch(cudaGraphExec_t graph, cudaStream_t stream) = 0;
  virtual void destroy(cudaGraphExec_t graph) = 0;
};

/// The GPU of that number. Errors: no driver, one too old, no GPU, no such number.
Result<std::unique_ptr<Driver>> openDriver(int index);

/// The CUDA version that this program was built with: "13.0".
std::string cudaVersion();

} // namespace mt::device
#endif
