#include "kernels/cpu/Vector.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <hwy/cache_control.h>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Vector.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/VectorMath-inl.h"

#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mt::kernels::cpu {
namespace HWY_NAMESPACE {
using namespace vec;

HWY_INLINE V load(const float *from) { return hn::LoadU(D(), from); }
HWY_INLINE V all(float value) { return hn::Set(D(), value); }

template <class F> struct Store {
  F f;
  HWY_INLINE void operator()(const float *const *in, float *const *out) const { hn::StoreU(f(in), D(), out[0]); }
};
template <int In, class F> struct AddStore {
  F f;
  HWY_INLINE void operator()(const float *const *in, float *const *out) const {
    hn::StoreU(hn::Add(load(in[In]), f(in)), D(), out[0]);
  }
};
/// out = f(in), or += it.
template <int In, class F>
HWY_INLINE void map(const float *const *in, float *out, int64_t count, bool accumulate, F f) {
  if (!accumulate)
    return inVectors<In, 1>(in, &out, count, Store<F>{f});
  const float *both[In + 1];
  for (int k = 0; k < In; ++k)
    both[k] = in[k];
  both[In] = out;
  inVectors<In + 1, 1>(both, &out, count, AddStore<In, F>{f});
}

/// A loop that compilers make vectors of.
void widenAll(const Bf16 *from, int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = kernels::widen(from[i]);
}

/// As nearest(): the bits of the bf16, in the lower halves.
HWY_INLINE auto nearestBits(V x) {
  const hn::RebindToUnsigned<D> whole;
  const auto bits = hn::BitCast(whole, x), upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(whole, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(whole, 0x7fff))));
  const auto nan = hn::Or(upper, hn::Set(whole, 0x40));
  return hn::IfThenElse(hn::RebindMask(whole, hn::IsNaN(x)), nan, rounded);
}
/// Vectors by hand, for results may lie in the place of the floats: what is stored was loaded before.
HWY_INLINE void storeNearest(V x, uint16_t *to) {
  const hn::Rebind<uint16_t, D> half;
  hn::StoreU(hn::TruncateTo(half, nearestBits(x)), half, to);
}
struct Rounded {
  HWY_INLINE V operator()(const float *const *in) const { return hn::BitCast(D(), hn::ShiftLeft<16>(nearestBits(load(in[0])))); }
};
void roundAll(float *values, int64_t count) {
  const float *in = values;
  map<1>(&in, values, count, false, Rounded());
}
void narrowAll(const float *from, int64_t count, bool accumulate, Bf16 *to) {
  auto *stored = reinterpret_cast<uint16_t *>(to);
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  if (accumulate) {
    for (; i < count; ++i)
      to[i] = nearest(kernels::widen(to[i]) + from[i]);
    return;
  }
  for (; i + lanes <= count; i += lanes)
    storeNearest(load(from + i), stored + i);
  float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  uint16_t halves[HWY_MAX_BYTES / sizeof(float)];
  std::memcpy(rest, from + i, static_cast<size_t>(count - i) * sizeof(float));
  storeNearest(load(rest), halves);
  std::memcpy(to + i, halves, static_cast<size_t>(count - i) * sizeof(uint16_t));
}

