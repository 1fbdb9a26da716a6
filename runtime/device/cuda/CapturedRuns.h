// CUDA graphs of the runs of one stream: the launches of a template call are captured when template, addresses and
// effects are seen for the first time, and replayed afterwards. Capturing allocates; replaying does not. A graph has
// fault words of its own, as their address is part of it. Private to runtime/device/cuda.
#ifndef MT_RUNTIME_DEVICE_CUDA_CAPTUREDRUNS_H
#define MT_RUNTIME_DEVICE_CUDA_CAPTUREDRUNS_H

#include "runtime/device/cuda/GpuTemplate.h"

namespace mt::device {

class CapturedRuns {
public:
  explicit CapturedRuns(Driver &driver) : driver(driver) {}
  ~CapturedRuns();
  CapturedRuns(const CapturedRuns &) = delete;
  CapturedRuns &operator=(const CapturedRuns &) = delete;

  /// Enqueues a run of the template. Returns the words that hold its faults.
  Result<const uint32_t *> run(const GpuTemplate &code, std::span<const plan::Binding> arguments,
                               const plan::Span &workspace, const Address &address, cudaStream_t stream,
                               std::vector<void *> &operands);

private:
  struct Captured {
    std::vector<plan::Binding> arguments;
    plan::Span workspace;
    uint32_t *faults = nullptr;
    cudaGraphExec_t graph = {};
    bool matches(std::span<const plan::Binding> others, const plan::Span &otherWorkspace) const;
  };
  /// By template and place of the arguments in the plan, which find almost every graph at once.
  using Key = std::pair<const GpuTemplate *, const plan::Binding *>;
  Result<Captured> capture(const GpuTemplate &code, std::span<const plan::Binding> arguments,
                           const plan::Span &workspace, const Address &address, cudaStream_t stream,
                           std::vector<void *> &operands);

  Driver &driver;
  std::multimap<Key, Captured> graphs;
};

} // namespace mt::device
#endif
