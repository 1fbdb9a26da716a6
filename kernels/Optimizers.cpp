#include "kernels/Optimizers.h"

#include "kernels/Catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mt::kernels {

std::vector<std::string> optimizers() {
  std::vector<std::string> names;
  for (const Kernel &kernel : all())
    if (kernel.updates && find(fmt::format("{}_split", kernel.name)))
      names.emplace_back(kernel.name);
  return names;
}

std::string optimizerList() { return fmt::format("{}", fmt::join(optimizers(), " or ")); }

bool keepsSecondMoment(std::string_view optimizer) {
  const Kernel *kernel = find(optimizer);
  return kernel && kernel->operands.find("secondMoment") != std::string_view::npos;
}

} // namespace mt::kernels
