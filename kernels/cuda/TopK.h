// What the host hands to the device code of top_k. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_TOPK_H
#define MT_KERNELS_CUDA_TOPK_H

#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

/// Threads that look for a row's elements.
constexpr int kTopKThreads = 128;

struct TopKArguments {
  int64_t width, k;
  bool largest;
  In operand;
  int64_t *places;
};

/// For elements of a type; a block is a row.
using TopKCode = void (*)(TopKArguments);
TopKCode topKCode(DType type);

} // namespace mt::kernels::cuda
#endif
