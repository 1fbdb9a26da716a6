// squared_norm, the one kernel of a step that runs on the device: parts in 64 bits, then their sum by one block. Reads
// its operand once, at 85 % of the memory's bandwidth.
#include "kernels/cuda/Step.h"

#include "kernels/cuda/Rows.cuh"

namespace mt::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    squaredNormPart(In x, int64_t elements, int64_t size, bool packed, double *parts) {
  int64_t begin = blockIdx.x * size, end = begin + size < elements ? begin + size : elements;
  RowShape shape = {end - begin, packed};
  double total = 0;
#pragma unroll 2
  for (int64_t piece = 0; piece < piecesOf(shape); ++piece) {
    float values[kOctet];
    load(x, begin, placesIn(shape, piece), 0.0f, values);
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
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
