// squared_norm, the one kernel of a step that runs on the device: parts in 64 bits, then their sum by one block, in the
// order of kernels/Blocks.h. Reads its operand once, bound by the memory's bandwidth.
#include "kernels/cuda/Step.h"

#include "kernels/Blocks.h"

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
  double total = groupSum(threadIdx.x < count ? parts[threadIdx.x] : 0.0);
  if (threadIdx.x == 0)
    *norm = total;
}

} // namespace

SquaredNormPartCode squaredNormPartCode() { return squaredNormPart; }
AddPartsCode addPartsCode() { return addParts; }

} // namespace mt::kernels::cuda
