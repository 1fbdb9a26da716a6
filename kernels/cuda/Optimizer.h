// What the host hands to the device code of updates. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_OPTIMIZER_H
#define MT_KERNELS_CUDA_OPTIMIZER_H

#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

/// Elements that a thread updates, side by side: one instruction loads those of an operand of 32 bits.
constexpr int kQuad = 4;
/// Threads of a block of 512 elements: what the host writes at once or not at all.
constexpr int kUpdateThreads = 128;

/// A master weight is `weight` in f32, or, where there is a remainder, that and `weight` in bf16 (kernels/Bf16.h).
struct UpdateCall {
  const float *gradient;
  const double *squaredNorm, *scalars;
  void *weight;
  int16_t *remainder;
  float *first, *second; ///< moments, as many as there are
  float *average;        ///< of the weights; null: none is kept
  int64_t elements;
  bool aligned; ///< every operand allows quads
  uint32_t *fault;
};
using UpdateCode = void (*)(UpdateCall);
UpdateCode adamwCode(bool split);
UpdateCode sgdCode(bool split);
UpdateCode lionCode(bool split);
UpdateCode replaceCode(bool split);

} // namespace mt::kernels::cuda
#endif