struct AddTo {
  template <class W> HWY_INLINE W operator()(W held, W x) const { return hn::Add(held, x); }
};
struct LargerOf {
  template <class W> HWY_INLINE W operator()(W held, W x) const {
    return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Gt(x, held)), x, held);
  }
};
struct SmallerOf {
  template <class W> HWY_INLINE W operator()(W held, W x) const {
    return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Lt(x, held)), x, held);
  }
};
template <class F> void withFold(vec::Fold fold, F use) {
  fold == vec::Fold::sum ? use(AddTo()) : fold == vec::Fold::largest ? use(LargerOf()) : use(SmallerOf());
}
void foldLanes(vec::Fold fold, const float *x, int64_t count, double *lanes) {
  const hn::CappedTag<double, vec::kFoldLanes / 4> d;
  const hn::CappedTag<double, 1> one;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = count / vec::kFoldLanes * vec::kFoldLanes;
  withFold(fold, [&](auto f) {
    auto folded = [&](auto tag, auto held, int64_t i) {
      return f(held, hn::PromoteTo(tag, hn::LoadU(hn::Rebind<float, decltype(tag)>(), x + i)));
    };
    for (int64_t lane = 0; lane < vec::kFoldLanes; lane += 4 * step) { // four chains, none of which waits for another
      double *at = lanes + lane;
      auto a = hn::LoadU(d, at), b = hn::LoadU(d, at + step), c = hn::LoadU(d, at + 2 * step), e = hn::LoadU(d, at + 3 * step);
      for (int64_t i = lane; i < whole; i += vec::kFoldLanes) {
        a = folded(d, a, i);
        b = folded(d, b, i + step);
        c = folded(d, c, i + 2 * step);
        e = folded(d, e, i + 3 * step);
      }
      hn::StoreU(a, d, at), hn::StoreU(b, d, at + step), hn::StoreU(c, d, at + 2 * step), hn::StoreU(e, d, at + 3 * step);
    }
    int64_t i = whole;
    for (; i + step <= count; i += step)
      hn::StoreU(folded(d, hn::LoadU(d, lanes + i - whole), i), d, lanes + i - whole);
    for (; i < count; ++i)
      hn::StoreU(folded(one, hn::LoadU(one, lanes + i - whole), i), one, lanes + i - whole);
  });
}
/// Of up to four rows.
template <class T, class F> HWY_INLINE void foldAt(T d, F f, const float *x, int64_t step, int64_t rows, double *values) {
  const hn::Rebind<float, T> narrow;
  auto held = hn::LoadU(d, values);
  for (int64_t row = 0; row < rows; ++row)
    held = f(held, hn::PromoteTo(d, hn::LoadU(narrow, x + row * step)));
  hn::StoreU(held, d, values);
}
void foldRows(vec::Fold fold, const float *x, int64_t step, int64_t rows, int64_t count, double *values) {
  constexpr int64_t kTogether = 4;
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  withFold(fold, [&](auto f) {
    for (int64_t row = 0; row < rows; row += kTogether) {
      const float *from = x + row * step;
      const int64_t together = std::min(kTogether, rows - row);
      int64_t i = 0;
      for (; together == kTogether && i + lanes <= count; i += lanes)
        foldAt(d, f, from + i, step, kTogether, values + i);
      for (; i + lanes <= count; i += lanes)
        foldAt(d, f, from + i, step, together, values + i);
      for (; i < count; ++i)
        foldAt(hn::CappedTag<double, 1>(), f, from + i, step, together, values + i);
    }
  });
}

struct Turn {
  V sign;
  HWY_INLINE void operator()(const float *const *in, float *const *out) const {
    const D d;
    const V a = load(in[0]), b = load(in[1]), c = load(in[2]), s = hn::Mul(sign, load(in[3]));
    hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, out[0]);
    hn::StoreU(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), d, out[1]);
  }
};
void rotate(const float *a, const float *b, const float *c, const float *s, bool back, int64_t step, int64_t pairs,
            float *outA, float *outB) {
  const float direction = back ? -1.0F : 1.0F;
  const float *in[4] = {a, b, c, s};
  float *out[2] = {outA, outB};
  if (step == 1)
    return inVectors<4, 2>(in, out, pairs, Turn{hn::Set(D(), direction)});
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    V even, odd;
    hn::LoadInterleaved2(d, a + 2 * i, even, odd);
    const V cosine = load(c + i), sine = hn::Mul(hn::Set(d, direction), load(s + i));
    hn::StoreInterleaved2(hn::Sub(hn::Mul(even, cosine), hn::Mul(odd, sine)), hn::Add(hn::Mul(odd, cosine), hn::Mul(even, sine)), d,
                          outA + 2 * i);
  }
  for (; i < pairs; ++i) {
    const float even = a[2 * i], odd = b[2 * i], sine = direction * s[i];
    outA[2 * i] = even * c[i] - odd * sine;
    outB[2 * i] = odd * c[i] + even * sine;
  }
}

struct SumTerm {
  HWY_INLINE V operator()(const float *const *in) const { return load(in[0]); }
};
double sum(const float *x, int64_t count) { return summed<1>(&x, count, SumTerm()); }

struct DotTerm {
  HWY_INLINE V operator()(const float *const *in) const { return hn::Mul(load(in[0]), load(in[1])); }
};
double dot(const float *x, const float *y, int64_t count) {
  const float *in[] = {x, y};
  return summed<2>(in, count, DotTerm());
}

