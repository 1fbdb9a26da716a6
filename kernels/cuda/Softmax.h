// What the host hands to the device code of softmax. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_SOFTMAX_H
#define MT_KERNELS_CUDA_SOFTMAX_H

#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

struct SoftmaxArguments {
  int64_t rows;
  RowShape shape;
  bool logarithm;
  In first, second; ///< the operand; or gradient and result
  Out result;
};

using SoftmaxCode = void (*)(SoftmaxArguments);
SoftmaxCode softmaxCode(RowCode code);
SoftmaxCode softmaxGradCode();

} // namespace mt::kernels::cuda
#endif
