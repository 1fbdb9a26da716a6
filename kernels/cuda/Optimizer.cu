// Updates of whole and of split weights: each element is read and written once, bound by the memory's bandwidth.
// Every operation rounds as the host's does, so that an update has the same bits wherever it runs: no contraction but
// where the host's code says so (kernels/cpu/Vector.cpp), and what all elements share in 64 bits.
#include "kernels/cuda/Optimizer.h"

#include "kernels/cuda/Fault.h"

namespace mt::kernels::cuda {
namespace {

__device__ __forceinline__ float joined(uint16_t upper, int16_t lower) {
  return __uint_as_float((static_cast<uint32_t>(upper) << 16) + static_cast<uint32_t>(static_cast<int32_t>(lower)));
}
__device__ __forceinline__ bool isFinite(double value) { return value - value == 0; }
__device__ __forceinline__ bool fits(float value, bool split) {
  return (__float_as_uint(value) & 0x7fffffffU) < (split ? 0x7f7f8000U : 0x7f800000U);
}

__device__ float clipOf(const double *scalars) {
  return scalars[Scalars::kClipScale] < 1 ? static_cast<float>(scalars[Scalars::kClipScale]) : 1.0f;
}

struct AdamW {
  static constexpr int kState = 2;
  float clip, keep, towards1, beta2, towards2, root2, epsilon, step;
  __device__ void read(const UpdateCall &call) {
    const double *s = call.scalars;
    const double rate = s[Scalars::kLearningRate];
    clip = clipOf(s);
    keep = static_cast<float>(__dsub_rn(1, __dmul_rn(rate, s[Scalars::kDecay])));
    towards1 = static_cast<float>(__dsub_rn(1, s[Scalars::kBeta1]));
    beta2 = static_cast<float>(s[Scalars::kBeta2]);
    towards2 = static_cast<float>(__dsub_rn(1, s[Scalars::kBeta2]));
    root2 = static_cast<float>(__dsqrt_rn(s[Scalars::kBiasCorrection2]));
    epsilon = static_cast<float>(s[Scalars::kEpsilon]);
    step = static_cast<float>(__ddiv_rn(rate, s[Scalars::kBiasCorrection1]));
  }
  __device__ __forceinline__ void operator()(float gradient, float &weight, float &first, float &second) const {
    gradient = __fmul_rn(gradient, clip);
    first = __fmaf_rn(towards1, __fsub_rn(gradient, first), first);
    second = __fmaf_rn(__fmul_rn(towards2, gradient), gradient, __fmul_rn(second, beta2));
    float denominator = __fadd_rn(__fdiv_rn(__fsqrt_rn(second), root2), epsilon);
    weight = __fsub_rn(__fmul_rn(weight, keep), __fdiv_rn(__fmul_rn(step, first), denominator));
  }
};

struct Sgd {
  static constexpr int kState = 1;
  float clip, decay, momentum, rate;
  __device__ void read(const UpdateCall &call) {
    const double *s = call.scalars;
    clip = clipOf(s);
    decay = static_cast<float>(s[Scalars::kDecay]);
    momentum = static_cast<float>(s[Scalars::kMomentum]);
    rate = static_cast<float>(s[Scalars::kLearningRate]);
  }
  __device__ __forceinline__ void operator()(float gradient, float &weight, float &first, float &) const {
    gradient = __fmaf_rn(weight, decay, __fmul_rn(gradient, clip));
    first = __fmaf_rn(first, momentum, gradient);
    weight = __fmaf_rn(-first, rate, weight);
  }
};

struct Lion {
  static constexpr int kState = 1;
  float clip, keep, towards1, towards2, rate;
  __device__ void read(const UpdateCall &call) {
    const double *s = call.scalars;
    clip = clipOf(s);
    keep = static_cast<float>(__dsub_rn(1, __dmul_rn(s[Scalars::kLearningRate], s[Scalars::kDecay])));
    towards1 = static_cast<float>(__dsub_rn(1, s[Scalars::kBeta1]));
    towards2 = static_cast<float>(__dsub_rn(1, s[Scalars::kBeta2]));
    rate = static_cast<float>(s[Scalars::kLearningRate]);
  }
  __device__ __forceinline__ void operator()(float gradient, float &weight, float &first, float &) const {
    const float away = __fsub_rn(__fmul_rn(gradient, clip), first);
    const float direction = __fmaf_rn(towards1, away, first);
    const float moved = direction != 0 ? copysignf(rate, direction) : 0.0f;
    weight = __fsub_rn(__fmul_rn(weight, keep), moved);
    first = __fmaf_rn(towards2, away, first);
  }
};

struct Replace {
  static constexpr int kState = 0;
  __device__ void read(const UpdateCall &) {}
  __device__ __forceinline__ void operator()(float gradient, float &weight, float &, float &) const {
    weight = gradient;
  }
};

template <typename T, int kCount> struct alignas(sizeof(T) * kCount) Packed { T at[kCount]; };
template <int kCount, typename T> __device__ __forceinline__ Packed<T, kCount> packAt(const T *from) {
  return *reinterpret_cast<const Packed<T, kCount> *>(from);
}
template <typename T, int kCount> __device__ __forceinline__ void putPack(T *to, const Packed<T, kCount> &values) {
  *reinterpret_cast<Packed<T, kCount> *>(to) = values;
}

/// Elements [at, at + count) of an operand, as many as a quad has or fewer at the end; side by side where that is allowed.
template <typename T> __device__ __forceinline__ Packed<T, kQuad> fetch(const T *from, int64_t at, int count, bool whole) {
  if (whole)
    return packAt<kQuad>(from + at);
  Packed<T, kQuad> values = {};
#pragma unroll
  for (int i = 0; i < kQuad; ++i) // known indices: values stay in registers
    if (i < count)
      values.at[i] = from[at + i];
  return values;
}
template <typename T> __device__ __forceinline__ void put(T *to, int64_t at, int count, bool whole, const Packed<T, kQuad> &values) {
  if (whole)
    return putPack(to + at, values);
#pragma unroll
  for (int i = 0; i < kQuad; ++i)
    if (i < count)
      to[at + i] = values.at[i];
}

/// As on the host nothing of a block of 512 elements is written where one of its new weights cannot be kept.
template <typename Rule, bool kSplit>
__global__ void __launch_bounds__(kUpdateThreads) update(const __grid_constant__ UpdateCall call) {
  if (call.scalars[Scalars::kStep] == 0) // nothing is pending
    return;
  if (!isFinite(*call.squaredNorm)) {
    *call.fault = static_cast<uint32_t>(Fault::notFinite);
    return;
  }
  __shared__ Rule shared; // arithmetic in 64 bits is slow on many devices: once a block
  __shared__ float towards;
  if (threadIdx.x == 0) {
    shared.read(call);
    towards = static_cast<float>(__dsub_rn(1, call.scalars[Scalars::kAverageDecay]));
  }
  __syncthreads();
  const Rule rule = shared;
  const int64_t at = (int64_t{blockIdx.x} * kUpdateThreads + threadIdx.x) * kQuad, left = call.elements - at;
  const int count = left <= 0 ? 0 : left < kQuad ? static_cast<int>(left) : kQuad;
  const bool whole = call.aligned && count == kQuad;
  Packed<float, kQuad> first = {}, second = {}, weight;
  const Packed<float, kQuad> gradient = fetch(call.gradient, at, count, whole);
  if constexpr (Rule::kState > 0)
    first = fetch(call.first, at, count, whole);
  if constexpr (Rule::kState > 1)
    second = fetch(call.second, at, count, whole);
  Packed<float, kQuad> average = {};
  if (call.average)
    average = fetch(call.average, at, count, whole);
  if constexpr (kSplit) {
    const auto upper = fetch(static_cast<const uint16_t *>(call.weight), at, count, whole);
    const auto lower = fetch(call.remainder, at, count, whole);
#pragma unroll
    for (int i = 0; i < kQuad; ++i)
      weight.at[i] = joined(upper.at[i], lower.at[i]);
  } else {
    weight = fetch(static_cast<const float *>(call.weight), at, count, whole);
  }
  bool refused = false;
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    rule(gradient.at[i], weight.at[i], first.at[i], second.at[i]);
    refused |= i < count && !fits(weight.at[i], kSplit);
  }
  if (__syncthreads_or(refused)) {
    *call.fault = static_cast<uint32_t>(Fault::notFinite);
    return;
  }
  if constexpr (kSplit) {
    Packed<uint16_t, kQuad> upper;
    Packed<int16_t, kQuad> lower;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const uint32_t bits = __float_as_uint(weight.at[i]), half = (bits + 0x8000U) >> 16;
      upper.at[i] = static_cast<uint16_t>(half);
      lower.at[i] = static_cast<int16_t>(bits - (half << 16));
    }
    put(static_cast<uint16_t *>(call.weight), at, count, whole, upper);
    put(call.remainder, at, count, whole, lower);
  } else {
    put(static_cast<float *>(call.weight), at, count, whole, weight);
  }
  if constexpr (Rule::kState > 0)
    put(call.first, at, count, whole, first);
  if constexpr (Rule::kState > 1)
    put(call.second, at, count, whole, second);
  if (!call.average)
    return;
#pragma unroll
  for (int i = 0; i < kQuad; ++i)
    average.at[i] = __fmaf_rn(towards, __fsub_rn(weight.at[i], average.at[i]), average.at[i]);
  put(call.average, at, count, whole, average);
}

} // namespace

UpdateCode adamwCode(bool split) { return split ? update<AdamW, true> : update<AdamW, false>; }
UpdateCode sgdCode(bool split) { return split ? update<Sgd, true> : update<Sgd, false>; }
UpdateCode replaceCode(bool split) { return split ? update<Replace, true> : update<Replace, false>; }
UpdateCode lionCode(bool split) { return split ? update<Lion, true> : update<Lion, false>; }

} // namespace mt::kernels::cuda
