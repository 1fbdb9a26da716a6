#include "runtime/host/MemoryCheck.h"

#include "runtime/base/Sizes.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace mt::host {

Status checkMemory(std::span<const plan::Space> spaces, uint64_t scratch, const MachineMemory &memory) {
  uint64_t device = 0, host = 0;
  for (const plan::Space &space : spaces)
    (space.kind == plan::SpaceKind::device ? device : host) += space.kind == plan::SpaceKind::file ? 0 : space.bytes;
  uint64_t needed = device + host + scratch, left = memory.available - std::min(memory.available, scratch);
  if (needed <= memory.available)
    return {};
  std::string less = left == 0 ? std::string()
                               : fmt::format(", or compile the model again with budgets --device-memory and --host-memory that "
                                             "add up to at most {} B",
                                             left);
  return fail("the plan needs {} of memory ({} for device spaces, {} for host spaces, {} for the scratch of kernels, "
              "which is less with fewer --threads), and this machine has {} available, limited by {}; free {}{}{}",
              formatExactSize(needed), formatSize(device), formatSize(host), formatSize(scratch),
              formatExactSize(memory.available), memory.limit, formatSize(needed - memory.available), less,
              kTrustRemedy);
}

Status checkHostMemory(std::span<const plan::Space> spaces, uint64_t scratch, const MachineMemory &memory) {
  std::vector<plan::Space> onHost;
  std::ranges::copy_if(spaces, std::back_inserter(onHost),
                       [](const plan::Space &space) { return space.kind != plan::SpaceKind::device; });
  return checkMemory(onHost, scratch, memory);
}

} // namespace mt::host
