// What the host hands to the device code of normalizations. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_NORM_H
#define MT_KERNELS_CUDA_NORM_H

#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

/// Octets of a row that a thread keeps in registers going backward, and as many sums for gain and bias.
constexpr int kNormGradHeld = 2;
/// Threads that share the sums of a column.
constexpr int kNormSlices = 16;

struct NormArguments {
  int64_t rows;
  RowShape shape;
  bool centered;
  float epsilon;
  In x, gain, bias; ///< gain and bias: no data where absent
  Out result;
  float *mean, *rstd; ///< may be null
};

struct NormGradArguments {
  RowShape shape;
  Cut chunks; ///< of rows, whose sums for parameters are apart
  bool centered;
  In gradient, x, gain, addend; ///< gain and addend: no data where absent
  const float *mean, *rstd;
  Out dx;
  float *gains, *biases; ///< sums of each chunk; null where not wanted
};

using NormCode = void (*)(NormArguments);
using NormGradCode = void (*)(NormGradArguments);
/// the sums of all chunks, the width of one, their number, the parameter's gradient
using AddChunksCode = void (*)(const float *, int64_t, int64_t, Out);
NormCode normCode(RowCode code);
/// Everything, for rows of packs of one type that a group of threads holds; else the operand's gradient, and sums of
/// parameters.
NormGradCode normGradPacksCode(RowCode code);
NormGradCode normGradCode();
NormGradCode columnSumsCode();
AddChunksCode addChunksCode();

} // namespace mt::kernels::cuda
#endif
