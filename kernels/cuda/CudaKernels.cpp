#include "kernels/cuda/CudaKernels.h"

#include "kernels/Coverage.h"
#include "kernels/cuda/Family.h"

#include <algorithm>

namespace mt::kernels::cuda {
namespace {

/// Null if there is none.
Prepare findPrepare(std::string_view kernel) {
  for (auto family :
       {elementwiseEntries(), expressionEntries(),  structureEntries(),   reductionEntries(), indexingEntries(),   topKEntries(),
        dequantizeEntries(),   convolutionEntries(), windowEntries(),    expertEntries(),     matmulEntries(),
        fusedProductEntries(), normEntries(),        softmaxEntries(),   recurrenceEntries(), attentionEntries(),
        rotaryEntries(),       lossEntries(),        randomEntries(),    headEntries(),       stepEntries(),
        optimizerEntries()})
    if (auto found = std::ranges::find(family, kernel, &Entry::kernel); found != family.end())
      return found->prepare;
  return nullptr;
}

/// Whether nothing uses any result of a call.
bool isUnused(const Signature &call) {
  return std::ranges::none_of(call.operands, [](const OperandType &operand) {
    return operand.present && (operand.effect == Effect::write || operand.effect == Effect::update);
  });
}

} // namespace

Status Stream::launching(int64_t launches) const { return pace ? pace->launching(launches) : Status(); }

bool supports(std::string_view kernel) { return findPrepare(kernel) != nullptr; }

Result<Run> prepare(const Signature &call, Library &library) {
  if (std::string problem = kernels::check(call); !problem.empty())
    return Status::error(problem);
  if (std::string problem = checkWorkspace(call, Backend::cuda); !problem.empty())
    return Status::error(problem);
  if (std::string problem = missingCode(call, Backend::cuda); !problem.empty())
    return Status::error(problem);
  Prepare prepareCall = findPrepare(call.kernel);
  if (!prepareCall)
    return fail("{}: the GPU has no such kernel", call.kernel);
  if (isUnused(call))
    return Run([](const Launch &) { return Status(); });
  return prepareCall(call, library);
}

} // namespace mt::kernels::cuda
