// Floating-point elements of any storage type as float, one at a time, and sums over a block by a fixed tree: what the
// kernels between the vendor's products need. Device code of kernels/cuda alone.
#ifndef MT_KERNELS_CUDA_FLOATS_CUH
#define MT_KERNELS_CUDA_FLOATS_CUH

#include "kernels/Catalogue.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace mt::kernels::cuda {

__device__ __forceinline__ float loadFloat(const void *base, DType type, int64_t at) {
  if (type == DType::f32)
    return static_cast<const float *>(base)[at];
  if (type == DType::bf16)
    return __bfloat162float(static_cast<const __nv_bfloat16 *>(base)[at]);
  return __half2float(static_cast<const __half *>(base)[at]);
}

__device__ __forceinline__ void storeFloat(void *base, DType type, int64_t at, float value) {
  if (type == DType::f32)
    static_cast<float *>(base)[at] = value;
  else if (type == DType::bf16)
    static_cast<__nv_bfloat16 *>(base)[at] = __float2bfloat16_rn(value);
  else
    static_cast<__half *>(base)[at] = __float2half_rn(value);
}

struct Plus {
  template <typename T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};
struct Larger {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// What `combine` makes of the values of all `kCount` threads of a block, in each of them; all of them come here.
template <int kCount, typename T, typename Combine> __device__ __forceinline__ T acrossBlock(T value, Combine combine) {
  __shared__ T parts[kCount];
  __syncthreads(); // nobody still reads the parts of an earlier call
  parts[threadIdx.x] = value;
  for (int half = kCount / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half)
      parts[threadIdx.x] = combine(parts[threadIdx.x], parts[threadIdx.x + half]);
  }
  __syncthreads();
  return parts[0];
}

} // namespace mt::kernels::cuda
#endif
