// The device's side of Moving.h. A file of sources ends with an instantiation of its codes.
#ifndef MT_KERNELS_CUDA_MOVING_CUH
#define MT_KERNELS_CUDA_MOVING_CUH

#include "kernels/cuda/Elements.cuh"
#include "kernels/cuda/Moving.h"
#include "kernels/cuda/Views.cuh"

namespace mt::kernels::cuda {

__device__ __forceinline__ int64_t Target::at(int64_t index) const {
  if (pitch == 0)
    return index;
  int64_t column, number = row.divide(index, column);
  return begin + number * pitch + column;
}

template <typename E, typename Source>
__global__ void __launch_bounds__(kThreads)
    move(const __grid_constant__ Source source, const __grid_constant__ Target target, int64_t total, const void *in,
         void *out, const __grid_constant__ Wide fixed) {
  int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kEach + threadIdx.x;
  E held[kEach], value = *reinterpret_cast<const E *>(&fixed);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    int64_t index = first + i * kThreads, from = index < total ? source.at(index) : -1;
    held[i] = from < 0 ? value : static_cast<const E *>(in)[from];
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (int64_t index = first + i * kThreads; index < total)
      static_cast<E *>(out)[target.at(index)] = held[i];
}

template <typename C, typename Source>
__global__ void __launch_bounds__(kThreads)
    moveAdding(const __grid_constant__ Source source, const __grid_constant__ Target target, int64_t total, In in,
               Out out, const __grid_constant__ Wide fixed) {
  C value = loadOne<C>(out.type, &fixed, 0);
  int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kEach + threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < kEach; ++i) {
    int64_t index = first + i * kThreads;
    if (index >= total)
      return;
    int64_t from = source.at(index);
    storeOne(out.type, out.data, target.at(index), from < 0 ? value : loadOne<C>(in.type, in.data, from), out.adds);
  }
}

template <typename Source> MoveCode<Source> moveCode(int64_t bytes) {
  return bytes == 1   ? move<uint8_t, Source>
         : bytes == 2 ? move<uint16_t, Source>
         : bytes == 4 ? move<uint32_t, Source>
         : bytes == 8 ? move<uint64_t, Source>
                      : move<Wide, Source>;
}
template <typename Source> MoveAddingCode<Source> moveAddingCode(DType type) {
  return withArithmetic(
      type, [](auto arithmetic) -> MoveAddingCode<Source> { return moveAdding<decltype(arithmetic), Source>; });
}

#define MT_MOVES(Source)                                                                                               \
  template MoveCode<Source> moveCode<Source>(int64_t);                                                                 \
  template MoveAddingCode<Source> moveAddingCode<Source>(DType)

} // namespace mt::kernels::cuda
#endif
