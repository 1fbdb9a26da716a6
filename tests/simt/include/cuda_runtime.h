// Stands in for CUDA's header of that name where device code is compiled for the host (tests/simt/Simt.h): gives
// meaning to what CUDA adds to C++, as far as kernels/cuda uses it. Types, and conversions of 16-bit floats, are CUDA's
// own.
//
// What differs from a GPU: no multiplication and addition are contracted but by name, the C library's functions stand
// in for CUDA's (expf, tanhf and so on differ in the last bits, __fdividef divides exactly), subnormal numbers stay.
#ifndef MT_TESTS_SIMT_CUDA_RUNTIME_H
#define MT_TESTS_SIMT_CUDA_RUNTIME_H

#include "tests/simt/Simt.h"

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>
#include <math.h>
#include <memory> // has a name that becomes a macro below

#undef __global__
#undef __device__
#undef __shared__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__ [[gnu::noinline, gnu::noclone]]
#define __device__
#define __shared__ static // one block runs at a time
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__

inline const mt::simt::Index &threadIdx = mt::simt::builtins.thread, &blockIdx = mt::simt::builtins.block,
                             &blockDim = mt::simt::builtins.threads, &gridDim = mt::simt::builtins.blocks;

using std::max;
using std::min;
inline int64_t min(int64_t a, int b) { return a < b ? a : b; }
inline int64_t max(int64_t a, int b) { return a > b ? a : b; }

inline void __syncthreads() { (void)mt::simt::barrier(0); }
inline int __syncthreads_or(int value) { return mt::simt::barrier(value != 0) > 0; }

/// The value of another lane of the warp, of those in `mask`, all of which come here.
template <typename T> T shuffled(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = mt::simt::shuffle(mask, bits, from);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename T> T __shfl_sync(unsigned mask, T value, int lane) { return shuffled(mask, value, lane % 32); }
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  const int lane = mt::simt::lane(), from = lane - static_cast<int>(by);
  return shuffled(mask, value, from < 0 ? lane : from);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int with) {
  return shuffled(mask, value, mt::simt::lane() ^ with);
}

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }

/// CUDA's own template of that name starts device code; this runs it at once.
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*code)(Parameters...),
                               Arguments &&...arguments) {
  if (mt::simt::happensInstead(config->stream))
    return cudaSuccess;
  return [&](Parameters... copies) {
    const mt::simt::Geometry geometry{{config->gridDim.x, config->gridDim.y, config->gridDim.z},
                                      {config->blockDim.x, config->blockDim.y, config->blockDim.z}};
    const auto bytes = (sizeof(Parameters) + ... + 0);
    const bool ran = mt::simt::launch(geometry, reinterpret_cast<const void *>(code), bytes, [&] { code(copies...); });
    return ran ? cudaSuccess : cudaErrorLaunchFailure;
  }(static_cast<Parameters>(std::forward<Arguments>(arguments))...);
}

#endif
