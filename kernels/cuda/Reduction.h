// What the host hands to the device code of reduce and cumsum. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_REDUCTION_H
#define MT_KERNELS_CUDA_REDUCTION_H

#include "kernels/cuda/Elements.h"
#include "kernels/cuda/Views.h"

namespace mt::kernels::cuda {

/// Threads that share a column.
constexpr int kReduceSlices = 16;

enum class ReduceKind : uint8_t { sum, max, min, prod };

struct ReduceArguments {
  ReduceKind kind;
  int64_t results, count; ///< count: elements of each result
  Cut chunks;             ///< of those elements
  Views<1> kept, reduced;
  bool packed;
  double divisor; ///< of every result
  In in;
  Out out; ///< chunk by chunk
};

struct CumsumArguments {
  int64_t lines, size;
  Divider inner;
  bool exclusive, reverse;
  In in;
  Out out;
};

using ReduceCode = void (*)(ReduceArguments);
using CumsumCode = void (*)(CumsumArguments);
/// columns: results lie side by side in the operand, 32 are a block's work; else each is a warp's or a block's.
ReduceCode reduceCode(DType type, bool columns);
CumsumCode cumsumCode(DType type);

} // namespace mt::kernels::cuda
#endif
