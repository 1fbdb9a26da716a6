// A prepared call of the CPU with operands and scratch of its own, in large pages as a device has them: where pages are
// small, finding them takes as long as some kernels do.
#ifndef MT_TESTS_BENCH_PREPAREDCALL_H
#define MT_TESTS_BENCH_PREPAREDCALL_H

#include "kernels/cpu/CpuKernels.h"
#include "runtime/host/Arena.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace mt::bench {

/// Operands: floats small and not zero, integers zero, scalars as in a step.
struct PreparedCall {
  kernels::Signature call; ///< with the scratch operand that the CPU wants
  std::vector<void *> addresses;
  std::optional<kernels::cpu::Run> run; ///< none where the CPU has no such call, or no memory for it

  explicit PreparedCall(kernels::Signature signature) : call(std::move(signature)) {
    using namespace kernels;
    std::erase_if(call.operands, [](const OperandType &operand) { return operand.effect == Effect::scratch; });
    if (const uint64_t bytes = workspaceBytes(call, Backend::cpu))
      call.operands.push_back({DType::u8, {static_cast<int64_t>(bytes)}, Effect::scratch, true});
    for (const OperandType &operand : call.operands) {
      std::byte *at = take(operand.bytes());
      if (!at)
        return;
      addresses.push_back(operand.present ? at : nullptr);
      const int64_t elements = operand.present ? operand.elements() : 0;
      for (int64_t i = 0; operand.type == DType::f32 && i < elements; ++i)
        reinterpret_cast<float *>(at)[i] = static_cast<float>(i % 97 + 1) * 0.01f;
      for (int64_t i = 0; operand.type == DType::bf16 && i < elements; ++i)
        reinterpret_cast<uint16_t *>(at)[i] = static_cast<uint16_t>(0x3c00 + i % 97);
      if (operand.dims == Dims{Scalars::kCount})
        std::fill_n(reinterpret_cast<double *>(at), int{Scalars::kCount}, 0.5);
    }
    if (Result<cpu::Run> prepared = cpu::prepare(call))
      run = std::move(*prepared);
  }

  /// To a pool that is new, for as long as this is there.
  void lendScratch(kernels::cpu::ThreadPool &pool) {
    const kernels::cpu::Scratch scratch = run->scratch();
    const size_t each = (scratch.own + 63) / 64 * 64;
    if (std::byte *at = take(each * static_cast<size_t>(pool.threads()) + scratch.shared))
      pool.lendScratch(at, each, 1, scratch.shared);
  }

private:
  std::vector<host::Arena> memory;

  std::byte *take(uint64_t bytes) {
    Result<host::Arena> arena = host::Arena::reserve(bytes, "operand", true);
    return arena ? memory.emplace_back(std::move(*arena)).data() : nullptr;
  }
};

} // namespace mt::bench
#endif
