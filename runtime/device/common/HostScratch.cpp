#include "runtime/device/common/HostScratch.h"

#include "runtime/device/common/HostTemplate.h"

#include <set>

namespace mt::device {
namespace {

constexpr uint64_t kPage = 4096;

/// The templates that streams of the host run, and how many of those there are.
struct HostRuns {
  std::set<uint32_t> templates, streams;

  HostRuns(const plan::Plan &plan, bool gpu) {
    for (const plan::Program &program : plan.programs)
      for (const plan::Command &command : program.commands)
        if (!command.isCopy && (!gpu || plan.streams[command.stream].kind == plan::StreamKind::host)) {
          templates.insert(command.templateIndex);
          streams.insert(command.stream);
        }
  }
};

} // namespace

Result<HostScratch> hostScratch(const plan::Plan &plan, int threads, bool gpu) {
  HostRuns runs(plan, gpu);
  KernelCache cache;
  HostFunctions elsewhere; // the training loop's, and the network's
  for (const char *kernel : {"feed", "report", "all_to_all", "all_gather"})
    elsewhere.instead[kernel] = [](const kernels::Signature &, std::span<void *const>) { return Status(); };
  for (uint32_t index : runs.templates)
    MT_TRY(HostTemplate::prepare(plan.templates[index], elsewhere, cache).status());
  kernels::cpu::Scratch most;
  for (const auto &[signature, kernel] : cache)
    most = most.either(kernel->scratch());
  auto streams = static_cast<int>(runs.streams.size());
  const auto whole = [](uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
  return HostScratch{.threads = std::max(threads, 1) - 1 + streams,
                     .streams = streams,
                     .own = whole(most.own),
                     .library = most.library,
                     .shared = threads > kernels::cpu::Scratch::kSharers ? whole(most.shared) : 0};
}

Status lendScratch(const HostScratch &scratch, kernels::cpu::ThreadPool &pool, std::optional<host::Arena> &arena) {
  if (scratch.lent() == 0)
    return {};
  MT_ASSIGN(host::Arena made, host::Arena::reserve(scratch.lent(), "scratch of kernels", true));
  pool.lendScratch(made.data(), scratch.own, scratch.streams, scratch.shared);
  arena.emplace(std::move(made));
  return {};
}

} // namespace mt::device
