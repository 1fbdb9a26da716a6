// The tests of kernels on the CPU.
#include "kernels/cpu/CpuKernels.h"
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

/// Aligned buffers that anything has allocated: a kernel that takes more scratch than it says does so.
static std::atomic<int> alignedBuffers = 0;
void *operator new[](size_t bytes, std::align_val_t alignment) {
  ++alignedBuffers;
  auto multiple = static_cast<size_t>(alignment);
  return std::aligned_alloc(multiple, (bytes + multiple - 1) / multiple * multiple);
}
void operator delete[](void *buffer, std::align_val_t) noexcept { std::free(buffer); }

namespace mt::kernels::test {

const Backend kBackend = Backend::cpu;

Result<Execute> prepareCall(const Signature &call, int threads) {
  MT_ASSIGN(cpu::Run run, cpu::prepare(call));
  return Execute([run = std::move(run), threads](std::span<void *const> operands, uint64_t accumulate) {
    const cpu::Scratch scratch = run.scratch();
    const size_t each = (scratch.own + 63) / 64 * 64, shared = (scratch.shared + 63) / 64 * 64;
    std::unique_ptr<std::byte, decltype(&std::free)> lent(
        static_cast<std::byte *>(
            std::aligned_alloc(64, std::max<size_t>(64, each * static_cast<size_t>(threads) + shared))),
        &std::free);
    cpu::ThreadPool pool(threads);
    pool.lendScratch(lent.get(), each, 1, threads > cpu::Scratch::kSharers ? shared : 0);
    int before = alignedBuffers;
    Status status = run({.operands = operands, .accumulate = accumulate, .pool = pool});
    EXPECT_EQ(alignedBuffers, before) << "a thread took more scratch than the " << each
                                      << " bytes, or all more than the " << shared << ", that the call says";
    return status;
  });
}

} // namespace mt::kernels::test
