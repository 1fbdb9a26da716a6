// Launching device code, and operands of a prepared call, from the host. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_LAUNCHING_H
#define MT_KERNELS_CUDA_LAUNCHING_H

#include "kernels/Blocks.h"
#include "kernels/cuda/Elements.h"
#include "kernels/cuda/Family.h"

#include <cuda_runtime.h>

#include <initializer_list>
#include <limits>

namespace mt::kernels::cuda {

/// Starts `blocks` blocks of device code: the only way that any is started.
template <typename... Parameters, typename... Arguments>
Status start(Stream stream, int64_t blocks, dim3 threads, void (*code)(Parameters...),
             const Arguments &...arguments) {
  if (blocks > std::numeric_limits<int32_t>::max())
    return fail("the call needs {} blocks of threads, more than a launch can have", blocks);
  MT_TRY(stream.launching(1));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = threads;
  config.stream = stream;
  return check(cudaLaunchKernelEx(&config, code, static_cast<Parameters>(arguments)...), "starting a kernel");
}

/// An operand of a signature, bound to its address launch by launch.
struct Bound {
  size_t operand = 0;
  DType type = DType::f32;
  bool present = false;

  Bound() = default;
  Bound(const Signature &call, size_t operand)
      : operand(operand), type(call.operands[operand].type), present(call.operands[operand].present) {}
  In in(const Launch &launch) const { return {present ? launch.operands[operand] : nullptr, type}; }
  Out out(const Launch &launch) const {
    return {present ? launch.operands[operand] : nullptr, type, launch.accumulates(operand)};
  }
  /// Whether packs of eight can be moved at every multiple of eight; an absent operand does not mind.
  bool aligned(const Launch &launch) const { return !present || isAligned(launch.operands[operand], type); }
};

inline Cut cut(const Chunks &chunks) { return {chunks.total, chunks.size, chunks.count}; }

/// Strides of a row-major tensor; and of one broadcast to `result` as NumPy does.
Dims rowMajor(const Dims &dims);
Dims broadcastStrides(const Dims &operand, const Dims &result);

/// Threads for rows of `width` that hold a row in `held` octets each: a warp, eight to a block; or a block; or a block
/// that holds a part.
dim3 rowThreads(int64_t width, int held);
inline int64_t rowBlocks(int64_t rows, dim3 threads) { return ceilDivide(rows, threads.y); }

/// The code for rows of `shape` whose operands are `operands`, and whose parameters are `parameters`.
RowCode rowCode(const RowShape &shape, std::initializer_list<Bound> operands,
                std::initializer_list<Bound> parameters = {});

} // namespace mt::kernels::cuda
#endif
