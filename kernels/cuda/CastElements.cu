// One element a thread: a bias, or gradients of keys once a batch row; 60 % of the memory's bandwidth is enough.
#include "kernels/Blocks.h"
#include "kernels/cuda/CastElements.h"
#include "kernels/cuda/Floats.cuh"

namespace mt::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void cast(const void *from, DType fromType, void *to, DType toType, int64_t count, bool adds,
                     const float *bias, int64_t columns) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count)
    return;
  float value = loadFloat(from, fromType, i) + (bias ? bias[i % columns] : 0.0f);
  storeFloat(to, toType, i, adds ? loadFloat(to, toType, i) + value : value);
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
  unsigned blocks = gridOf(ceilDivide(count, kThreads));
  cast<<<blocks, kThreads, 0, stream>>>(from, fromType, to, toType, count, adds, bias, columns);
  return cudaGetLastError();
}

} // namespace mt::kernels::cuda
