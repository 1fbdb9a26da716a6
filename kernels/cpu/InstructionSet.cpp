#include "kernels/cpu/InstructionSet.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <hwy/targets.h>

namespace mt::kernels::cpu {

std::string instructionSet() {
  int64_t supported = hwy::SupportedTargets();
  const dnnl_version_t *library = dnnl_version();
  return fmt::format("{}, oneDNN {}.{}.{} {:x}", hwy::TargetName(supported & -supported), // the best is the lowest bit
                     library->major, library->minor, library->patch,
                     static_cast<unsigned>(dnnl_get_effective_cpu_isa()));
}

} // namespace mt::kernels::cpu
