// matmul_gelu, matmul_gelu_grad, matmul_sums: their parts, one after another. The same bits as apart.
#include "kernels/FusedProduct.h"
#include "kernels/cpu/Family.h"

#include <vector>

namespace mt::kernels::cpu {
namespace {

struct Step {
  Part part;
  Run run;
};

Result<Run> prepareParts(const Signature &call) {
  std::vector<Step> steps;
  for (const Part &part : partsOf(call)) {
    Part whole = withScratch(part, Backend::cpu);
    MT_ASSIGN(Run run, prepare(whole.call));
    steps.push_back({std::move(whole), std::move(run)});
  }
  return Run([steps = std::move(steps)](const Launch &launch) -> Status {
    for (const Step &step : steps) {
      PartOperands own = operandsOf(step.part, launch.operands, launch.accumulate);
      MT_TRY(step.run({.operands = own.all(), .accumulate = own.accumulate, .pool = launch.pool}));
    }
    return {};
  });
}

constexpr Entry kEntries[] = {
    {"matmul_gelu", prepareParts}, {"matmul_gelu_grad", prepareParts}, {"matmul_sums", prepareParts}};

} // namespace

std::span<const Entry> fusedProductEntries() { return kEntries; }

} // namespace mt::kernels::cpu
