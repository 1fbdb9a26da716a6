// Rotary position embedding: eight pairs a thread. The operand is read once and written once, at 85 % of the memory's
// bandwidth where packs can be moved; the angles' tables come from the cache.
#include "kernels/cuda/Rotary.h"

#include "kernels/cuda/Elements.cuh"
#include "kernels/cuda/Views.cuh"

namespace mt::kernels::cuda {
namespace {

__device__ __forceinline__ void turn(const RotaryArguments &a, float (&first)[kOctet], float (&second)[kOctet],
                                     const float (&c)[kOctet], const float (&s)[kOctet]) {
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    float turned = a.direction * s[i], x = first[i], y = second[i];
    first[i] = x * c[i] - y * turned;
    second[i] = y * c[i] + x * turned;
  }
}

/// Eight pairs whose halves lie `pairs` apart.
__device__ __forceinline__ void turnHalves(const RotaryArguments &a, int64_t begin, const Places &places,
                                           const float (&c)[kOctet], const float (&s)[kOctet]) {
  float first[kOctet], second[kOctet];
  load(a.x, begin, places, 0.0f, first);
  load(a.x, begin + a.pairs, places, 0.0f, second);
  turn(a, first, second, c, s);
  store(a.result, begin, places, first);
  store(a.result, begin + a.pairs, places, second);
}

/// Eight pairs of neighbours: two octets.
__device__ __forceinline__ void turnNeighbours(const RotaryArguments &a, int64_t begin, const Places &places,
                                               const float (&c)[kOctet], const float (&s)[kOctet]) {
  Places low = {2 * places.first, 1, 2 * places.size, places.packed}, high = low;
  high.first += kOctet;
  float x[2][kOctet], first[kOctet], second[kOctet];
  load(a.x, begin, low, 0.0f, x[0]);
  load(a.x, begin, high, 0.0f, x[1]);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    first[i] = x[i / 4][2 * i % kOctet];
    second[i] = x[i / 4][2 * i % kOctet + 1];
  }
  turn(a, first, second, c, s);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    x[i / 4][2 * i % kOctet] = first[i];
    x[i / 4][2 * i % kOctet + 1] = second[i];
  }
  store(a.result, begin, low, x[0]);
  store(a.result, begin, high, x[1]);
}

__global__ void __launch_bounds__(kThreads) rotary(const __grid_constant__ RotaryArguments a) {
  int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= a.items)
    return;
  int64_t item, place, other;
  int64_t headIndex = a.perHead.divide(index, item), token = a.heads.divide(headIndex, other);
  a.sequence.divide(token, place);
  int64_t begin = headIndex * a.head;
  if (item >= a.pairItems) {
    Places places = {2 * a.pairs + (item - a.pairItems) * kOctet, 1, a.head, a.packed};
    float x[kOctet];
    load(a.x, begin, places, 0.0f, x);
    return store(a.result, begin, places, x);
  }
  Places places = {item * kOctet, 1, a.pairs, a.packed};
  int64_t table = (a.shared ? place : token) * a.pairs;
  float c[kOctet], s[kOctet];
  load(a.cosine, table, places, 0.0f, c);
  load(a.sine, table, places, 0.0f, s);
  a.interleaved ? turnNeighbours(a, begin, places, c, s) : turnHalves(a, begin, places, c, s);
}

} // namespace

RotaryCode rotaryCode() { return rotary; }

} // namespace mt::kernels::cuda
