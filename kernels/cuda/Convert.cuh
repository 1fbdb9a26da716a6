// Storage types that C++ has no arithmetic for, and their conversions (round to nearest, ties to even). Device code of
// kernels/cuda alone.
#ifndef MT_KERNELS_CUDA_CONVERT_CUH
#define MT_KERNELS_CUDA_CONVERT_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace mt::kernels::cuda {

struct Bfloat16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};
struct Boolean {
  uint8_t value;
};

__device__ __forceinline__ float widen(Bfloat16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
__device__ __forceinline__ Bfloat16 toBfloat16(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}
__device__ __forceinline__ float widen(Half value) { return __half2float(__ushort_as_half(value.bits)); }
__device__ __forceinline__ Half toHalf(float value) { return {__half_as_ushort(__float2half_rn(value))}; }

} // namespace mt::kernels::cuda
#endif
