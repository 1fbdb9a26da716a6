#include "kernels/Coverage.h"

#include <algorithm>

namespace mt::kernels {
namespace {

/// What is done on host streams, whatever the device: the processor alone has code for it.
constexpr std::string_view kHostOnly[] = {"adamw", "adamw_split", "feed", "report", "sgd", "sgd_split", "step_norm"};

} // namespace

bool hasCode(std::string_view kernel, Backend backend) {
  return find(kernel) && (backend == Backend::cpu || std::ranges::find(kHostOnly, kernel) == std::end(kHostOnly));
}

} // namespace mt::kernels
