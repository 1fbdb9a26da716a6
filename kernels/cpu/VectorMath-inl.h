// Elementary functions on Highway vectors of float that hold for every argument, infinities and NaN included. Included
// once a target, between foreach_target.h and the code that uses them. Those that call Highway without its namespace
// are also read by Traced values (ChainSteps.cpp), whose operations are found where they are.
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

template <class V> HWY_INLINE V keepNan(V x, V y) { return IfThenElse(IsNaN(x), x, y); }

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

/// x within [low, high], or NaN.
template <class D, class V> HWY_INLINE V clampOrNan(D d, V x, float low, float high) {
#if HWY_ARCH_X86 // whose instructions give their second operand where one is NaN
  return Min(Set(d, high), Max(Set(d, low), x));
#else
  return keepNan(x, Min(Max(x, Set(d, low)), Set(d, high)));
#endif
}

/// c[0] + x * (c[1] + x * ...)
template <size_t Count, class D, class V> HWY_INLINE V polynomial(D d, V x, const float (&c)[Count]) {
  V y = Set(d, c[Count - 1]);
  for (size_t i = Count - 1; i-- > 0;)
    y = MulAdd(y, x, Set(d, c[i]));
  return y;
}

/// Powers below which timesPowerOfTwo() is zero. What is too small even for a subnormal number is zeroed before it is
/// multiplied: a result that underflows takes some processors thirty times as long, and hidden scores are such.
inline constexpr float kLeastPower = -150.0f;
/// Of weights of softmax that only products and sums follow, as in attention and losses: smaller ones are zero, since
/// most that is made of them would be subnormal numbers, which take those processors a hundred times as long in a
/// product.
inline constexpr float kLeastWeight = -100.0f;

/// y * 2^n, rounded once, for y in [0.5, 2] and whole n in [-151, 129]; zero for n < least.
template <class D, class V> HWY_INLINE V timesPowerOfTwo(D d, V y, V n, float least) {
#if HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(V) == 64) {
    (void)d;
    const __mmask16 some = _mm512_cmp_ps_mask(n.raw, _mm512_set1_ps(least), _CMP_NLT_UQ);
    return V{_mm512_maskz_scalef_ps(some, y.raw, n.raw)};
  }
#endif
  y = hn::IfThenZeroElse(hn::Lt(n, hn::Set(d, least)), y);
  const hn::RebindToSigned<D> whole;
  const auto exponent = hn::ConvertTo(whole, n), half = hn::ShiftRight<1>(exponent);
  auto power = [&](auto e) { return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(e, hn::Set(whole, 127)))); };
  return hn::Mul(hn::Mul(y, power(half)), power(hn::Sub(exponent, half)));
}

/// e^x = 2^n e^r with n the whole number next to x / ln 2. Of r, in [-ln 2 / 2, ln 2 / 2], a minimax polynomial of our
/// own, relative error 4e-10, so that what it is off by is rounding: below one unit in the last place.
template <class D, class V> HWY_INLINE V expOf(D d, V x, float least = kLeastPower) {
  static constexpr float kTerms[] = {1.0f,
                                     1.0f,
                                     0.5f,
                                     0.166666641831398f,
                                     0.04166645556688309f,
                                     0.008333999663591385f,
                                     0.0013932930305600166f,
                                     0.00019420613534748554f};
  constexpr float kLowest = -104.5f, kHighest = 89.0f; // n is below kLeastPower there; infinity from there on
  constexpr float kShift = 12582912.0f;                // 1.5 * 2^23: what is added to it becomes whole
  constexpr float kLn2Upper = 0.693145751953125f, kLn2Lower = 1.428606765330187e-06f;
  x = clampOrNan(d, x, kLowest, kHighest);
  const V n = Sub(MulAdd(x, Set(d, 1.44269504f), Set(d, kShift)), Set(d, kShift));
  const V r = NegMulAdd(n, Set(d, kLn2Lower), NegMulAdd(n, Set(d, kLn2Upper), x));
  return timesPowerOfTwo(d, polynomial(d, r, kTerms), n, least);
}

/// e^x for x of 0 and less, or NaN; zero from 2^-100.5 down.
template <class D, class V> HWY_INLINE V weightOf(D d, V x) { return expOf(d, x, kLeastWeight); }

template <class D, class V> HWY_INLINE V logOf(D d, V x) {
  const float infinity = hwy::HighestValue<float>() * 2.0f;
  V y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Set(d, infinity)), x, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -infinity), y);
  return keepNan(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, infinity - infinity), y));
}

template <class D, class V> HWY_INLINE V tanhOf(D d, V x) { return keepNan(x, hn::Tanh(d, x)); }

template <class D, class V> HWY_INLINE V sigmoidOf(D d, V x) {
  V one = Set(d, 1.0f);
  return Div(one, Add(one, expOf(d, Neg(x))));
}

template <class D, class V> HWY_INLINE V softplusOf(D d, V x) {
  V small = hn::Log1p(d, expOf(d, hn::Neg(hn::Abs(x))));
  return keepNan(x, hn::Add(hn::Max(x, hn::Zero(d)), small));
}

/// erf, given e^(-x^2): x * P(x^2) up to 1, 1 - e^(-x^2) * Q(1 / x) from there on; Chebyshev fits of our own, absolute
/// error 1.5e-7.
template <class D, class V> HWY_INLINE V erfOf(D d, V x, V density) {
  static constexpr float kNear[] = {1.1283791065216064f,   -0.3761262595653534f,  0.11283597350120544f,
                                    -0.02685432881116867f, 0.005189312156289816f, -0.0008018855005502701f,
                                    7.882497448008507e-05f};
  static constexpr float kFar[] = {0.00027678333572112024f, 0.5587236285209656f,   0.04557839781045914f,
                                   -0.4899293780326843f,    0.5485301613807678f,   -0.32720065116882324f,
                                   0.10622300952672958f,    -0.014618303626775742f};
  V one = Set(d, 1.0f), size = Abs(x), least = Min(size, one);
  V near = Mul(least, polynomial(d, Mul(least, least), kNear));
  V far = NegMulAdd(density, polynomial(d, Div(one, Max(size, one)), kFar), one);
  return CopySign(IfThenElse(Lt(size, one), near, far), x); // NaN is far, and its density NaN
}
template <class D, class V> HWY_INLINE V erfOf(D d, V x) { return erfOf(d, x, expOf(d, Neg(Mul(x, x)))); }

} // namespace HWY_NAMESPACE
} // namespace mt::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
