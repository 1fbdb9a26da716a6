// What the host hands to the device code of normalizations. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_NORM_H
#define MT_KERNELS_CUDA_NORM_H

#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

/// Octets of a row that a thread keeps in registers going forward; going backward it is one.
constexpr int kNormHeld = 2;
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
  Cut chunks; ///< of rows, one for each group of threads
  bool centered;
  In gradient, x, gain; ///< gain: no data where absent
  const float *mean, *rstd;
  Out dx;
  float *gains, *biases; ///< sums of each chunk; null where not wanted
};

using NormCode = void (*)(NormArguments);
using NormGradCode = void (*)(NormGradArguments);
/// the sums of all chunks, the width of one, their number, the parameter's gradient
using AddChunksCode = void (*)(const float *, int64_t, int64_t, Out);
NormCode normCode();
NormGradCode normGradCode();
NormGradCode columnSumsCode();
AddChunksCode addChunksCode();

} // namespace mt::kernels::cuda
#endif
