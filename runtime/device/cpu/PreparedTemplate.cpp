#include "runtime/device/cpu/PreparedTemplate.h"

#include <fmt/ranges.h>

namespace mt::device {
namespace {

std::string text(const kernels::Attribute &value) {
  return std::visit([](const auto &held) { return fmt::format("{}", held); }, value);
}

/// Equal for equal signatures only: what a cache may go by.
std::string keyOf(const kernels::Signature &call) {
  std::string key = call.kernel;
  for (const auto &[name, value] : call.attributes)
    key += fmt::format("|{}:{}={}", name, value.index(), text(value));
  for (const kernels::OperandType &operand : call.operands)
    key += fmt::format("|{},{},{},{}", kernels::name(operand.type), static_cast<int>(operand.effect), operand.present,
                       fmt::join(operand.dims, "x"));
  return key;
}

Result<std::shared_ptr<const kernels::cpu::Run>> kernelOf(const kernels::Signature &call, KernelCache &cache) {
  auto [found, fresh] = cache.try_emplace(keyOf(call));
  if (fresh) {
    MT_ASSIGN(kernels::cpu::Run made, kernels::cpu::prepare(call));
    found->second = std::make_shared<const kernels::cpu::Run>(std::move(made));
  }
  return found->second;
}

const HostFunction *functionOf(const std::map<std::string, HostFunction, std::less<>> &functions,
                               const std::string &kernel) {
  auto found = functions.find(kernel);
  return found == functions.end() ? nullptr : &found->second;
}

std::string nameOf(const plan::Call &call) {
  return call.location.empty() ? call.signature.kernel : fmt::format("{} of {}", call.signature.kernel, call.location);
}

} // namespace

Result<PreparedTemplate> PreparedTemplate::prepare(const plan::Template &code, const HostFunctions &functions,
                                                   KernelCache &cache) {
  PreparedTemplate made;
  for (const plan::Call &call : code.calls) {
    Step step{.call = &call,
              .kernel = nullptr,
              .before = functionOf(functions.before, call.signature.kernel),
              .instead = functionOf(functions.instead, call.signature.kernel)};
    if (!step.instead) {
      auto kernel = kernelOf(call.signature, cache);
      if (!kernel.ok())
        return fail("template \"{}\": {}: {}", code.name, nameOf(call), kernel.status().message());
      step.kernel = *kernel;
    }
    made.steps.push_back(std::move(step));
  }
  return made;
}

Status PreparedTemplate::launch(const Step &step, std::span<void *const> operands, uint64_t accumulate,
                                kernels::cpu::ThreadPool &pool) {
  if (step.before)
    MT_TRY((*step.before)(step.call->signature, operands));
  if (step.instead)
    return (*step.instead)(step.call->signature, operands);
  return (*step.kernel)({.operands = operands, .accumulate = accumulate, .pool = pool});
}

Status PreparedTemplate::run(std::span<const plan::Binding> arguments, const plan::Span &workspace,
                             const Address &address, kernels::cpu::ThreadPool &pool) const {
  std::vector<void *> operands;
  for (const Step &step : steps) {
    operands.assign(step.call->operands.size(), nullptr);
    uint64_t accumulate = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      const plan::Operand &operand = step.call->operands[i];
      const kernels::OperandType &type = step.call->signature.operands[i];
      if (!type.present)
        continue;
      const plan::Span &base = operand.argument < 0 ? workspace : arguments[static_cast<size_t>(operand.argument)].span;
      operands[i] = address(base) + operand.offset;
      bool adds = operand.argument >= 0 && type.effect == kernels::Effect::write &&
                  arguments[static_cast<size_t>(operand.argument)].effect == plan::BindingEffect::accumulate;
      accumulate |= adds ? uint64_t{1} << i : 0;
    }
    MT_TRY(launch(step, operands, accumulate, pool).within(nameOf(*step.call)));
  }
  return {};
}

} // namespace mt::device
