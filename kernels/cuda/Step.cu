// What of a step runs on the device beside its layers, each operand read once, bound by the memory's bandwidth.
// squared_norm: parts in 64 bits, then their sum by one block, in the order of kernels/Blocks.h. pairwise_sum: an octet
// a thread.
#include "kernels/cuda/Step.h"

#include "kernels/Blocks.h"
#include "kernels/Random.h"

#include "kernels/cuda/Rows.cuh"

namespace mt::kernels::cuda {
namespace {

constexpr int kAhead = 2; // octets that a thread waits for at once

__global__ void __launch_bounds__(kThreads)
    squaredNormPart(In x, int64_t elements, int64_t size, bool packed, double *parts) {
  int64_t begin = blockIdx.x * size, end = begin + size < elements ? begin + size : elements;
  static_assert(kNormSums == kThreads && kNormLanes == kThreads * kOctet);
  double sums[kOctet] = {}, total = 0;
  for (int64_t piece = 0; piece * kOctet * kThreads < end - begin; piece += kAhead) {
    Read<float> reads[kAhead];
    float values[kAhead][kOctet];
#pragma unroll
    for (int n = 0; n < kAhead; ++n)
      reads[n] = {x, begin, {(piece + n) * kNormLanes + threadIdx.x * kOctet, 1, end - begin, packed}};
    load(reads, values);
#pragma unroll
    for (int n = 0; n < kAhead; ++n)
#pragma unroll
      for (int i = 0; i < kOctet; ++i)
        sums[i] += static_cast<double>(values[n][i]) * static_cast<double>(values[n][i]);
  }
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    total += sums[i];
  total = groupSum(total);
  if (threadIdx.x == 0)
    parts[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads) addParts(const double *parts, int64_t count, double *norm) {
  double total = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads)
    total += parts[i];
  total = groupSum(total);
  if (threadIdx.x == 0)
    *norm = total;
}

/// Of terms [First, First + Count), as the catalogue says: a power of two of them by halves, others the largest block
/// first.
template <int First, int Count, int N>
__device__ __forceinline__ float treeSum(const float (&values)[N][kOctet], int i) {
  if constexpr (Count == 1) {
    return values[First][i];
  } else {
    constexpr int kFloor = Count >= 8 ? 8 : Count >= 4 ? 4 : 2, kLeft = kFloor == Count ? Count / 2 : kFloor;
    return treeSum<First, kLeft>(values, i) + treeSum<First + kLeft, Count - kLeft>(values, i);
  }
}

template <int N>
__global__ void __launch_bounds__(kThreads) pairwiseSum(Terms terms, Out sum, int64_t elements, bool packed) {
  Read<float> reads[N];
  float values[N][kOctet], out[kOctet];
  Places places = placesOf(blockIdx.x, threadIdx.x, kThreads, elements, packed);
#pragma unroll
  for (int n = 0; n < N; ++n)
    reads[n] = {In{terms.at[n], terms.type}, 0, places};
  load(reads, values);
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    out[i] = treeSum<0, N>(values, i);
  store(sum, 0, places, out);
}

__global__ void __launch_bounds__(kThreads)
    runningStatistic(const float *own, const float *running, const double *scalars, float *result, int64_t count) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count)
    result[i] = Draw::of(scalars, 0).trains ? own[i] : running[i];
}

} // namespace

PairwiseSumCode pairwiseSumCode(int64_t terms) {
  static constexpr PairwiseSumCode kCodes[kSumTerms] = {pairwiseSum<1>, pairwiseSum<2>, pairwiseSum<3>, pairwiseSum<4>,
                                                        pairwiseSum<5>, pairwiseSum<6>, pairwiseSum<7>, pairwiseSum<8>};
  return kCodes[terms - 1];
}

SquaredNormPartCode squaredNormPartCode() { return squaredNormPart; }
AddPartsCode addPartsCode() { return addParts; }
RunningStatisticCode runningStatisticCode() { return runningStatistic; }

} // namespace mt::kernels::cuda
