#include "kernels/cpu/CpuKernels.h"

#include "kernels/Coverage.h"
#include "kernels/cpu/Family.h"

#include <algorithm>

namespace mt::kernels::cpu {

namespace {

/// Null if there is none.
Prepare findPrepare(std::string_view kernel) {
  for (auto family :
       {expressionEntries(), structureEntries(),    reductionEntries(),   indexingEntries(), scatterEntries(),    topKEntries(),
        dequantizeEntries(),   convolutionEntries(), poolEntries(),     expertEntries(),     matmulEntries(),
        fusedProductEntries(), normEntries(),        softmaxEntries(),  recurrenceEntries(), attentionEntries(),
        rotaryEntries(),       lossEntries(),        randomEntries(),   headEntries(),       optimizerEntries(),
        stepEntries()})
    if (auto found = std::ranges::find(family, kernel, &Entry::kernel); found != family.end())
      return found->prepare;
  return isElementwise(kernel) ? prepareElementwise : nullptr;
}

/// Whether nothing uses any result of a call.
bool isUnused(const Signature &call) {
  return std::ranges::none_of(call.operands, [](const OperandType &operand) {
    return operand.present && (operand.effect == Effect::write || operand.effect == Effect::update);
  });
}

} // namespace

bool supports(std::string_view kernel) { return findPrepare(kernel) != nullptr; }

Result<Run> prepare(const Signature &call) {
  if (std::string problem = check(call); !problem.empty())
    return Status::error(problem);
  if (std::string problem = checkWorkspace(call, Backend::cpu); !problem.empty())
    return Status::error(problem);
  if (std::string problem = missingCode(call, Backend::cpu); !problem.empty())
    return Status::error(problem);
  Prepare prepareCall = findPrepare(call.kernel);
  if (!prepareCall)
    return fail("{}: the CPU has no such kernel", call.kernel);
  if (isUnused(call))
    return Run([](const Launch &) { return Status(); });
  return prepareCall(call);
}

} // namespace mt::kernels::cpu
