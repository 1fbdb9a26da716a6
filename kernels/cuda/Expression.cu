// `elementwise`: every thread computes eight elements by all instructions, one after another, its values in shared memory;
// what is read is under way four operands at a time. Bound by the memory's bandwidth while the instructions are few: one
// moves some 3 x 32 bytes of shared memory.
#include "kernels/cuda/Expression.h"
#include "kernels/cuda/Operations.cuh"
#include "kernels/cuda/Views.cuh"

namespace mt::kernels::cuda {
namespace {

constexpr int kUnderWay = 4;

/// The values of a block's threads: those of one thread are its own.
using Values = float[kExpressionSlots][kOctet][kExpressionThreads];

__device__ __forceinline__ void get(const Values &values, int slot, float (&out)[kOctet]) {
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    out[i] = values[slot][i][threadIdx.x];
}
__device__ __forceinline__ void put(Values &values, int slot, const float (&in)[kOctet]) {
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    values[slot][i][threadIdx.x] = in[i];
}

__device__ __forceinline__ void round(DType type, float (&values)[kOctet]) {
  if (type == DType::f32)
    return;
  withStorage<float>(type, [&](auto storage) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      values[i] = fromStorage<float>(toStorage<decltype(storage)>(values[i]));
  });
}

/// Element by element, wherever they lie.
__device__ __noinline__ void readScattered(const ExpressionRead &read, Places places, float *out) {
  withStorage<float>(read.in.type, [&](auto storage) {
    for (int i = 0; i < kOctet; ++i) {
      int64_t offset[1] = {0};
      if (places.at(i) < places.size)
        read.view.offsets(places.at(i), offset);
      out[i] = places.at(i) < places.size
                   ? fromStorage<float>(static_cast<const decltype(storage) *>(read.in.data)[offset[0]])
                   : 0.0f;
    }
  });
}

__device__ __forceinline__ bool repeats(const ExpressionRead &read) {
  return read.view.rank == 0 || read.view.strides[0][read.view.rank - 1] == 0;
}

/// Packs, or one element for all eight.
__device__ __forceinline__ void readPacks(const ExpressionArguments &a, int from, const Places &places, Values &values) {
  Raw<float> raw[kUnderWay];
  float one[kUnderWay];
#pragma unroll
  for (int k = 0; k < kUnderWay; ++k) {
    if (from + k >= a.reads)
      continue;
    const ExpressionRead &read = a.read[from + k];
    int64_t offset[1];
    read.view.offsets(places.first, offset);
    if (repeats(read))
      one[k] = loadOne<float>(read.in.type, read.in.data, offset[0]);
    else
      raw[k] = bring<float>(read.in.type, read.in.data, offset[0]);
  }
#pragma unroll
  for (int k = 0; k < kUnderWay; ++k) {
    if (from + k >= a.reads)
      continue;
    const ExpressionRead &read = a.read[from + k];
    float out[kOctet];
    if (repeats(read)) {
#pragma unroll
      for (int i = 0; i < kOctet; ++i)
        out[i] = one[k];
    } else {
      widen(read.in.type, raw[k], out);
    }
    put(values, read.slot, out);
  }
}

__device__ __forceinline__ void readAll(const ExpressionArguments &a, const Places &places, Values &values) {
  for (int from = 0; places.whole() && from < a.reads; from += kUnderWay)
    readPacks(a, from, places, values);
  for (int n = 0; !places.whole() && n < a.reads; ++n) {
    float out[kOctet];
    readScattered(a.read[n], places, out);
    put(values, a.read[n].slot, out);
  }
}

template <typename What>
__device__ __forceinline__ void call(const ExpressionStep &step, const Values &values, float (&out)[kMostOut][kOctet]) {
  float in[What::kIn][kOctet], made[What::kOut][kOctet];
#pragma unroll
  for (int n = 0; n < What::kIn; ++n)
    get(values, step.in[n], in[n]);
  What::apply(step.function, in, made);
#pragma unroll
  for (int n = 0; n < What::kOut; ++n)
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[n][i] = made[n][i];
}

__device__ __forceinline__ void compute(const ExpressionStep &step, const Values &values, float (&out)[kMostOut][kOctet]) {
  switch (step.kind) {
  case ExpressionStep::cast:
    return get(values, step.in[0], out[0]);
  case ExpressionStep::invert:
    get(values, step.in[0], out[0]);
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[0][i] = out[0][i] == 0.0f ? 1.0f : 0.0f;
    return;
  case ExpressionStep::constant:
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[0][i] = step.number;
    return;
  case ExpressionStep::call:
    break;
  }
  switch (step.operation) {
  case Operation::unary:
    return call<Unary>(step, values, out);
  case Operation::binary:
    return call<Binary>(step, values, out);
  case Operation::select:
    return call<Select>(step, values, out);
  case Operation::slope:
    return call<OfActivation<Slope>>(step, values, out);
  case Operation::gate:
    return call<OfActivation<Gate>>(step, values, out);
  case Operation::gateGrad:
    return call<OfActivation<GateGrad>>(step, values, out);
  }
}

__global__ void __launch_bounds__(kExpressionThreads) expression(const __grid_constant__ ExpressionArguments a) {
  __shared__ Values values;
  const Places places = placesOf(blockIdx.x, threadIdx.x, kExpressionThreads, a.total, a.packed);
  if (places.none())
    return;
  readAll(a, places, values);
#pragma unroll 1
  for (int s = 0; s < a.steps; ++s) {
    const ExpressionStep &step = a.step[s];
    float out[kMostOut][kOctet];
    compute(step, values, out);
#pragma unroll
    for (int n = 0; n < kMostOut; ++n) {
      if (step.out[n] == kNowhere && step.write[n] == kNowhere)
        continue;
      if (step.write[n] != kNowhere)
        store(a.write[step.write[n]], 0, places, out[n]);
      round(step.type, out[n]);
      if (step.out[n] != kNowhere)
        put(values, step.out[n], out[n]);
    }
  }
}

} // namespace

ExpressionCode expressionCode() { return expression; }

} // namespace mt::kernels::cuda
