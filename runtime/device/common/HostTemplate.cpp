#include "runtime/device/common/HostTemplate.h"

#include <chrono>

namespace mt::device {
namespace {

Result<std::shared_ptr<const kernels::cpu::Run>> kernelOf(const plan::Call &call, KernelCache &cache) {
  std::string key = keyOf(call.signature);
  if (auto found = cache.find(key); found != cache.end())
    return found->second;
  MT_TRY(checkScratch(call, kernels::Backend::cpu));
  MT_ASSIGN(kernels::cpu::Run made, kernels::cpu::prepare(call.signature));
  return cache[key] = std::make_shared<const kernels::cpu::Run>(std::move(made));
}

const HostFunction *functionOf(const std::map<std::string, HostFunction, std::less<>> &functions,
                               const std::string &kernel) {
  auto found = functions.find(kernel);
  return found == functions.end() ? nullptr : &found->second;
}

} // namespace

Result<HostTemplate> HostTemplate::prepare(const plan::Template &code, const HostFunctions &functions,
                                           KernelCache &cache) {
  HostTemplate made;
  for (const plan::Call &call : code.calls) {
    Step step{.call = &call,
              .kernel = nullptr,
              .before = functionOf(functions.before, call.signature.kernel),
              .instead = functionOf(functions.instead, call.signature.kernel)};
    if (!step.instead) {
      auto kernel = kernelOf(call, cache);
      if (!kernel.ok())
        return fail("template \"{}\": {}: {}", code.name, nameOf(call), kernel.status().message());
      step.kernel = *kernel;
    }
    made.steps.push_back(std::move(step));
  }
  return made;
}

Status HostTemplate::launch(const Step &step, std::span<void *const> operands, uint64_t accumulate,
                            kernels::cpu::ThreadPool &pool) {
  if (step.before)
    MT_TRY((*step.before)(step.call->signature, operands));
  if (step.instead)
    return (*step.instead)(step.call->signature, operands);
  return (*step.kernel)({.operands = operands, .accumulate = accumulate, .pool = pool});
}

Status HostTemplate::run(std::span<const plan::Binding> arguments, const plan::Span &workspace, const Address &address,
                         kernels::cpu::ThreadPool &pool, CallTimes *times) const {
  using Clock = std::chrono::steady_clock;
  std::vector<void *> operands;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Clock::time_point begin = times ? Clock::now() : Clock::time_point();
    uint64_t accumulate = bindOperands(*steps[i].call, arguments, workspace, address, operands);
    if (Status status = launch(steps[i], operands, accumulate, pool); !status)
      return status.within(nameOf(*steps[i].call));
    if (times)
      times->seconds[i] += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  if (times)
    ++times->runs;
  return {};
}

} // namespace mt::device
