// The device's side of Views.h.
#ifndef MT_KERNELS_CUDA_VIEWS_CUH
#define MT_KERNELS_CUDA_VIEWS_CUH

#include "kernels/cuda/Views.h"

namespace mt::kernels::cuda {

__device__ __noinline__ inline int64_t longQuotient(int64_t value, int64_t by) { return value / by; }

__device__ __forceinline__ int64_t Divider::divide(int64_t value, int64_t &rest) const {
  int64_t quotient;
  if (((value | size) >> 31) == 0) {
    uint32_t small = static_cast<uint32_t>(value);
    quotient = (__umulhi(small, magic) + small) >> shift;
  } else {
    quotient = longQuotient(value, size);
  }
  rest = value - quotient * size;
  return quotient;
}

template <int Count> __device__ __forceinline__ void Views<Count>::offsets(int64_t index, int64_t (&out)[Count]) const {
#pragma unroll
  for (int i = 0; i < Count; ++i)
    out[i] = 0;
#pragma unroll 1
  for (int d = rank - 1; d >= 0; --d) {
    int64_t place = index;
    if (d > 0)
      index = sizes[d].divide(index, place);
#pragma unroll
    for (int i = 0; i < Count; ++i)
      out[i] += place * strides[i][d];
  }
}

} // namespace mt::kernels::cuda
#endif
