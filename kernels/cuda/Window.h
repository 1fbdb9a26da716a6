// What the host hands to the device code of convolutions and pools. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_WINDOW_H
#define MT_KERNELS_CUDA_WINDOW_H

#include "kernels/Windows.h"
#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

/// A convolution or one of its gradients: `total` results.
struct ConvArguments {
  ConvShape shape;
  int64_t total;
  In image, kernel, gradient, bias; ///< those that the call reads
  Out result;
};
using ConvCode = void (*)(ConvArguments);
ConvCode convCode();           ///< a thread a result
ConvCode convDataGradCode();   ///< a thread a result
ConvCode convWeightGradCode(); ///< a block a result

enum class PoolKind : uint8_t { max, sum, mean };
struct PoolArguments {
  Windows windows;
  PoolKind kind;
  int64_t total;
  In operand, gradient;
  Out result;
};
using PoolCode = void (*)(PoolArguments);
PoolCode poolCode();
PoolCode poolGradCode();

} // namespace mt::kernels::cuda
#endif
