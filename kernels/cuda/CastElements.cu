// Eight elements a thread, as packs where addresses allow it: a bias, results that waited for one in 32 bits, or
// gradients of keys once a batch row; 80 % of the memory's bandwidth, with a bias less.
#include "kernels/Blocks.h"
#include "kernels/cuda/CastElements.h"
#include "kernels/cuda/Elements.cuh"
#include "kernels/cuda/Floats.cuh"

namespace mt::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    cast(In from, Out to, int64_t count, bool packed, const float *bias, int64_t columns) {
  Places places = placesOf(blockIdx.x, threadIdx.x, kThreads, count, packed);
  float values[kOctet];
  load({from, 0, places, 0.0f}, values);
#pragma unroll
  for (int i = 0; bias && i < kOctet; ++i)
    if (places.at(i) < count)
      values[i] += bias[places.at(i) % columns];
  store(to, 0, places, values);
}

__global__ void addRow(const double *from, double *to, int64_t count, int64_t columns) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count)
    to[i] += from[i % columns];
}

} // namespace

cudaError_t addToRows(cudaStream_t stream, const double *from, double *to, int64_t rows, int64_t columns) {
  unsigned blocks = gridOf(ceilDivide(rows * columns, kThreads));
  addRow<<<blocks, kThreads, 0, stream>>>(from, to, rows * columns, columns);
  return cudaGetLastError();
}

cudaError_t castElements(cudaStream_t stream, const void *from, DType fromType, void *to, DType toType, int64_t count,
                         bool adds, const float *bias, int64_t columns) {
  unsigned blocks = gridOf(ceilDivide(count, kThreads * kOctet));
  bool packed = isAligned(from, fromType) && isAligned(to, toType);
  cast<<<blocks, kThreads, 0, stream>>>({from, fromType}, {to, toType, adds}, count, packed, bias, columns);
  return cudaGetLastError();
}

} // namespace mt::kernels::cuda
