// What the host hands to the device code of dequantize. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_DEQUANTIZE_H
#define MT_KERNELS_CUDA_DEQUANTIZE_H

#include "kernels/Quantized.h"
#include "kernels/cuda/Elements.h"
#include "kernels/cuda/Views.h"

namespace mt::kernels::cuda {

struct DequantizeCall {
  Quantized q;
  Divider inner, entries, block;
  bool packed; ///< the results' address allows packs
  const uint8_t *values;
  In scales, zeros;
  Out result;
};

using DequantizeCode = void (*)(DequantizeCall);
DequantizeCode dequantizeCode();

} // namespace mt::kernels::cuda
#endif
