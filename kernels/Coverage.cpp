#include "kernels/Coverage.h"

#include "kernels/Expression.h"
#include "kernels/FusedProduct.h"
#include "kernels/Optimizers.h"

#include <fmt/format.h>

#include <algorithm>

namespace mt::kernels {
namespace {

/// What is done on host streams, whatever the device: the processor alone has code for it.
constexpr std::string_view kHostOnly[] = {"feed",       "report",    "step_norm", "squared_norm_sum",
                                          "all_gather", "all_to_all"};
bool isHostOnly(const Kernel &kernel) {
  return std::ranges::find(kHostOnly, kernel.name) != std::end(kHostOnly) ||
         kernel.name == kSums; // a GPU sums in calls of their own
}

/// Operands (bit i: operand i) that a kernel takes in 32 bits at most, as it computes, by Backend.
struct Narrow {
  std::string_view kernel;
  std::array<uint32_t, 2> refuses64 = {}, refuses16 = {}; ///< f64, f16
};
constexpr uint32_t kNone = 0, kFirst = 1, kAll = ~0U;
constexpr uint32_t kHead = kAll & ~(1U << 4); ///< all but the step's scalars
constexpr Narrow kNarrow[] = {
    {"attention", {kAll, 0b1111 | 1U << 9}, {kAll, kNone}},
    {"attention_grad", {kAll, 0b11111 | 1U << 10}, {kAll, kNone}},
    {"conv", {kAll, kAll}},
    {"conv_data_grad", {kAll, kAll}},
    {"conv_weight_grad", {kAll, kAll}},
    {"cross_entropy", {kFirst, kFirst}},
    {"cross_entropy_grad", {kFirst, kFirst}},
    {"dropout", {kFirst, kFirst}},
    {"embedding_grad", {kNone, 0b110}},
    {"expert_matmul", {kAll, kAll}},
    {"expert_matmul_grad", {kAll, kAll}},
    {"gather_grad", {kNone, 0b110}},
    {"layer_norm", {kFirst, kAll}},
    {"layer_norm_grad", {kFirst, kAll}},
    {"linear_cross_entropy", {kHead, 0b101}, {kHead, kNone}},
    {"linear_cross_entropy_grad", {kHead, 0b110000101}, {kHead, kNone}},
    {"log_softmax", {kFirst, kFirst}},
    {"random", {0b1000, 0b1000}},
    {"pool", {kAll, kAll}},
    {"pool_grad", {kAll, kAll}},
    {"recurrence", {kAll, kAll}},
    {"recurrence_grad", {kAll, kAll}},
    {"rms_norm", {kFirst, kAll}},
    {"rms_norm_grad", {kFirst, kAll}},
    {"rotary", {kFirst, 0b11}},
    {"softmax", {kFirst, kFirst}},
    {"softmax_grad", {kFirst, kFirst}},
    {"squared_error", {kFirst, kFirst}},
    {"squared_error_grad", {kFirst, kFirst}},
    {"squared_norm", {kFirst, kFirst}},
    {"squared_norm_parts", {kFirst, kFirst}},
};

std::string_view nameOf(Backend backend) { return backend == Backend::cuda ? "GPU" : "CPU"; }

std::string missingNarrow(const Signature &call, Backend backend) {
  auto limits = std::ranges::find(kNarrow, call.kernel, &Narrow::kernel);
  if (limits == std::end(kNarrow))
    return "";
  auto which = static_cast<size_t>(backend);
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const OperandType &operand = call.operands[i];
    bool refuses = (operand.type == DType::f64 && limits->refuses64[which] >> i & 1) ||
                   (operand.type == DType::f16 && limits->refuses16[which] >> i & 1);
    if (operand.present && refuses)
      return fmt::format("{}: operand {} is {}, and the {} computes it in 32 bits: export the model in f32", call.kernel, i,
                         name(operand.type), nameOf(backend));
  }
  return "";
}

/// A GPU's library multiplies into the operands' type or into f32.
std::string missingProduct(const Signature &call) {
  const OperandType &lhs = call.operands[0], &bias = call.operands[2], &result = call.operands[3];
  bool wide = lhs.type == DType::f64;
  bool known = wide ? result.type == DType::f64 : result.type == lhs.type || result.type == DType::f32;
  if (known && (!bias.present || (bias.type == DType::f64) == wide))
    return "";
  return fmt::format("matmul: the GPU has no product of {} into {} with such a bias: export the model in f32", name(lhs.type),
                     name(result.type));
}

/// Gradients that are added up at indices: the CPU adds in 64 bits or in 32, not from one to the other.
std::string missingSum(const Signature &call) {
  if ((call.operands[1].type == DType::f64) == (call.operands[2].type == DType::f64))
    return "";
  return fmt::format("{}: gradient and result must both be f64 or neither: export the model in f32", call.kernel);
}

/// A GPU's threads compute expressions in 32 bits, and keep so many values.
std::string missingExpression(const Signature &call) {
  const Expression expression = expressionOf(call);
  const std::vector<DType> types = expression.types(call);
  for (DType type : types)
    if (type == DType::f64 || (!isFloat(type) && type != DType::boolean))
      return fmt::format("elementwise: the GPU has no expressions of {}: compile with --fuse off", name(type));
  if (const size_t count = slotsOf(expression, readsOf(call), Backend::cuda).count; count > Slots::kMostOnGpu)
    return fmt::format("elementwise: the GPU keeps {} values of an expression, and {} are needed at once: compile with --fuse off",
                       Slots::kMostOnGpu, count);
  return "";
}

std::string missingPart(const Signature &call, Backend backend) {
  for (const Part &part : partsOf(call))
    if (std::string missing = missingCode(part.call, backend); !missing.empty())
      return missing;
  return "";
}

} // namespace

bool hasCode(std::string_view kernel, Backend backend) {
  const Kernel *found = find(kernel);
  return found && (backend == Backend::cpu || !isHostOnly(*found));
}

bool addsOnce(std::string_view kernel, Backend backend) {
  return backend == Backend::cpu && (kernel == "embedding_grad" || kernel == "gather_grad");
}

std::string missingCode(const Signature &call, Backend backend) {
  if (!hasCode(call.kernel, backend))
    return fmt::format("{}: the {} has no such kernel: compile for another --target", call.kernel, nameOf(backend));
  if (call.kernel == "matmul" && backend == Backend::cuda)
    return missingProduct(call);
  if ((call.kernel == "embedding_grad" || call.kernel == "gather_grad") && backend == Backend::cpu)
    return missingSum(call);
  if (call.kernel == "matmul_add" || call.kernel == "matmul_gelu" || call.kernel == "matmul_gelu_grad" ||
      call.kernel == "matmul_sums")
    return missingPart(call, backend);
  if (call.kernel == "elementwise" && backend == Backend::cuda)
    return missingExpression(call);
  if (backend == Backend::cuda && isUpdate(call.kernel) && speculationOf(call) != Speculation::none)
    return fmt::format("{}: updates that speculate run on the host alone", call.kernel);
  return missingNarrow(call, backend);
}

} // namespace mt::kernels