struct DistanceTerm {
  float center;
  HWY_INLINE V operator()(const float *const *in) const {
    V away = hn::Sub(load(in[0]), all(center));
    return hn::Mul(away, away);
  }
};
double squaredDistance(const float *x, float center, int64_t count) {
  return summed<1>(&x, count, DistanceTerm{center});
}

double squaredNorm(const float *x, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Half<D> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    auto a = hn::PromoteTo(d, hn::LoadU(half, x + i)), b = hn::PromoteTo(d, hn::LoadU(half, x + i + lanes));
    sum0 = hn::MulAdd(a, a, sum0);
    sum1 = hn::MulAdd(b, b, sum1);
  }
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < count; ++i)
    total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

void addSquares(const float *x, double *sums, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Half<D> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::PromoteTo(d, hn::LoadU(half, x + i));
    hn::StoreU(hn::MulAdd(value, value, hn::LoadU(d, sums + i)), d, sums + i); // the square is exact: fused or not
  }
  for (; i < count; ++i)
    sums[i] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
}

float largest(const float *x, int64_t count) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float most = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  if (count >= lanes) {
    V high = load(x);
    for (i = lanes; i + lanes <= count; i += lanes)
      high = hn::Max(high, load(x + i));
    most = hn::GetLane(hn::MaxOfLanes(d, high));
  }
  for (; i < count; ++i)
    most = x[i] > most ? x[i] : most;
  return most;
}

struct ExpTerm {
  float shift;
  HWY_INLINE V operator()(const float *const *in) const { return expOf(D(), hn::Sub(load(in[0]), all(shift))); }
};
double sumExp(const float *x, float shift, int64_t count) { return summed<1>(&x, count, ExpTerm{shift}); }

struct ScaledExp {
  float shift, scale, offset;
  HWY_INLINE V operator()(const float *const *in) const {
    return hn::MulSub(ExpTerm{shift}(in), all(scale), all(offset));
  }
};
void exponentials(const float *x, float shift, float scale, float offset, float *out, int64_t count) {
  map<1>(&x, out, count, false, ScaledExp{shift, scale, offset});
}

struct ScaledLess {
  float scale, offset;
  HWY_INLINE V operator()(const float *const *in) const { return hn::MulSub(load(in[0]), all(scale), all(offset)); }
};
void scaleLess(const float *x, float scale, float offset, float *out, int64_t count) {
  map<1>(&x, out, count, false, ScaledLess{scale, offset});
}

double storeExp(const float *x, float shift, float *out, int64_t count) {
  double total = 0;
  for (int64_t at = 0; at < count; at += 512) { // while the block is in the first cache
    const int64_t run = count - at < 512 ? count - at : 512;
    exponentials(x + at, shift, 1, 0, out + at, run);
    total += sum(out + at, run);
  }
  return total;
}

struct Cap {
  float inner, cap;
  HWY_INLINE V operator()(const float *const *in) const {
    return hn::Mul(tanhOf(D(), hn::Mul(load(in[0]), all(inner))), all(cap));
  }
};
void capped(const float *x, float scale, float cap, float *out, int64_t count) {
  map<1>(&x, out, count, false, Cap{scale / cap, cap});
}

struct CappedExp {
  ScaledExp terms;
  float inverse;
  HWY_INLINE V operator()(const float *const *in) const {
    V share = hn::Mul(load(in[0]), all(inverse));
    return hn::Mul(terms(in), hn::NegMulAdd(share, share, all(1.0f)));
  }
};
void cappedExponentials(const float *y, float shift, float scale, float offset, float cap, float *out, int64_t count) {
  map<1>(&y, out, count, false, CappedExp{{shift, scale, offset}, 1 / cap});
}

struct Scaled {
  float factor;
  HWY_INLINE V operator()(const float *const *in) const { return hn::Mul(load(in[0]), all(factor)); }
};
void scale(const float *x, float factor, float *out, int64_t count, bool accumulate) {
  map<1>(&x, out, count, accumulate, Scaled{factor});
}
void add(const float *x, float *out, int64_t count) { map<1>(&x, out, count, true, SumTerm()); }

/// (x - shift) * factor
struct Normal {
  float shift, factor;
  HWY_INLINE V operator()(V x) const { return hn::Mul(hn::Sub(x, all(shift)), all(factor)); }
};

