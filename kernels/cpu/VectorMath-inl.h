// Elementary functions on Highway vectors of float that hold for every argument, infinities and NaN included. Included
// once a target, between foreach_target.h and the code that uses them.
#if defined(MT_KERNELS_CPU_VECTORMATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MT_KERNELS_CPU_VECTORMATH_INL_H
#undef MT_KERNELS_CPU_VECTORMATH_INL_H
#else
#define MT_KERNELS_CPU_VECTORMATH_INL_H
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mt::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class V> HWY_INLINE V keepNan(V x, V y) { return hn::IfThenElse(hn::IsNaN(x), x, y); }

/// As nearest(): the bits of the bf16, in the lower halves.
template <class V> HWY_INLINE auto nearestBits(V x) {
  const hn::RebindToUnsigned<hn::DFromV<V>> whole;
  const auto bits = hn::BitCast(whole, x), upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(whole, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(whole, 0x7fff))));
  const auto nan = hn::Or(upper, hn::Set(whole, 0x40));
  return hn::IfThenElse(hn::RebindMask(whole, hn::IsNaN(x)), nan, rounded);
}
/// The nearest that bf16 holds.
template <class V> HWY_INLINE V nearestInBf16(V x) {
  return hn::BitCast(hn::DFromV<V>(), hn::ShiftLeft<16>(nearestBits(x)));
}

/// e^x; the library's holds up to 104, from where on the result is infinite anyway.
template <class D, class V> HWY_INLINE V expOf(D d, V x) {
  return keepNan(x, hn::Exp(d, hn::Min(x, hn::Set(d, 104.0f))));
}

/// e^x for finite or -infinite x <= 0.
template <class D, class V> HWY_INLINE V expNegative(D d, V x) { return hn::Exp(d, x); }

template <class D, class V> HWY_INLINE V logOf(D d, V x) {
  const float infinity = hwy::HighestValue<float>() * 2.0f;
  V y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Set(d, infinity)), x, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -infinity), y);
  return keepNan(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, infinity - infinity), y));
}

template <class D, class V> HWY_INLINE V tanhOf(D d, V x) { return keepNan(x, hn::Tanh(d, x)); }

template <class D, class V> HWY_INLINE V sigmoidOf(D d, V x) {
  V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, expOf(d, hn::Neg(x))));
}

template <class D, class V> HWY_INLINE V softplusOf(D d, V x) {
  V small = hn::Log1p(d, expOf(d, hn::Neg(hn::Abs(x))));
  return keepNan(x, hn::Add(hn::Max(x, hn::Zero(d)), small));
}

/// c[0] + x * (c[1] + x * ...)
template <size_t Count, class D, class V> HWY_INLINE V polynomial(D d, V x, const float (&c)[Count]) {
  V y = hn::Set(d, c[Count - 1]);
  for (size_t i = Count - 1; i-- > 0;)
    y = hn::MulAdd(y, x, hn::Set(d, c[i]));
  return y;
}

/// erf: x * P(x^2) up to 1, 1 - e^(-x^2) * Q(1 / x) from there to 5; Chebyshev fits of our own, absolute error 1.5e-7.
template <class D, class V> HWY_INLINE V erfOf(D d, V x) {
  static constexpr float kNear[] = {1.1283791065216064f,   -0.3761262595653534f,  0.11283597350120544f,
                                    -0.02685432881116867f, 0.005189312156289816f, -0.0008018855005502701f,
                                    7.882497448008507e-05f};
  static constexpr float kFar[] = {0.00027678333572112024f, 0.5587236285209656f,   0.04557839781045914f,
                                   -0.4899293780326843f,    0.5485301613807678f,   -0.32720065116882324f,
                                   0.10622300952672958f,    -0.014618303626775742f};
  V size = hn::Min(hn::Abs(x), hn::Set(d, 5.0f)), square = hn::Mul(size, size), one = hn::Set(d, 1.0f);
  V near = hn::Mul(size, polynomial(d, square, kNear));
  V inverse = hn::Div(one, hn::Max(size, one));
  V far = hn::NegMulAdd(expNegative(d, hn::Neg(square)), polynomial(d, inverse, kFar), one);
  return keepNan(x, hn::CopySign(hn::IfThenElse(hn::Lt(size, one), near, far), x));
}

} // namespace HWY_NAMESPACE
} // namespace mt::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
