#include "kernels/cpu/CpuKernels.h"

#include "kernels/cpu/Family.h"

#include <algorithm>

namespace mt::kernels::cpu {

Status requireF32(const Signature &call) {
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const OperandType &operand = call.operands[i];
    bool scalars = operand.type == DType::f64 && operand.dims == Dims{Scalars::kCount};
    bool other = operand.type == DType::bf16 || operand.type == DType::f16 || operand.type == DType::f64;
    if (operand.present && other && !scalars)
      return fail("{}: operand {} is {}, and the CPU has code for f32 alone", call.kernel, i, name(operand.type));
  }
  return {};
}

Result<Run> prepare(const Signature &call) {
  if (std::string problem = check(call); !problem.empty())
    return Status::error(problem);
  for (auto family : {structureEntries(), reductionEntries(), indexingEntries(), matmulEntries(), normEntries(),
                      softmaxEntries(), attentionEntries(), rotaryEntries(), lossEntries(), headEntries(),
                      optimizerEntries(), stepEntries()})
    if (auto found = std::ranges::find(family, std::string_view(call.kernel), &Entry::kernel); found != family.end())
      return found->prepare(call);
  if (isElementwise(call.kernel))
    return prepareElementwise(call);
  return fail("{}: the CPU has no such kernel", call.kernel);
}

} // namespace mt::kernels::cpu