template <bool Gain, bool Bias> struct Affine {
  Normal normal;
  HWY_INLINE V operator()(const float *const *in) const {
    V y = normal(load(in[0]));
    if (Gain && Bias)
      return hn::MulAdd(y, load(in[1]), load(in[2]));
    if (Gain)
      return hn::Mul(y, load(in[1]));
    return Bias ? hn::Add(y, load(in[2])) : y;
  }
};
void affine(const float *x, float shift, float factor, const float *gain, const float *bias, float *out, int64_t count,
            bool accumulate) {
  const float *in[] = {x, gain ? gain : x, bias ? bias : x};
  const Normal normal{shift, factor};
  if (gain && bias)
    map<3>(in, out, count, accumulate, Affine<true, true>{normal});
  else if (gain)
    map<3>(in, out, count, accumulate, Affine<true, false>{normal});
  else if (bias)
    map<3>(in, out, count, accumulate, Affine<false, true>{normal});
  else
    map<3>(in, out, count, accumulate, Affine<false, false>{normal});
}

/// g = gradient * gain, out of rows gradient, x, gain.
template <bool Gain> HWY_INLINE V gained(const float *const *in) {
  return Gain ? hn::Mul(load(in[0]), load(in[2])) : load(in[0]);
}
template <bool Gain> struct GradientTerm {
  HWY_INLINE V operator()(const float *const *in) const { return gained<Gain>(in); }
};
template <bool Gain> struct ProductTerm {
  Normal normal;
  HWY_INLINE V operator()(const float *const *in) const { return hn::Mul(gained<Gain>(in), normal(load(in[1]))); }
};
template <bool Gain> NormSums sumsOf(const float *const *in, Normal normal, int64_t count) {
  return {summed<3>(in, count, GradientTerm<Gain>()), summed<3>(in, count, ProductTerm<Gain>{normal})};
}
NormSums normSums(const float *gradient, const float *x, const float *gain, float shift, float factor, int64_t count) {
  const float *in[] = {gradient, x, gain ? gain : x};
  const Normal normal{shift, factor};
  return gain ? sumsOf<true>(in, normal, count) : sumsOf<false>(in, normal, count);
}

template <bool Gain> struct NormGrad {
  Normal normal;
  float meanGradient, meanProduct;
  HWY_INLINE V operator()(const float *const *in) const {
    V centered = hn::Sub(gained<Gain>(in), all(meanGradient));
    return hn::Mul(hn::NegMulAdd(normal(load(in[1])), all(meanProduct), centered), all(normal.factor));
  }
};
void normGrad(const float *gradient, const float *x, const float *gain, float shift, float factor, float meanGradient,
              float meanProduct, float *out, int64_t count, bool accumulate) {
  const float *in[] = {gradient, x, gain ? gain : x};
  const Normal normal{shift, factor};
  if (gain)
    map<3>(in, out, count, accumulate, NormGrad<true>{normal, meanGradient, meanProduct});
  else
    map<3>(in, out, count, accumulate, NormGrad<false>{normal, meanGradient, meanProduct});
}

void normParameters(const float *gradient, const float *x, float shift, float factor, float *dgain, float *dbias,
                    int64_t count) {
  const float *in[] = {gradient, x, x};
  if (dgain)
    map<3>(in, dgain, count, true, ProductTerm<false>{{shift, factor}});
  if (dbias)
    add(gradient, dbias, count);
}

struct SoftmaxGrad {
  float shift;
  HWY_INLINE V operator()(const float *const *in) const {
    return hn::Mul(load(in[1]), hn::Sub(load(in[0]), all(shift)));
  }
};
void softmaxGrad(const float *gradient, const float *y, float shift, float *out, int64_t count, bool accumulate) {
  const float *in[] = {gradient, y};
  map<2>(in, out, count, accumulate, SoftmaxGrad{shift});
}

struct AdamWStep {
  AdamW s;
  HWY_INLINE void operator()(const float *const *in, float *const *out) const {
    V gradient = hn::Mul(load(in[0]), all(s.clip));
    V weight = hn::Mul(load(in[1]), all(s.keep)), first = load(in[2]), second = load(in[3]);
    first = hn::MulAdd(all(s.towards1), hn::Sub(gradient, first), first);
    second = hn::MulAdd(hn::Mul(all(s.towards2), gradient), gradient, hn::Mul(second, all(s.beta2)));
    V denominator = hn::Add(hn::Div(hn::Sqrt(second), all(s.root2)), all(s.epsilon));
    hn::StoreU(hn::Sub(weight, hn::Div(hn::Mul(all(s.step), first), denominator)), D(), out[0]);
    hn::StoreU(first, D(), out[1]);
    hn::StoreU(second, D(), out[2]);
  }
};

