// dequantize: eight elements a thread, which come from one to eight bytes; scales mostly from the cache. 4.5 bytes move
// for each element of four bits that becomes one of 32.
#include "kernels/cuda/Dequantize.h"

#include "kernels/cuda/Elements.cuh"
#include "kernels/cuda/Views.cuh"

namespace mt::kernels::cuda {
namespace {

/// `levels`, of this block: in a constant they would be read one after another.
__device__ __forceinline__ float valueOf(const DequantizeCall &call, const float *levels, int64_t at) {
  const Quantized &q = call.q;
  const int64_t bit = at * q.bits;
  const int low = q.isSigned ? 1 << (q.bits - 1) : 0;
  const int number = ((call.values[bit / 8] >> (bit % 8) & ((1 << q.bits) - 1)) ^ low) - low;
  int64_t within, entry, rest;
  const int64_t outer = call.entries.divide(call.inner.divide(at, within), entry);
  const int64_t scale = outer * q.outerStep + call.block.divide(entry, rest) * q.blockStep + within * q.innerStep;
  const float zero =
      call.zeros.data ? loadOne<float>(call.zeros.type, call.zeros.data, scale) : static_cast<float>(q.zero);
  const float stands = q.hasLevels ? levels[number] : static_cast<float>(number) - zero;
  return __fmul_rn(stands, loadOne<float>(call.scales.type, call.scales.data, scale));
}

__global__ void __launch_bounds__(kThreads) dequantize(const __grid_constant__ DequantizeCall call) {
  __shared__ float levels[kMostLevels];
  if (threadIdx.x < kMostLevels)
    levels[threadIdx.x] = call.q.levels[threadIdx.x];
  __syncthreads();
  Places places = placesOf(blockIdx.x, threadIdx.x, kThreads, call.q.total, call.packed);
  if (places.none())
    return;
  float values[kOctet];
#pragma unroll 1
  for (int i = 0; i < kOctet; ++i)
    values[i] = places.at(i) < places.size ? valueOf(call, levels, places.at(i)) : 0.0f;
  store(call.result, 0, places, values);
}

} // namespace

DequantizeCode dequantizeCode() { return dequantize; }

} // namespace mt::kernels::cuda
