// A template with its kernels chosen: what the CPU device executes for a run command. Kernels of identical calls are
// shared among templates. Private to device/cpu.
#ifndef MT_RUNTIME_DEVICE_CPU_PREPAREDTEMPLATE_H
#define MT_RUNTIME_DEVICE_CPU_PREPAREDTEMPLATE_H

#include "kernels/cpu/CpuKernels.h"
#include "runtime/device/Device.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mt::device {

/// Prepared kernels by the text of their signature.
using KernelCache = std::map<std::string, std::shared_ptr<const kernels::cpu::Run>>;
using Address = std::function<std::byte *(const plan::Span &)>;

class PreparedTemplate {
public:
  /// Errors name template and call.
  static Result<PreparedTemplate> prepare(const plan::Template &code, const HostFunctions &functions,
                                          KernelCache &cache);

  /// Calls the kernels one after another; stops at the first error, which names the call.
  Status run(std::span<const plan::Binding> arguments, const plan::Span &workspace, const Address &address,
             kernels::cpu::ThreadPool &pool) const;

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
