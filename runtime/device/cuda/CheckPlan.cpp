#include "runtime/device/cuda/CheckPlan.h"

#include "runtime/plan/Ranks.h"

#include <algorithm>
#include <set>

namespace mt::device {
namespace {

using plan::SpaceKind;
using plan::StreamKind;

constexpr std::string_view kRemedy = "compile the model again for a GPU, for example with --target h100";

class Checker {
public:
  Checker(const plan::Plan &plan, uint32_t gpus, const std::function<bool(std::string_view)> &hasKernel)
      : plan(plan), gpus(gpus), hasKernel(hasKernel) {}

  Status check() {
    MT_TRY(checkDevices());
    for (const plan::Program &program : plan.programs)
      for (const plan::Command &command : program.commands)
        MT_TRY(checkCommand(command));
    return {};
  }

private:
  const plan::Plan &plan;
  const uint32_t gpus;
  const std::function<bool(std::string_view)> &hasKernel;
  std::set<std::pair<uint32_t, bool>> checked; ///< templates, and whether for the host

  Status checkDevices() const {
    if (const uint64_t needed = plan::deviceCount(plan); needed > gpus)
      return fail("the plan is for {} devices, and {} GPU{} given; name as many with --device cuda:0,1,..., or compile the model again "
                  "with --devices {}", needed, gpus, gpus == 1 ? " is" : "s are", gpus);
    return {};
  }

  Status checkSpan(const plan::Command &command, const plan::Span &span) const {
    bool streamOnHost = plan::isOfHost(plan.streams[command.stream].kind);
    const plan::Space &space = plan.spaces[span.space];
    bool spaceOnHost = space.kind != SpaceKind::device;
    if (span.bytes == 0 || streamOnHost == spaceOnHost)
      return {};
    return fail("\"{}\" runs on {} and touches space \"{}\" of {}; {}", command.label,
                streamOnHost ? "the host" : "the GPU", space.name, spaceOnHost ? "the host" : "the GPU", kRemedy);
  }

  Status checkKernels(uint32_t index, bool onHost) {
    if (!checked.emplace(index, onHost).second)
      return {};
    const plan::Template &code = plan.templates[index];
    for (const plan::Call &call : code.calls)
      if (plan::isExchange(call.signature))
        continue; // where it is on a stream of the GPU, NCCL has it
      else if (onHost ? kernels::find(call.signature.kernel) == nullptr : !hasKernel(call.signature.kernel))
        return fail("template \"{}\": {} has no kernel \"{}\"; compile the model again with this version of mtc",
                    code.name, onHost ? "the host" : "the GPU", call.signature.kernel);
    return {};
  }

  /// The GPU copies between any two places of which one is its own.
  Status checkCopy(const plan::Command &command, bool onHost) const {
    if (onHost) {
      MT_TRY(checkSpan(command, command.from));
      return checkSpan(command, command.to);
    }
    if (plan.spaces[command.from.space].kind == SpaceKind::device ||
        plan.spaces[command.to.space].kind == SpaceKind::device)
      return {};
    return fail("\"{}\" copies within the host on a stream of the GPU; {}", command.label, kRemedy);
  }

  Status checkCommand(const plan::Command &command) {
    bool onHost = plan::isOfHost(plan.streams[command.stream].kind);
    if (command.isCopy)
      return checkCopy(command, onHost);
    for (const plan::Binding &binding : command.arguments)
      MT_TRY(checkSpan(command, binding.span));
    MT_TRY(checkSpan(command, command.workspace));
    return checkKernels(command.templateIndex, onHost);
  }
};

} // namespace

Status checkGpuPlan(const plan::Plan &plan, uint32_t gpus, const std::function<bool(std::string_view)> &hasKernel) {
  return Checker(plan, gpus, hasKernel).check();
}

} // namespace mt::device
