// Rows of the last dimension worked on by a warp or a block each: who has which elements, elements held in registers
// between passes, and reductions by trees that depend on nothing but the number of threads. Device code of kernels/cuda
// alone.
#ifndef MT_KERNELS_CUDA_ROWS_CUH
#define MT_KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/Elements.cuh"

namespace mt::kernels::cuda {

/// The row of a thread's group, a warp (threadIdx.y counts them) or the block.
__device__ __forceinline__ int64_t groupIndex() { return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; }

/// The pieces of a row that the threads of a group share.
__device__ __forceinline__ int64_t piecesOf(const RowShape &shape) {
  int64_t each = static_cast<int64_t>(blockDim.x) * kOctet;
  return (shape.width + each - 1) / each;
}
__device__ __forceinline__ Places placesIn(const RowShape &shape, int64_t piece) {
  return placesOf(piece, threadIdx.x, blockDim.x, shape.width, shape.packed);
}

/// The sum (or what `combine` makes) of each of the group's values, in all of its threads. All threads of a block come
/// here together if it is one group.
template <typename T, int Count, typename Combine>
__device__ __forceinline__ void groupReduce(T (&values)[Count], Combine combine) {
#pragma unroll
  for (int lane = kWarp / 2; lane > 0; lane /= 2)
#pragma unroll
    for (int i = 0; i < Count; ++i)
      values[i] = combine(values[i], __shfl_xor_sync(0xffffffffu, values[i], lane));
  if (blockDim.x <= kWarp)
    return;
  __shared__ T parts[Count][kMostThreads / kWarp];
  __syncthreads(); // nobody still reads the parts of an earlier call
  if (threadIdx.x % kWarp == 0)
#pragma unroll
    for (int i = 0; i < Count; ++i)
      parts[i][threadIdx.x / kWarp] = values[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    values[i] = parts[i][0];
    for (int warp = 1; warp < static_cast<int>(blockDim.x) / kWarp; ++warp)
      values[i] = combine(values[i], parts[i][warp]);
  }
}

struct Sum {
  template <typename T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};
struct Largest {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <typename T> __device__ __forceinline__ T groupSum(T value) {
  T values[1] = {value};
  groupReduce(values, Sum());
  return values[0];
}
__device__ __forceinline__ float groupLargest(float value) {
  float values[1] = {value};
  groupReduce(values, Largest());
  return values[0];
}

/// A row that is read in several passes: its first `kHeld` pieces stay in registers, the others are loaded again.
template <int kHeld> struct HeldRow {
  In in;
  int64_t begin = 0;
  float held[kHeld][kOctet];
};

/// Places that are none hold `otherwise`.
template <int kHeld> __device__ __forceinline__ void hold(const RowShape &shape, HeldRow<kHeld> &row, float otherwise) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (i < piecesOf(shape))
      load(row.in, row.begin, placesIn(shape, i), otherwise, row.held[i]);
}

/// visit(places, eight elements) for every piece of a row that holds elements of this thread.
template <int kHeld, typename Visit>
__device__ __forceinline__ void eachPiece(const RowShape &shape, HeldRow<kHeld> &row, float otherwise, Visit visit) {
  int64_t pieces = piecesOf(shape);
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (i < pieces)
      visit(placesIn(shape, i), row.held[i]);
  for (int64_t i = kHeld; i < pieces; ++i) {
    float values[kOctet];
    load(row.in, row.begin, placesIn(shape, i), otherwise, values);
    visit(placesIn(shape, i), values);
  }
}

/// The same for two rows side by side; places that are none hold zero.
template <int kHeld, typename Visit>
__device__ __forceinline__ void eachPiece(const RowShape &shape, HeldRow<kHeld> &first, HeldRow<kHeld> &second,
                                          Visit visit) {
  int64_t pieces = piecesOf(shape);
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (i < pieces)
      visit(placesIn(shape, i), first.held[i], second.held[i]);
  for (int64_t i = kHeld; i < pieces; ++i) {
    float a[kOctet], b[kOctet];
    load(first.in, first.begin, placesIn(shape, i), 0.0f, a);
    load(second.in, second.begin, placesIn(shape, i), 0.0f, b);
    visit(placesIn(shape, i), a, b);
  }
}

__device__ __forceinline__ float octetSum(const float (&x)[kOctet]) {
  return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

/// Largest element of a row, and the sum of e^(x - largest): one pass over memory, rescaled as the largest grows. All
/// threads of the group get both.
struct RowStatistics {
  float most, total;
};
template <int kHeld>
__device__ __forceinline__ RowStatistics rowStatistics(const RowShape &shape, HeldRow<kHeld> &row) {
  const float lowest = -INFINITY;
  float most = lowest, total = 0;
  eachPiece(shape, row, lowest, [&](const Places &, const float(&x)[kOctet]) {
    float before = most, terms[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      most = fmaxf(most, x[i]);
    float shift = most == lowest ? 0.0f : most; // -infinity - -infinity would be no number
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      terms[i] = expf(x[i] - shift);
    total = total * expf(before - shift) + octetSum(terms);
  });
  float overall = groupLargest(most);
  total = groupSum(total * expf(most - (overall == lowest ? 0.0f : overall)));
  return {overall, total};
}

} // namespace mt::kernels::cuda
#endif
