// Rotary position embedding: eight pairs a thread. The operand is read once and written once, bound by the memory's
// bandwidth where packs can be moved; the angles' tables come from the cache.
#include "kernels/cuda/Rotary.h"

#include "kernels/cuda/Elements.cuh"
#include "kernels/cuda/Views.cuh"

namespace mt::kernels::cuda {
namespace {

/// Eight pairs: the elements first, then their partners.
__device__ __forceinline__ void turn(float direction, const float (&c)[kOctet], const float (&s)[kOctet],
                                     float (&first)[kOctet], float (&second)[kOctet]) {
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    float turned = direction * s[i], x = first[i], y = second[i];
    first[i] = x * c[i] - y * turned;
    second[i] = y * c[i] + x * turned;
  }
}

/// Two octets of neighbours as one of first ones and one of second ones; and back.
__device__ __forceinline__ void part(float (&low)[kOctet], float (&high)[kOctet]) {
  float both[2 * kOctet];
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    both[i] = low[i], both[kOctet + i] = high[i];
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    low[i] = both[2 * i], high[i] = both[2 * i + 1];
}
__device__ __forceinline__ void join(float (&low)[kOctet], float (&high)[kOctet]) {
  float both[2 * kOctet];
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    both[2 * i] = low[i], both[2 * i + 1] = high[i];
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    low[i] = both[i], high[i] = both[kOctet + i];
}

__global__ void __launch_bounds__(kThreads) rotary(const __grid_constant__ RotaryArguments a) {
  int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= a.items)
    return;
  int64_t item, place, rest;
  int64_t headIndex = a.perHead.divide(index, item), token = a.heads.divide(headIndex, rest);
  a.sequence.divide(token, place);
  int64_t begin = headIndex * a.head;
  if (item >= a.pairItems) {
    Places places = {2 * a.pairs + (item - a.pairItems) * kOctet, 1, a.head, a.packed, a.packed};
    float x[kOctet];
    load(Read<float>{a.x, begin, places}, x);
    return store(a.result, begin, places, x);
  }
  Places pairs = {item * kOctet, 1, a.pairs, a.packed, a.packed}, low = pairs;
  if (a.interleaved)
    low.first *= 2, low.size *= 2;
  Places high = low;
  if (a.interleaved)
    high.first += kOctet;
  int64_t table = (a.shared ? place : token) * a.pairs, other = a.interleaved ? begin : begin + a.pairs;
  Read<float> reads[4] = {{a.cosine, table, pairs}, {a.sine, table, pairs}, {a.x, begin, low}, {a.x, other, high}};
  float in[4][kOctet];
  load(reads, in);
  if (a.interleaved)
    part(in[2], in[3]);
  turn(a.direction, in[0], in[1], in[2], in[3]);
  if (a.interleaved)
    join(in[2], in[3]);
  store(a.result, begin, low, in[2]);
  store(a.result, other, high, in[3]);
}

} // namespace

RotaryCode rotaryCode() { return rotary; }

} // namespace mt::kernels::cuda
