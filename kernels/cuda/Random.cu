// dropout and random: eight elements a thread, whose words come from two blocks of Philox where the first is the first
// of a block, and from three otherwise. Dropout reads and writes every element once; the words take longer than that.
#include "kernels/cuda/Random.h"

#include "kernels/cuda/Elements.cuh"
#include "kernels/cuda/Views.cuh"

namespace mt::kernels::cuda {
namespace {

/// The number of an element.
__device__ __forceinline__ uint64_t numberOf(const RandomCall &call, int64_t at) {
  if (!call.numbers)
    return static_cast<uint64_t>(at);
  int64_t within, row;
  int64_t line = call.inner.divide(at, within), part = call.rows.divide(line, row);
  return call.numbering.first(part, call.numbers[row]) + static_cast<uint64_t>(within);
}

/// Words of numbers that mostly follow each other: the last block is kept.
class Drawn {
public:
  __device__ __forceinline__ explicit Drawn(const Draw &draw) : draw(draw), block(0), words(draw.words(0)) {}

  __device__ __forceinline__ uint32_t word(uint64_t number) {
    if (number / 4 != block) {
      block = number / 4;
      words = draw.words(block);
    }
    const uint32_t even = number & 1 ? words.at[1] : words.at[0], odd = number & 1 ? words.at[3] : words.at[2];
    return number & 2 ? odd : even;
  }

private:
  const Draw &draw;
  uint64_t block;
  Words words;
};

__device__ __noinline__ float normalOf(Drawn &drawn, uint64_t number) {
  float first, second;
  const uint32_t even = drawn.word(number & ~uint64_t{1}), odd = drawn.word(number | 1);
  normalsOf(even, odd, first, second);
  return number & 1 ? second : first;
}

__device__ __forceinline__ float valueOf(const RandomCall &call, const Draw &draw, Drawn &drawn, uint64_t number,
                                         float x) {
  if (call.kind == RandomKind::normal)
    return normalOf(drawn, number);
  if (call.kind == RandomKind::uniform)
    return uniformOf(drawn.word(number));
  if (!draw.trains)
    return call.kind == RandomKind::dropout ? x : 1.0f;
  return drawn.word(number) >= call.least ? call.kind == RandomKind::dropout ? __fmul_rn(x, call.scale) : 1.0f : 0.0f;
}

__global__ void __launch_bounds__(kThreads) random(const __grid_constant__ RandomCall call) {
  Places places = placesOf(blockIdx.x, threadIdx.x, kThreads, call.total, call.packed);
  if (places.none())
    return;
  float values[kOctet];
  load(Read<float>{call.x, 0, places}, values);
  const Draw draw = Draw::of(call.scalars, *call.node);
  Drawn drawn(draw);
#pragma unroll 1
  for (int i = 0; i < kOctet; ++i)
    if (places.at(i) < places.size)
      values[i] = valueOf(call, draw, drawn, numberOf(call, places.at(i)), values[i]);
  store(call.result, 0, places, values);
}

} // namespace

RandomCode randomCode() { return random; }

} // namespace mt::kernels::cuda
