// expert_matmul and the gradient of its matrices: rows sorted by expert, in tiles of one expert each, through shared
// memory in 32 bits. No matrix units: a fraction of what a device multiplies, but work for the rows that there are
// alone.
#include "kernels/cuda/Experts.h"

#include "kernels/cuda/Elements.cuh"
#include "kernels/cuda/Floats.cuh"

namespace mt::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) expertBegins(const __grid_constant__ ExpertBegins a) {
  int64_t expert = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, low = 0, high = a.count;
  if (expert > a.experts)
    return;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (static_cast<int64_t>(a.keys[middle] >> 32) < expert)
      low = middle + 1;
    else
      high = middle;
  }
  a.begins[expert] = low;
}

__device__ __forceinline__ int64_t rowOf(uint64_t key) { return static_cast<int64_t>(key & 0xffffffff); }
__device__ __forceinline__ float floatOf(In in, int64_t at) { return loadFloat(in.data, in.type, at); }

/// The products that a thread has in a tile: one row, columns kThreads / kExpertRows apart.
constexpr int kBeside = kThreads / kExpertRows, kOwn = kExpertColumns / kBeside;

/// sums[j] += sum over d of a[d][row] * b[d][column + j * kBeside].
__device__ __forceinline__ void multiply(const float (&a)[kExpertDepth][kExpertRows],
                                         const float (&b)[kExpertDepth][kExpertColumns], int row, int column,
                                         float (&sums)[kOwn]) {
  for (int d = 0; d < kExpertDepth; ++d)
#pragma unroll
    for (int j = 0; j < kOwn; ++j)
      sums[j] += a[d][row] * b[d][column + j * kBeside];
}

__global__ void __launch_bounds__(kThreads) expertMatmul(const __grid_constant__ ExpertArguments a) {
  __shared__ float left[kExpertDepth][kExpertRows], right[kExpertDepth][kExpertColumns];
  int64_t tile = blockIdx.x / a.across, first = blockIdx.x % a.across * kExpertColumns, expert = 0, begin = 0, end = 0;
  for (; expert < a.experts; ++expert) {
    begin = a.begins[expert], end = a.begins[expert + 1];
    int64_t tiles = (end - begin + kExpertRows - 1) / kExpertRows;
    if (tile < tiles)
      break;
    tile -= tiles;
  }
  if (expert == a.experts)
    return; // more tiles were started than these experts have
  begin += tile * kExpertRows;
  int row = static_cast<int>(threadIdx.x) / kBeside, column = static_cast<int>(threadIdx.x) % kBeside;
  float sums[kOwn] = {};
  for (int64_t k = 0; k < a.depth; k += kExpertDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kExpertDepth * kExpertRows; i += kThreads) {
      int64_t at = begin + i / kExpertDepth, d = k + i % kExpertDepth;
      left[i % kExpertDepth][i / kExpertDepth] =
          at < end && d < a.depth ? floatOf(a.left, rowOf(a.keys[at]) * a.depth + d) : 0;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kExpertDepth * kExpertColumns; i += kThreads) {
      int inner = a.transposed ? i % kExpertDepth : i / kExpertColumns,
          outer = a.transposed ? i / kExpertDepth : i % kExpertColumns;
      int64_t d = k + inner, n = first + outer;
      int64_t at = expert * a.depth * a.columns + (a.transposed ? n * a.depth + d : d * a.columns + n);
      right[inner][outer] = d < a.depth && n < a.columns ? floatOf(a.right, at) : 0;
    }
    __syncthreads();
    multiply(left, right, row, column, sums);
    __syncthreads();
  }
  if (begin + row >= end)
    return;
  int64_t line = rowOf(a.keys[begin + row]) * a.columns;
#pragma unroll
  for (int j = 0; j < kOwn; ++j)
    if (int64_t n = first + column + j * kBeside; n < a.columns)
      storeOne(a.result.type, a.result.data, line + n, sums[j], a.result.adds);
}

__global__ void __launch_bounds__(kThreads) expertMatmulGrad(const __grid_constant__ ExpertArguments a) {
  __shared__ float left[kExpertDepth][kExpertRows], right[kExpertDepth][kExpertColumns];
  int64_t first = blockIdx.x % a.across * kExpertColumns, down = (a.depth + kExpertRows - 1) / kExpertRows;
  int64_t top = blockIdx.x / a.across % down * kExpertRows, expert = blockIdx.x / a.across / down;
  int row = static_cast<int>(threadIdx.x) / kBeside, column = static_cast<int>(threadIdx.x) % kBeside;
  float sums[kOwn] = {};
  for (int64_t at = a.begins[expert], end = a.begins[expert + 1]; at < end; at += kExpertDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kExpertDepth * kExpertRows; i += kThreads) {
      int64_t key = at + i / kExpertRows, m = top + i % kExpertRows;
      left[i / kExpertRows][i % kExpertRows] =
          key < end && m < a.depth ? floatOf(a.left, rowOf(a.keys[key]) * a.depth + m) : 0;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kExpertDepth * kExpertColumns; i += kThreads) {
      int64_t key = at + i / kExpertColumns, n = first + i % kExpertColumns;
      right[i / kExpertColumns][i % kExpertColumns] =
          key < end && n < a.columns ? floatOf(a.right, rowOf(a.keys[key]) * a.columns + n) : 0;
    }
    __syncthreads();
    multiply(left, right, row, column, sums);
    __syncthreads();
  }
  if (top + row >= a.depth)
    return;
  int64_t line = (expert * a.depth + top + row) * a.columns;
#pragma unroll
  for (int j = 0; j < kOwn; ++j)
    if (int64_t n = first + column + j * kBeside; n < a.columns)
      storeOne(a.result.type, a.result.data, line + n, sums[j], a.result.adds);
}

} // namespace

ExpertBeginsCode expertBeginsCode() { return expertBegins; }
ExpertCode expertMatmulCode() { return expertMatmul; }
ExpertCode expertMatmulGradCode() { return expertMatmulGrad; }

} // namespace mt::kernels::cuda
