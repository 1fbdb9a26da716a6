// The tests of kernels on the CPU.
#include "kernels/cpu/CpuKernels.h"
#include "tests/kernels/Harness.h"

namespace mt::kernels::test {

const Backend kBackend = Backend::cpu;

Result<Execute> prepareCall(const Signature &call, int threads) {
  MT_ASSIGN(cpu::Run run, cpu::prepare(call));
  return Execute([run = std::move(run), threads](std::span<void *const> operands, uint64_t accumulate) {
    cpu::ThreadPool pool(threads);
    return run({.operands = operands, .accumulate = accumulate, .pool = pool});
  });
}

} // namespace mt::kernels::test
