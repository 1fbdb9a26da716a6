#include "runtime/device/common/Operands.h"

#include <fmt/ranges.h>

namespace mt::device {
namespace {

std::string text(const kernels::Attribute &value) {
  return std::visit([](const auto &held) { return fmt::format("{}", held); }, value);
}

} // namespace

std::string keyOf(const kernels::Signature &call) {
  std::string key = call.kernel;
  for (const auto &[name, value] : call.attributes)
    key += fmt::format("|{}:{}={}", name, value.index(), text(value));
  for (const kernels::OperandType &operand : call.operands)
    key += fmt::format("|{},{},{},{}", kernels::name(operand.type), static_cast<int>(operand.effect), operand.present,
                       fmt::join(operand.dims, "x"));
  return key;
}

std::string nameOf(const plan::Call &call) {
  return call.location.empty() ? call.signature.kernel : fmt::format("{} of {}", call.signature.kernel, call.location);
}

Status checkScratch(const plan::Call &call, kernels::Backend backend) {
  if (!kernels::check(call.signature).empty())
    return {}; // preparing it says what is wrong
  if (std::string problem = kernels::checkWorkspace(call.signature, backend); !problem.empty())
    return fail("{}; the plan is made for another device: compile the model again with a --target of {}", problem,
                backend == kernels::Backend::cuda ? "a GPU, for example h100" : "cpu or cpu-discrete");
  return {};
}

uint64_t bindOperands(const plan::Call &call, std::span<const plan::Binding> arguments, const plan::Span &workspace,
                      const Address &address, std::vector<void *> &operands) {
  operands.assign(call.operands.size(), nullptr);
  uint64_t accumulate = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const plan::Operand &operand = call.operands[i];
    const kernels::OperandType &type = call.signature.operands[i];
    if (!type.present)
      continue;
    const plan::Span &base = operand.argument < 0 ? workspace : arguments[static_cast<size_t>(operand.argument)].span;
    operands[i] = address(base) + operand.offset;
    bool adds = operand.argument >= 0 && type.effect == kernels::Effect::write &&
                arguments[static_cast<size_t>(operand.argument)].effect == plan::BindingEffect::accumulate;
    accumulate |= adds ? uint64_t{1} << i : 0;
  }
  return accumulate;
}

} // namespace mt::device
