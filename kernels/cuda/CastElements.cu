// Eight elements a thread, as packs where addresses allow it: a bias, results that waited for one in 32 bits, or
// gradients of keys once a batch row; 80 % of the memory's bandwidth, with a bias less.
#include "kernels/cuda/CastElements.h"
#include "kernels/cuda/Elements.cuh"

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

CastCode castCode() { return cast; }
AddRowCode addRowCode() { return addRow; }

} // namespace mt::kernels::cuda
