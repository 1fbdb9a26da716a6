#include "runtime/device/cuda/GpuTemplate.h"

#include "runtime/plan/Ranks.h"

#include <algorithm>

namespace mt::device {
namespace {

Result<std::shared_ptr<const kernels::cuda::Run>> kernelOf(const plan::Call &call, Driver &driver,
                                                           GpuKernelCache &cache) {
  std::string key = keyOf(call.signature);
  if (auto found = cache.find(key); found != cache.end())
    return found->second;
  MT_TRY(checkScratch(call, kernels::Backend::cuda));
  MT_ASSIGN(kernels::cuda::Run made, driver.prepare(call.signature));
  return cache[key] = std::make_shared<const kernels::cuda::Run>(std::move(made));
}

} // namespace

Result<GpuTemplate> GpuTemplate::prepare(const plan::Template &code, const HostFunctions &functions, Driver &driver,
                                         GpuKernelCache &cache, GpuNetwork *network) {
  GpuTemplate made;
  made.driver = &driver;
  for (const plan::Call &call : code.calls) {
    const std::string &kernel = call.signature.kernel;
    if (network && plan::isExchange(call.signature)) {
      auto exchange = std::make_shared<const kernels::cuda::Run>(network->prepare(call.signature));
      made.steps.push_back({&call, std::move(exchange), nullptr, true});
      continue;
    }
    if (functions.instead.contains(kernel))
      return fail(
          "template \"{}\": {} works on the host, and the plan puts it on a stream of the GPU; compile the model "
          "again with this version of mtc",
          code.name, nameOf(call));
    auto prepared = kernelOf(call, driver, cache);
    if (!prepared.ok())
      return fail("template \"{}\": {}: {}", code.name, nameOf(call), prepared.status().message());
    auto before = functions.before.find(kernel);
    made.steps.push_back({&call, *prepared, before == functions.before.end() ? nullptr : &before->second});
  }
  return made;
}

Status GpuTemplate::preload(Driver &driver, cudaStream_t stream, void *place) const {
  for (const Step &step : steps) {
    if (step.exchanges)
      continue;
    std::vector<void *> operands;
    uint64_t written = 0;
    for (const kernels::OperandType &operand : step.call->signature.operands) {
      bool adds = operand.effect == kernels::Effect::write && operands.size() < 64;
      written |= adds ? uint64_t{1} << operands.size() : 0;
      operands.push_back(operand.present ? place : nullptr);
    }
    for (uint64_t accumulate : {uint64_t{0}, written}) {
      kernels::cuda::Launch launch{operands, accumulate, stream, static_cast<uint32_t *>(place)};
      MT_TRY(driver.preload(stream, [&] { return (*step.kernel)(launch); }).within(nameOf(*step.call)));
    }
  }
  return {};
}

Status GpuTemplate::launch(std::span<const plan::Binding> arguments, const plan::Span &workspace,
                           const Address &address, kernels::cuda::Stream stream, uint32_t *faults,
                           std::span<const cudaEvent_t> between, std::vector<void *> &operands) const {
  for (size_t i = 0; i < steps.size(); ++i) {
    uint64_t accumulate = bindOperands(*steps[i].call, arguments, workspace, address, operands);
    if (steps[i].before)
      MT_TRY(callBefore(steps[i], operands, stream).within(nameOf(*steps[i].call)));
    kernels::cuda::Launch launch{operands, accumulate, stream, faults + i};
    if (Status status = (*steps[i].kernel)(launch); !status.ok())
      return status.within(nameOf(*steps[i].call));
    if (!between.empty() && i + 1 < steps.size()) {
      MT_TRY(stream.launching(1));
      MT_TRY(driver->record(between[i], stream));
    }
  }
  return {};
}

bool GpuTemplate::canBeCaptured() const {
  return std::ranges::none_of(steps, [](const Step &step) { return step.before || step.exchanges; });
}

Status GpuTemplate::callBefore(const Step &step, std::span<void *const> operands, cudaStream_t stream) const {
  std::vector<std::vector<std::byte>> copies(operands.size());
  std::vector<void *> addresses(operands.size(), nullptr);
  for (size_t i = 0; i < operands.size(); ++i) {
    const kernels::OperandType &operand = step.call->signature.operands[i];
    if (!operand.present || operand.effect != kernels::Effect::read)
      continue;
    copies[i].resize(operand.bytes());
    addresses[i] = copies[i].data();
    MT_TRY(driver->copy(addresses[i], operands[i], copies[i].size(), cudaMemcpyDeviceToHost, stream));
  }
  MT_TRY(driver->synchronize(stream));
  return (*step.before)(step.call->signature, addresses);
}

Status GpuTemplate::faultOf(const uint32_t *faults) const {
  for (size_t i = 0; i < steps.size(); ++i)
    if (auto fault = static_cast<kernels::cuda::Fault>(faults[i]); fault != kernels::cuda::Fault::none)
      return fail("{}: {}", nameOf(*steps[i].call), kernels::cuda::message(fault));
  return {};
}

} // namespace mt::device
