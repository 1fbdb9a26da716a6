#include "runtime/device/cuda/CapturedRuns.h"

#include <algorithm>

namespace mt::device {

CapturedRuns::~CapturedRuns() {
  for (auto &[key, captured] : graphs) {
    driver.destroy(captured.graph);
    driver.releasePinned(captured.faults);
  }
}

bool CapturedRuns::Captured::matches(std::span<const plan::Binding> others, const plan::Span &otherWorkspace) const {
  return workspace == otherWorkspace &&
         std::ranges::equal(arguments, others, [](const plan::Binding &one, const plan::Binding &other) {
           return one.span == other.span && one.effect == other.effect;
         });
}

/// The launches between the two calls of the driver are kept, whether they succeed or not: a capture must be ended.
Result<CapturedRuns::Captured> CapturedRuns::capture(const GpuTemplate &code, std::span<const plan::Binding> arguments,
                                                     const plan::Span &workspace, const Address &address,
                                                     cudaStream_t stream, std::vector<void *> &operands) {
  Captured made{{arguments.begin(), arguments.end()}, workspace, nullptr, {}};
  MT_ASSIGN(void *words, driver.allocatePinned(std::max<size_t>(code.calls(), 1) * sizeof(uint32_t)));
  made.faults = static_cast<uint32_t *>(words);
  Status status = driver.beginCapture(stream);
  if (status.ok()) {
    status = code.launch(arguments, workspace, address, stream, made.faults, {}, operands);
    Result<cudaGraphExec_t> graph = driver.endCapture(stream);
    if (status.ok())
      status = graph.status();
    if (graph.ok())
      made.graph = *graph;
  }
  if (status.ok())
    return made;
  if (made.graph)
    driver.destroy(made.graph);
  driver.releasePinned(words);
  return status.within("capturing a CUDA graph");
}

Result<const uint32_t *> CapturedRuns::run(const GpuTemplate &code, std::span<const plan::Binding> arguments,
                                           const plan::Span &workspace, const Address &address, cudaStream_t stream,
                                           std::vector<void *> &operands) {
  Key key{&code, arguments.data()};
  auto [first, last] = graphs.equal_range(key);
  auto found = std::find_if(first, last, [&](const auto &entry) { return entry.second.matches(arguments, workspace); });
  if (found == last) {
    MT_ASSIGN(Captured made, capture(code, arguments, workspace, address, stream, operands));
    found = graphs.emplace(key, std::move(made));
  }
  MT_TRY(driver.launch(found->second.graph, stream));
  return static_cast<const uint32_t *>(found->second.faults);
}

} // namespace mt::device