struct SgdStep {
  Sgd s;
  HWY_INLINE void operator()(const float *const *in, float *const *out) const {
    V weight = load(in[1]);
    V gradient = hn::MulAdd(weight, all(s.decay), hn::Mul(load(in[0]), all(s.clip)));
    V momentum = hn::MulAdd(load(in[2]), all(s.momentum), gradient);
    hn::StoreU(hn::NegMulAdd(momentum, all(s.rate), weight), D(), out[0]);
    hn::StoreU(momentum, D(), out[1]);
  }
};

struct ReplaceStep {
  HWY_INLINE void operator()(const float *const *in, float *const *out) const { hn::StoreU(load(in[0]), D(), out[0]); }
};

struct LionStep {
  Lion s;
  HWY_INLINE void operator()(const float *const *in, float *const *out) const {
    V first = load(in[2]), away = hn::Sub(hn::Mul(load(in[0]), all(s.clip)), first);
    V direction = hn::MulAdd(all(s.towards1), away, first);
    V moved = hn::IfThenElseZero(hn::Ne(direction, all(0)), hn::CopySign(all(s.rate), direction));
    hn::StoreU(hn::Sub(hn::Mul(load(in[1]), all(s.keep)), moved), D(), out[0]);
    hn::StoreU(hn::MulAdd(all(s.towards2), away, first), D(), out[1]);
  }
};

/// Whether all are finite: x - x is zero for those alone.
struct ExcessTerm {
  HWY_INLINE V operator()(const float *const *in) const { return hn::Sub(load(in[0]), load(in[0])); }
};
bool finite(const float *x, int64_t count) { return summed<1>(&x, count, ExcessTerm()) == 0; }

// A weight as updates see it: its values in f32 (in place, or in `buffer`), whether a new one can be kept, and keeping.
const float *values(const float *weight, float *, int64_t) { return weight; }
bool fits(const float *, const float *fresh, int64_t count) { return finite(fresh, count); }
void keep(const float *fresh, float *weight, int64_t count) {
  std::memcpy(weight, fresh, static_cast<size_t>(count) * sizeof(float));
}

using Bits = hn::RebindToUnsigned<D>;
using HalfBits = hn::Rebind<uint16_t, D>;

const float *values(const SplitWeight &weight, float *buffer, int64_t count) {
  int64_t i = 0;
  for (const auto lanes = static_cast<int64_t>(hn::Lanes(D())); i + lanes <= count; i += lanes) {
    auto upper = hn::ShiftLeft<16>(hn::PromoteTo(Bits(), hn::LoadU(HalfBits(), &weight.upper[i].bits)));
    auto lower = hn::BitCast(Bits(), hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(hn::Rebind<int16_t, D>(), weight.lower + i)));
    hn::StoreU(hn::BitCast(D(), hn::Add(upper, lower)), D(), buffer + i);
  }
  for (; i < count; ++i)
    buffer[i] = join({weight.upper[i], weight.lower[i]});
  return buffer;
}
bool fits(const SplitWeight &, const float *fresh, int64_t count) {
  auto largest = hn::Zero(Bits());
  int64_t i = 0;
  for (const auto lanes = static_cast<int64_t>(hn::Lanes(D())); i + lanes <= count; i += lanes)
    largest = hn::Max(largest, hn::BitCast(Bits(), hn::Abs(load(fresh + i))));
  bool all = splits(std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(Bits(), largest))));
  for (; i < count; ++i)
    all &= splits(fresh[i]);
  return all;
}
void keep(const float *fresh, const SplitWeight &weight, int64_t count) {
  int64_t i = 0;
  for (const auto lanes = static_cast<int64_t>(hn::Lanes(D())); i + lanes <= count; i += lanes) {
    auto bits = hn::BitCast(Bits(), load(fresh + i));
    auto upper = hn::ShiftRight<16>(hn::Add(bits, hn::Set(Bits(), 0x8000)));
    hn::StoreU(hn::TruncateTo(HalfBits(), upper), HalfBits(), &weight.upper[i].bits);
    hn::StoreU(hn::BitCast(hn::Rebind<int16_t, D>(), hn::TruncateTo(HalfBits(), hn::Sub(bits, hn::ShiftLeft<16>(upper)))),
               hn::Rebind<int16_t, D>(), weight.lower + i);
  }
  for (; i < count; ++i) {
    Halves halves = split(fresh[i]);
    weight.upper[i] = halves.upper;
    weight.lower[i] = halves.lower;
  }
}

