// Loops over rows of f32 in whole Highway vectors, the last and partial one through padded copies: every element goes
// through the same arithmetic wherever it stands. Included once a target.
#if defined(MT_KERNELS_CPU_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MT_KERNELS_CPU_ROWS_INL_H
#undef MT_KERNELS_CPU_ROWS_INL_H
#else
#define MT_KERNELS_CPU_ROWS_INL_H
#endif

#include "hwy/highway.h"

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace mt::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V all(float value) { return hn::Set(D(), value); }

/// Fewer floats than a vector has: with zeros behind them to a vector in memory, and of a vector to where no more than
/// they may be written.
HWY_INLINE void bringRest(const float *from, int64_t count, float *padded) {
#if HWY_TARGET <= HWY_AVX2 // which reads no more than a mask says
  hn::Store(hn::MaskedLoad(hn::FirstN(D(), static_cast<size_t>(count)), D(), from), D(), padded);
#else
  std::memset(padded, 0, hn::Lanes(D()) * sizeof(float));
  std::memcpy(padded, from, static_cast<size_t>(count) * sizeof(float));
#endif
}
HWY_INLINE void putRest(V values, int64_t count, float *to) {
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(values, hn::FirstN(D(), static_cast<size_t>(count)), D(), to);
#else
  HWY_ALIGN float padded[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(values, D(), padded);
  std::memcpy(to, padded, static_cast<size_t>(count) * sizeof(float));
#endif
}

/// Calls step(in, out): it reads a vector from each `in` and writes one to each `out`, which may be the same rows.
template <int In, int Out, class Step>
HWY_INLINE void inVectors(const float *const *in, float *const *out, int64_t count, Step step) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  const float *from[In];
  float *to[Out];
  for (; i + lanes <= count; i += lanes) {
    for (int k = 0; k < In; ++k)
      from[k] = in[k] + i;
    for (int k = 0; k < Out; ++k)
      to[k] = out[k] + i;
    step(from, to);
  }
  if (i == count)
    return;
  HWY_ALIGN float padded[In + Out][HWY_MAX_BYTES / sizeof(float)];
  for (int k = 0; k < In; ++k) {
    bringRest(in[k] + i, count - i, padded[k]);
    from[k] = padded[k];
  }
  for (int k = 0; k < Out; ++k)
    to[k] = padded[In + k];
  step(from, to);
  for (int k = 0; k < Out; ++k)
    putRest(hn::Load(D(), padded[In + k]), count - i, out[k] + i);
}

template <int In, class Term> HWY_INLINE V termAt(const float *const *in, int64_t i, Term term) {
  const float *from[In];
  for (int k = 0; k < In; ++k)
    from[k] = in[k] + i;
  return term(from);
}

constexpr int64_t kSumBlock = 512;
/// Sum of term(in) over a row: four vectors of sums over kSumBlock elements at a time, then double.
template <int In, class Term> HWY_INLINE double summed(const float *const *in, int64_t count, Term term) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kSumBlock) {
    const int64_t end = begin + kSumBlock < count ? begin + kSumBlock : count;
    V sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    int64_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      sum0 = hn::Add(sum0, termAt<In>(in, i, term));
      sum1 = hn::Add(sum1, termAt<In>(in, i + lanes, term));
      sum2 = hn::Add(sum2, termAt<In>(in, i + 2 * lanes, term));
      sum3 = hn::Add(sum3, termAt<In>(in, i + 3 * lanes, term));
    }
    for (; i + lanes <= end; i += lanes)
      sum0 = hn::Add(sum0, termAt<In>(in, i, term));
    if (i < end) {
      HWY_ALIGN float padded[In][HWY_MAX_BYTES / sizeof(float)];
      const float *from[In];
      for (int k = 0; k < In; ++k) {
        bringRest(in[k] + i, end - i, padded[k]);
        from[k] = padded[k];
      }
      V last = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(end - i)), term(from));
      sum1 = hn::Add(sum1, last);
    }
    V all = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, all)));
  }
  return total;
}

} // namespace HWY_NAMESPACE
} // namespace mt::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
