// Activations, with what kernels make of them, on Highway vectors or on Traced values (see VectorMath-inl.h). Included
// once a target.
#if defined(MT_KERNELS_CPU_ACTIVATIONS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MT_KERNELS_CPU_ACTIVATIONS_INL_H
#undef MT_KERNELS_CPU_ACTIVATIONS_INL_H
#else
#define MT_KERNELS_CPU_ACTIVATIONS_INL_H
#endif

#include "kernels/cpu/VectorMath-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mt::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Activations: value and slope of each.
struct Relu {
  template <class D, class V> static HWY_INLINE V value(D d, V x) { return keepNan(x, hn::Max(x, hn::Zero(d))); }
  template <class D, class V> static HWY_INLINE V slope(D d, V x) {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f));
  }
};
struct Sigmoid {
  template <class D, class V> static HWY_INLINE V value(D d, V x) { return sigmoidOf(d, x); }
  template <class D, class V> static HWY_INLINE V slope(D d, V x) {
    V s = sigmoidOf(d, x);
    return NegMulAdd(s, s, s);
  }
};
struct Softplus {
  template <class D, class V> static HWY_INLINE V value(D d, V x) { return softplusOf(d, x); }
  template <class D, class V> static HWY_INLINE V slope(D d, V x) { return sigmoidOf(d, x); }
};
/// x * sigmoid(k x), k = Scale / 1000.
template <int Scale> struct Swish {
  template <class D, class V> static HWY_INLINE V scaled(D d, V x) {
    return Scale == 1000 ? x : Mul(x, Set(d, Scale / 1000.0f));
  }
  template <class D, class V> static HWY_INLINE V value(D d, V x) { return Mul(x, sigmoidOf(d, scaled(d, x))); }
  template <class D, class V> static HWY_INLINE V slope(D d, V x) {
    V one = Set(d, 1.0f), s = sigmoidOf(d, scaled(d, x));
    return Mul(s, MulAdd(scaled(d, x), Sub(one, s), one));
  }
};
struct GeluErf {
  template <class D, class V> static HWY_INLINE V value(D d, V x) {
    const V z = scaled(d, x);
    return Mul(x, probability(d, z, density(d, z)));
  }
  template <class D, class V> static HWY_INLINE V slope(D d, V x) {
    const V z = scaled(d, x), e = density(d, z);
    return MulAdd(x, Mul(e, Set(d, 0.3989422804f)), probability(d, z, e));
  }

private:
  template <class D, class V> static HWY_INLINE V scaled(D d, V x) { return Mul(x, Set(d, 0.70710678118f)); }
  template <class D, class V> static HWY_INLINE V density(D d, V z) { return expOf(d, Neg(Mul(z, z))); }
  template <class D, class V> static HWY_INLINE V probability(D d, V z, V e) {
    V half = Set(d, 0.5f);
    return MulAdd(erfOf(d, z, e), half, half);
  }
};
struct GeluTanh {
  static constexpr float kScale = 0.7978845608f, kCubic = 0.044715f;
  /// (1 + tanh u) / 2, which is the sigmoid of 2 u and takes half of what tanh does.
  template <class D, class V> static HWY_INLINE V share(D d, V x) {
    V one = Set(d, 1.0f);
    V factor = MulAdd(Mul(x, x), Set(d, kCubic), one);
    return sigmoidOf(d, Mul(Mul(x, Set(d, 2 * kScale)), factor));
  }
  template <class D, class V> static HWY_INLINE V value(D d, V x) { return Mul(x, share(d, x)); }
  template <class D, class V> static HWY_INLINE V slope(D d, V x) {
    V s = share(d, x);
    V rate = MulAdd(Mul(x, x), Set(d, 6 * kScale * kCubic), Set(d, 2 * kScale));
    return MulAdd(Mul(x, NegMulAdd(s, s, s)), rate, s);
  }
};

template <class A> struct Value {
  template <class D, class V> HWY_INLINE V operator()(D d, V x) const { return A::value(d, x); }
};
template <class A> struct Slope {
  template <class D, class V> HWY_INLINE V operator()(D d, V x, V gradient) const {
    return Mul(A::slope(d, x), gradient);
  }
};
template <class A> struct Gate {
  template <class D, class V> HWY_INLINE V operator()(D d, V gate, V up) const { return Mul(A::value(d, gate), up); }
};
/// What a gated product sends back to its gate and to what it gates.
template <class A> struct GateGrad {
  template <class D, class V> static HWY_INLINE V toGate(D d, V gate, V up, V gradient) {
    return Mul(A::slope(d, gate), Mul(up, gradient));
  }
  template <class D, class V> static HWY_INLINE V toUp(D d, V gate, V gradient) {
    return Mul(A::value(d, gate), gradient);
  }
};

} // namespace HWY_NAMESPACE
} // namespace mt::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif
