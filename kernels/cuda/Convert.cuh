// Storage types that C++ has no arithmetic for, and their conversions by the device's own instructions (round to
// nearest, ties to even). Device code of kernels/cuda alone.
#ifndef MT_KERNELS_CUDA_CONVERT_CUH
#define MT_KERNELS_CUDA_CONVERT_CUH

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
  Bfloat16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
__device__ __forceinline__ float widen(Half value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}
__device__ __forceinline__ Half toHalf(float value) {
  Half result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}

} // namespace mt::kernels::cuda
#endif
