// A template with its kernels chosen for the GPU: what a run command on one of its streams enqueues. Kernels of
// identical calls are shared among templates. Private to runtime/device/cuda.
#ifndef MT_RUNTIME_DEVICE_CUDA_GPUTEMPLATE_H
#define MT_RUNTIME_DEVICE_CUDA_GPUTEMPLATE_H

#include "runtime/device/Device.h"
#include "runtime/device/common/Operands.h"
#include "runtime/device/cuda/Driver.h"
#include "runtime/device/cuda/GpuNetwork.h"

#include <map>
#include <memory>
#include <vector>

namespace mt::device {

/// Prepared kernels by the text of their signature.
using GpuKernelCache = std::map<std::string, std::shared_ptr<const kernels::cuda::Run>>;

class GpuTemplate {
public:
  /// Errors name template and call. Functions in place of kernels have no place on a stream of the GPU.
  /// `network`: what exchanges; null: nothing does.
  static Result<GpuTemplate> prepare(const plan::Template &code, const HostFunctions &functions, Driver &driver,
                                     GpuKernelCache &cache, GpuNetwork *network);

  /// Has the driver load the kernels, those that add to what is there too: at their first launch it would stop the GPU
  /// and take memory. `place`: an address of the GPU, for all operands. The error names the call.
  Status preload(Driver &driver, cudaStream_t stream, void *place) const;
  /// Enqueues the kernels one after another; stops at the first error, which names the call. `faults`: a word for each
  /// call. `between`: an event to be recorded after each call but the last; none: they are not timed. Addresses are
  /// worked out anew each time, in `operands`: sums are cheaper than finding them again.
  Status launch(std::span<const plan::Binding> arguments, const plan::Span &workspace, const Address &address,
                kernels::cuda::Stream stream, uint32_t *faults, std::span<const cudaEvent_t> between,
                std::vector<void *> &operands) const;

  size_t calls() const { return steps.size(); }
  /// Whether launching is no more than launches: it calls no functions of the program, which wait for the stream, and
  /// exchanges nothing.
  bool canBeCaptured() const;
  /// The first fault among the words of a run, with the call's name; success if there is none.
  Status faultOf(const uint32_t *faults) const;

private:
  struct Step {
    const plan::Call *call = nullptr;
    std::shared_ptr<const kernels::cuda::Run> kernel;
    const HostFunction *before = nullptr;
    bool exchanges = false;
  };
  std::vector<Step> steps;
  Driver *driver = nullptr;

  Status callBefore(const Step &step, std::span<void *const> operands, cudaStream_t stream) const;
};

} // namespace mt::device
#endif
