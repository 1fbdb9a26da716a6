// What kernels/cuda asks of the vendor's libraries, without any: a GPU of compute capability 90, products by the loops of
// tests/kernels/FakeBlas.h, the CPU's attention in place of cuDNN's. Their operands are checked as those of launches are.
#include "kernels/cpu/CpuKernels.h"
#include "kernels/cuda/Dnn.h"
#include "kernels/cuda/Family.h"
#include "kernels/cuda/GraphAttention.h"
#include "kernels/cuda/Library.h"
#include "tests/kernels/FakeBlas.h"
#include "tests/simt/Simt.h"

#include <cstring>

namespace mt::kernels::cuda {

Status check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess)
    return {};
  std::string problem = simt::problem();
  return fail("{}: {}", what, problem.empty() ? "after another failed" : problem);
}

Result<std::unique_ptr<Library>> Library::open() {
  std::unique_ptr<Library> library(new Library());
  library->multiprocessorCount = 132;
  library->capability = 90;
  return library;
}
Library::~Library() = default;

Result<Blas *> Library::blas() {
  static auto &blas = *[] {
    auto *made = new test::FakeBlas;
    made->proposals = {{.scratch = 1 << 20, .alignment = 16}, {.scratch = 0, .alignment = 1}};
    made->touches = [](const void *begin, uint64_t bytes, bool writes) { return simt::touches(begin, bytes, writes, "cuBLASLt"); };
    return made;
  }();
  return &blas.blas;
}
Result<Dnn *> Library::dnn() { return fail("there is no cuDNN here"); }
Dnn::~Dnn() = default;

Result<Run> prepareGraphAttention(const Signature &call, Library &, Run adding) {
  Signature own = call; // scratch of the CPU's size
  const size_t operands = own.operands.size();
  if (own.operands.back().effect == Effect::scratch)
    own.operands.pop_back();
  const uint64_t bytes = workspaceBytes(own, Backend::cpu);
  if (bytes > 0)
    own.operands.push_back({DType::u8, {static_cast<int64_t>(bytes)}, Effect::scratch, true});
  MT_ASSIGN(cpu::Run run, cpu::prepare(own));
  return Run([run = std::move(run), adding = std::move(adding), call, operands, bytes, count = own.operands.size()](const Launch &launch) {
    if (launch.accumulate != 0)
      return adding(launch);
    for (size_t i = 0; i < operands; ++i)
      if (const OperandType &operand = call.operands[i];
          operand.present && !simt::touches(launch.operands[i], operand.bytes(), operand.effect != Effect::read, "cuDNN"))
        return fail("{}", simt::problem());
    std::vector<double> scratch(bytes / sizeof(double) + 1);
    std::vector<void *> addresses(launch.operands.begin(), launch.operands.end());
    addresses.resize(count);
    if (bytes > 0)
      addresses.back() = scratch.data();
    cpu::ThreadPool pool(1);
    return run({.operands = addresses, .accumulate = 0, .pool = pool});
  });
}

} // namespace mt::kernels::cuda

/// The one call that kernels make of the runtime themselves.
extern "C" cudaError_t CUDARTAPI cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t) {
  if (!mt::simt::touches(memory, bytes, true, "cudaMemsetAsync"))
    return cudaErrorInvalidValue;
  std::memset(memory, byte, bytes);
  return cudaSuccess;
}
