// A template with its kernels chosen for the CPU: what streams of the CPU device, and host streams of every device,
// execute for a run command. Kernels of identical calls are shared among templates. Private to runtime/device.
#ifndef MT_RUNTIME_DEVICE_COMMON_HOSTTEMPLATE_H
#define MT_RUNTIME_DEVICE_COMMON_HOSTTEMPLATE_H

#include "kernels/cpu/CpuKernels.h"
#include "runtime/device/Device.h"
#include "runtime/device/common/Operands.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mt::device {

/// Prepared kernels by the text of their signature.
using KernelCache = std::map<std::string, std::shared_ptr<const kernels::cpu::Run>>;

class HostTemplate {
public:
  /// Errors name template and call.
  static Result<HostTemplate> prepare(const plan::Template &code, const HostFunctions &functions, KernelCache &cache);

  /// Calls the kernels one after another; stops at the first error, which names the call. `times`: where what they took
  /// is added; null: they are not timed.
  Status run(std::span<const plan::Binding> arguments, const plan::Span &workspace, const Address &address,
             kernels::cpu::ThreadPool &pool, CallTimes *times) const;

private:
  struct Step {
    const plan::Call *call = nullptr;
    std::shared_ptr<const kernels::cpu::Run> kernel; ///< null: `instead` does the work
    const HostFunction *before = nullptr, *instead = nullptr;
  };
  std::vector<Step> steps;

  static Status launch(const Step &step, std::span<void *const> operands, uint64_t accumulate,
                       kernels::cpu::ThreadPool &pool);
};

} // namespace mt::device
#endif
