// Convolutions and their gradients straight from their definitions (Window.cu), for what cuDNN does not do. Private to
// kernels/cuda.
#ifndef MT_KERNELS_CUDA_CONVOLUTION_H
#define MT_KERNELS_CUDA_CONVOLUTION_H

#include "kernels/cuda/Library.h"

namespace mt::kernels::cuda {

/// Takes no scratch.
Run directConvolution(const Signature &call);

} // namespace mt::kernels::cuda
#endif