void streamBytes(const std::byte *from, std::byte *to, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(lanes) == 0)
    for (; i + lanes <= bytes; i += lanes)
      hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t *>(from) + i), d, reinterpret_cast<uint8_t *>(to) + i);
  if (i < bytes)
    std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

struct Towards {
  float share;
  HWY_INLINE V operator()(const float *const *in) const {
    V average = load(in[1]);
    return hn::MulAdd(all(share), hn::Sub(load(in[0]), average), average);
  }
};

/// `kState` floats are kept of each element.
template <int kState, typename Step, typename Weight>
bool updateOn(Step step, const float *gradient, Weight weight, float *const *state, const Average &average,
              int64_t count) {
  HWY_ALIGN float fresh[1 + kState][kUpdateBlock];
  float buffer[kUpdateBlock];
  const float *in[2 + kState] = {gradient, values(weight, buffer, count)};
  float *out[1 + kState] = {fresh[0]};
  for (int i = 0; i < kState; ++i) {
    in[2 + i] = state[i];
    out[1 + i] = fresh[1 + i];
  }
  inVectors<2 + kState, 1 + kState>(in, out, count, step);
  if (!fits(weight, fresh[0], count))
    return false;
  keep(fresh[0], weight, count);
  for (int i = 0; i < kState; ++i)
    std::memcpy(state[i], fresh[1 + i], static_cast<size_t>(count) * sizeof(float));
  const float *both[] = {fresh[0], average.values};
  if (average.values)
    map<2>(both, average.values, count, false, Towards{average.towards});
  return true;
}
template <typename Weight>
bool updateBy(const UpdateRule &rule, const float *gradient, Weight weight, float *const *state, const Average &average,
              int64_t count) {
  if (const AdamW *adamw = std::get_if<AdamW>(&rule))
    return updateOn<2>(AdamWStep{*adamw}, gradient, weight, state, average, count);
  if (const Sgd *sgd = std::get_if<Sgd>(&rule))
    return updateOn<1>(SgdStep{*sgd}, gradient, weight, state, average, count);
  if (std::holds_alternative<Replace>(rule))
    return updateOn<0>(ReplaceStep(), gradient, weight, state, average, count);
  return updateOn<1>(LionStep{std::get<Lion>(rule)}, gradient, weight, state, average, count);
}
bool updateWhole(const UpdateRule &rule, const float *gradient, float *weight, float *const *state,
                 const Average &average, int64_t count) {
  return updateBy(rule, gradient, weight, state, average, count);
}
bool updateSplit(const UpdateRule &rule, const float *gradient, SplitWeight weight, float *const *state,
                 const Average &average, int64_t count) {
  return updateBy(rule, gradient, weight, state, average, count);
}

} // namespace HWY_NAMESPACE
} // namespace mt::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mt::kernels::cpu {

HWY_EXPORT(widenAll);
HWY_EXPORT(narrowAll);
HWY_EXPORT(roundAll);
HWY_EXPORT(foldLanes);
HWY_EXPORT(foldRows);
HWY_EXPORT(rotate);
HWY_EXPORT(sum);
HWY_EXPORT(dot);
HWY_EXPORT(squaredDistance);
HWY_EXPORT(squaredNorm);
HWY_EXPORT(addSquares);
HWY_EXPORT(largest);
HWY_EXPORT(sumExp);
HWY_EXPORT(storeExp);
HWY_EXPORT(exponentials);
HWY_EXPORT(scaleLess);
HWY_EXPORT(capped);
HWY_EXPORT(cappedExponentials);
HWY_EXPORT(scale);
HWY_EXPORT(add);
HWY_EXPORT(affine);
HWY_EXPORT(normSums);
HWY_EXPORT(normGrad);
HWY_EXPORT(normParameters);
HWY_EXPORT(softmaxGrad);
HWY_EXPORT(updateWhole);
HWY_EXPORT(updateSplit);
HWY_EXPORT(streamBytes);

