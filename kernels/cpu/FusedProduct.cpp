// matmul_gelu, matmul_gelu_grad, matmul_sums, and matmul_add of some types: their parts, one after another. The same
// bits as apart.
#include "kernels/FusedProduct.h"
#include "kernels/cpu/Family.h"

#include <vector>

namespace mt::kernels::cpu {
namespace {

struct Step {
  Part part;
  Run run;
};

struct Steps {
  std::vector<Step> all;

  Scratch scratch() const {
    Scratch most;
    for (const Step &step : all)
      most = most.either(step.run.scratch());
    return most;
  }

  Status operator()(const Launch &launch) const {
    for (const Step &step : all) {
      PartOperands own = operandsOf(step.part, launch.operands, launch.accumulate);
      MT_TRY(step.run({.operands = own.all(), .accumulate = own.accumulate, .pool = launch.pool}));
    }
    return {};
  }
};

constexpr Entry kEntries[] = {
    {"matmul_gelu", prepareParts}, {"matmul_gelu_grad", prepareParts}, {"matmul_sums", prepareParts}};

} // namespace

Result<Run> prepareParts(const Signature &call) {
  Steps steps;
  for (const Part &part : partsOf(call)) {
    Part whole = withScratch(part, Backend::cpu);
    MT_ASSIGN(Run run, prepare(whole.call));
    steps.all.push_back({std::move(whole), std::move(run)});
  }
  return Run(std::move(steps));
}

std::span<const Entry> fusedProductEntries() { return kEntries; }

} // namespace mt::kernels::cpu
