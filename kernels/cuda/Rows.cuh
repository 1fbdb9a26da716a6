// Rows of the last dimension worked on by a warp or a block each: who has which elements, elements held in registers
// between passes, and reductions by trees that depend on nothing but the number of threads. Device code of kernels/cuda
// alone.
#ifndef MT_KERNELS_CUDA_ROWS_CUH
#define MT_KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/Elements.cuh"

namespace mt::kernels::cuda {

/// The row of a thread's group, a warp (threadIdx.y counts them) or the block.
__device__ __forceinline__ int64_t groupIndex() { return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; }

/// What is known of shape and operands when code is compiled.
template <RowCode kCode> __device__ __forceinline__ RowShape shapeOf(const RowShape &shape) {
  return {shape.width, kCode != RowCode::any || shape.packed};
}
template <RowCode kCode, typename Operand> __device__ __forceinline__ Operand typed(Operand operand) {
  operand.type = kCode == RowCode::f32 ? DType::f32 : kCode == RowCode::bf16 ? DType::bf16 : operand.type;
  return operand;
}
template <RowCode kCode> __device__ __forceinline__ In parameter(In in) {
  return typed < kCode == RowCode::any ? RowCode::any : RowCode::f32 > (in);
}

/// This thread's places in a piece of a row, of those that the threads of a group share.
__device__ __forceinline__ Places placesIn(const RowShape &shape, int64_t piece) {
  Places places = placesOf(piece, threadIdx.x, blockDim.x, shape.width, shape.packed);
  places.exact = shape.packed;
  return places;
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
struct HeldRow {
  In in;
  int64_t begin = 0;
  float held[kHeld][kOctet];
};

/// Places that are none hold `otherwise`.
__device__ __forceinline__ void hold(const RowShape &shape, HeldRow &row, float otherwise) {
  Read<float> reads[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    reads[i] = {row.in, row.begin, placesIn(shape, i), otherwise};
  load(reads, row.held);
}

/// visit(places, eight elements) for every piece of a row that holds elements of this thread.
template <typename Visit>
__device__ __forceinline__ void eachPiece(const RowShape &shape, HeldRow &row, float otherwise, Visit visit) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (Places places = placesIn(shape, i); !places.none())
      visit(places, row.held[i]);
  Places places = placesIn(shape, kHeld);
  for (int64_t i = kHeld; !places.none(); places = placesIn(shape, ++i)) {
    float values[kOctet];
    load(Read<float>{row.in, row.begin, places, otherwise}, values);
    visit(places, values);
  }
}

/// visit(places, eight elements of each) for the pieces of two rows side by side, which are not kept.
template <typename Visit>
__device__ __forceinline__ void eachPiece(const RowShape &shape, In first, In second, int64_t begin, Visit visit) {
  Places places = placesIn(shape, 0);
  for (int64_t i = 0; !places.none(); places = placesIn(shape, ++i)) {
    Read<float> reads[2] = {{first, begin, places}, {second, begin, places}};
    float values[2][kOctet];
    load(reads, values);
    visit(places, values[0], values[1]);
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
__device__ __forceinline__ RowStatistics rowStatistics(const RowShape &shape, HeldRow &row) {
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