namespace vec {

void widen(const Bf16 *from, int64_t count, float *to) { HWY_DYNAMIC_DISPATCH(widenAll)(from, count, to); }
void narrow(const float *from, int64_t count, bool accumulate, Bf16 *to) {
  HWY_DYNAMIC_DISPATCH(narrowAll)(from, count, accumulate, to);
}
void foldLanes(Fold fold, const float *x, int64_t count, double *lanes) {
  HWY_DYNAMIC_DISPATCH(foldLanes)(fold, x, count, lanes);
}
void foldRows(Fold fold, const float *x, int64_t step, int64_t rows, int64_t count, double *values) {
  HWY_DYNAMIC_DISPATCH(foldRows)(fold, x, step, rows, count, values);
}
void rotate(const float *a, const float *b, const float *c, const float *s, bool back, int64_t step, int64_t pairs,
            float *outA, float *outB) {
  HWY_DYNAMIC_DISPATCH(rotate)(a, b, c, s, back, step, pairs, outA, outB);
}
void roundToBf16(float *values, int64_t count) { HWY_DYNAMIC_DISPATCH(roundAll)(values, count); }
double sum(const float *x, int64_t count) { return HWY_DYNAMIC_DISPATCH(sum)(x, count); }
double dot(const float *x, const float *y, int64_t count) { return HWY_DYNAMIC_DISPATCH(dot)(x, y, count); }
double squaredDistance(const float *x, float center, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(squaredDistance)(x, center, count);
}
double squaredNorm(const float *x, int64_t count) { return HWY_DYNAMIC_DISPATCH(squaredNorm)(x, count); }
void addSquares(const float *x, double *sums, int64_t count) { HWY_DYNAMIC_DISPATCH(addSquares)(x, sums, count); }
float largest(const float *x, int64_t count) { return HWY_DYNAMIC_DISPATCH(largest)(x, count); }
double sumExp(const float *x, float shift, int64_t count) { return HWY_DYNAMIC_DISPATCH(sumExp)(x, shift, count); }
double storeExp(const float *x, float shift, float *out, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(storeExp)(x, shift, out, count);
}
void exponentials(const float *x, float shift, float scale, float offset, float *out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(exponentials)(x, shift, scale, offset, out, count);
}
void scaleLess(const float *x, float scale, float offset, float *out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(scaleLess)(x, scale, offset, out, count);
}
void capped(const float *x, float scale, float cap, float *out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(capped)(x, scale, cap, out, count);
}
void cappedExponentials(const float *y, float shift, float scale, float offset, float cap, float *out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(cappedExponentials)(y, shift, scale, offset, cap, out, count);
}
void scale(const float *x, float factor, float *out, int64_t count, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(scale)(x, factor, out, count, accumulate);
}
void add(const float *x, float *out, int64_t count) { HWY_DYNAMIC_DISPATCH(add)(x, out, count); }
void affine(const float *x, float shift, float factor, const float *gain, const float *bias, float *out, int64_t count,
            bool accumulate) {
  HWY_DYNAMIC_DISPATCH(affine)(x, shift, factor, gain, bias, out, count, accumulate);
}
NormSums normSums(const float *gradient, const float *x, const float *gain, float shift, float factor, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(normSums)(gradient, x, gain, shift, factor, count);
}
void normGrad(const float *gradient, const float *x, const float *gain, float shift, float factor, float meanGradient,
              float meanProduct, float *out, int64_t count, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(normGrad)
  (gradient, x, gain, shift, factor, meanGradient, meanProduct, out, count, accumulate);
}
void normParameters(const float *gradient, const float *x, float shift, float factor, float *dgain, float *dbias,
                    int64_t count) {
  HWY_DYNAMIC_DISPATCH(normParameters)(gradient, x, shift, factor, dgain, dbias, count);
}
void softmaxGrad(const float *gradient, const float *y, float shift, float *out, int64_t count, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(softmaxGrad)(gradient, y, shift, out, count, accumulate);
}
bool update(const UpdateRule &rule, const float *gradient, float *weight, float *const *state, const Average &average,
            int64_t count) {
  return HWY_DYNAMIC_DISPATCH(updateWhole)(rule, gradient, weight, state, average, count);
}
void endStreams() { hwy::FlushStream(); }
void stream(const std::byte *from, std::byte *to, int64_t bytes) { HWY_DYNAMIC_DISPATCH(streamBytes)(from, to, bytes); }
bool update(const UpdateRule &rule, const float *gradient, SplitWeight weight, float *const *state,
            const Average &average, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(updateSplit)(rule, gradient, weight, state, average, count);
}

} // namespace vec
} // namespace mt::kernels::cpu
#endif
