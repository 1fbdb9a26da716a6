#include "kernels/cpu/Vector.h"

#include "kernels/cpu/RoundingUnit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <hwy/cache_control.h>
#include <limits>
#include <utility>

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

/// Vectors by hand, for results may lie in the place of the floats: what is stored was loaded before.
HWY_INLINE void storeNearest(V x, uint16_t *to) {
  const hn::Rebind<uint16_t, D> half;
  hn::StoreU(hn::TruncateTo(half, nearestBits(x)), half, to);
}
HWY_INLINE V widened(const uint16_t *from) {
  const hn::RebindToUnsigned<D> whole;
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(whole, hn::LoadU(hn::Rebind<uint16_t, D>(), from))));
}
struct Rounded {
  HWY_INLINE V operator()(const float *const *in) const { return nearestInBf16(load(in[0])); }
};
void roundAll(const float *from, int64_t count, float *to) { map<1>(&from, to, count, false, Rounded()); }
template <bool Adds> HWY_INLINE void narrowRow(const float *from, int64_t count, Bf16 *to) {
  auto *stored = reinterpret_cast<uint16_t *>(to);
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const auto step = [](const float *x, uint16_t *result) {
    storeNearest(Adds ? hn::Add(widened(result), load(x)) : load(x), result);
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    step(from + i, stored + i);
  float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  uint16_t halves[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(rest, from + i, static_cast<size_t>(count - i) * sizeof(float));
  if (Adds)
    std::memcpy(halves, to + i, static_cast<size_t>(count - i) * sizeof(uint16_t));
  step(rest, halves);
  std::memcpy(to + i, halves, static_cast<size_t>(count - i) * sizeof(uint16_t));
}
void narrowAll(const float *from, int64_t count, bool accumulate, Bf16 *to) {
  accumulate ? narrowRow<true>(from, count, to) : narrowRow<false>(from, count, to);
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
template <class T> HWY_INLINE hn::Vec<T> promoted(T d, const float *x) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, T>(), x));
}
template <class T> HWY_INLINE hn::Vec<T> promoted(T d, const Bf16 *x) {
  const hn::Rebind<uint32_t, T> whole;
  const auto halves = hn::LoadU(hn::Rebind<uint16_t, T>(), reinterpret_cast<const uint16_t *>(x));
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<float, T>(), hn::ShiftLeft<16>(hn::PromoteTo(whole, halves))));
}
/// Of some rows.
template <class T, class F, class X>
HWY_INLINE void foldAt(T d, F f, const X *x, int64_t step, int64_t rows, double *values) {
  auto held = hn::LoadU(d, values);
  for (int64_t row = 0; row < rows; ++row)
    held = f(held, promoted(d, x + row * step));
  hn::StoreU(held, d, values);
}
template <class X>
HWY_INLINE void foldRowsOf(vec::Fold fold, const X *x, int64_t step, int64_t rows, int64_t count, double *values) {
  constexpr int64_t kTogether = 8;
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  withFold(fold, [&](auto f) {
    for (int64_t row = 0; row < rows; row += kTogether) {
      const X *from = x + row * step;
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
void foldRows(vec::Fold fold, const float *x, int64_t step, int64_t rows, int64_t count, double *values) {
  foldRowsOf(fold, x, step, rows, count, values);
}
void foldNarrowRows(vec::Fold fold, const Bf16 *x, int64_t step, int64_t rows, int64_t count, double *values) {
  foldRowsOf(fold, x, step, rows, count, values);
}

void keepLargest(const float *x, int64_t step, int64_t count, int32_t element, float *values, int32_t *from) {
  const D d;
  const hn::RebindToSigned<D> whole;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto pitch = static_cast<int32_t>(step);
  const auto places = hn::Mul(hn::Iota(whole, 0), hn::Set(whole, pitch));
  auto keep = [&](V value, int64_t i) {
    const V held = load(values + i);
    const auto known = hn::LoadU(whole, from + i);
    const auto isLarger = hn::Or(hn::RebindMask(d, hn::Lt(known, hn::Zero(whole))),
                                 hn::Or(hn::Gt(value, held), hn::AndNot(hn::IsNaN(held), hn::IsNaN(value))));
    const auto elements = hn::Add(hn::Set(whole, element + static_cast<int32_t>(i) * pitch), places);
    hn::StoreU(hn::IfThenElse(isLarger, value, held), d, values + i);
    hn::StoreU(hn::IfThenElse(hn::RebindMask(whole, isLarger), elements, known), whole, from + i);
  };
  int64_t i = 0;
  if (step == 1)
    for (; i + lanes <= count; i += lanes)
      keep(load(x + i), i);
  if (step == 2) // which reads one beyond the last
    for (; i + lanes < count; i += lanes) {
      V even, odd;
      hn::LoadInterleaved2(d, x + 2 * i, even, odd);
      keep(even, i);
    }
  for (; i < count; ++i) {
    const float value = x[i * step], held = values[i];
    const bool isLarger = from[i] < 0 || value > held || (value != value && held == held);
    values[i] = isLarger ? value : held;
    from[i] = isLarger ? element + static_cast<int32_t>(i) * pitch : from[i];
  }
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

void addSquares(const float *x, int64_t step, int64_t rows, int64_t count, double *sums) {
  const hn::ScalableTag<double> d;
  const hn::Half<D> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto held = hn::LoadU(d, sums + i);
    for (int64_t row = 0; row < rows; ++row) {
      const float *at = x + row * step + i;
      const auto value = hn::PromoteTo(d, hn::LoadU(half, at));
      held = hn::MulAdd(value, value, held); // the square is exact: fused or not
    }
    hn::StoreU(held, d, sums + i);
  }
  for (; i < count; ++i)
    for (int64_t row = 0; row < rows; ++row)
      sums[i] += static_cast<double>(x[row * step + i]) * static_cast<double>(x[row * step + i]);
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

struct Weight {
  float shift;
  HWY_INLINE V operator()(const float *const *in) const { return weightOf(D(), hn::Sub(load(in[0]), all(shift))); }
};
struct ExpTerm {
  float shift;
  HWY_INLINE V operator()(const float *const *in) const { return expOf(D(), hn::Sub(load(in[0]), all(shift))); }
};
double sumExp(const float *x, float shift, int64_t count) { return summed<1>(&x, count, Weight{shift}); }

template <typename Term> struct ScaledTerm {
  Term term;
  float scale, offset;
  HWY_INLINE V operator()(const float *const *in) const { return hn::MulSub(term(in), all(scale), all(offset)); }
};
void exponentials(const float *x, float shift, float scale, float offset, float *out, int64_t count) {
  map<1>(&x, out, count, false, ScaledTerm<ExpTerm>{{shift}, scale, offset});
}

struct ScaledLess {
  float scale, offset;
  HWY_INLINE V operator()(const float *const *in) const { return hn::MulSub(load(in[0]), all(scale), all(offset)); }
};
void scaleLess(const float *x, float scale, float offset, float *out, int64_t count) {
  map<1>(&x, out, count, false, ScaledLess{scale, offset});
}

/// e^(x - shift), written to `to` + its place in the row that begins at `from`: of whole vectors.
struct StoredExp {
  Weight term;
  const float *from;
  float *to;
  HWY_INLINE V operator()(const float *const *in) const {
    const V y = term(in);
    hn::StoreU(y, D(), to + (in[0] - from));
    return y;
  }
};
double storeExp(const float *x, float shift, float *out, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t whole = count % lanes == 0 ? count : count / kSumBlock * kSumBlock, rest = count - whole;
  const double total = summed<1>(&x, whole, StoredExp{{shift}, x, out});
  if (rest == 0)
    return total;
  const float *behind = x + whole; // which ends within a vector
  map<1>(&behind, out + whole, rest, false, Weight{shift});
  return total + sum(out + whole, rest);
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
  ScaledTerm<Weight> terms;
  float inverse;
  HWY_INLINE V operator()(const float *const *in) const {
    V share = hn::Mul(load(in[0]), all(inverse));
    return hn::Mul(terms(in), hn::NegMulAdd(share, share, all(1.0f)));
  }
};
void cappedExponentials(const float *y, float shift, float scale, float offset, float cap, float *out, int64_t count) {
  map<1>(&y, out, count, false, CappedExp{{{shift}, scale, offset}, 1 / cap});
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

// A rule: `step` makes of gradient, weight and state the new weight and state, and where it begins also what these tell
// of what they replace, nearly. That is what `stateBefore` makes of gradient, new weight and state, where kTellsState,
// and `weightBefore` of these and the state before.
struct AdamWRule {
  static constexpr int kState = 2;
  static constexpr bool kTellsState = true;
  AdamW s;
  HWY_INLINE V moved(V first, V second) const {
    V denominator = hn::Add(hn::Div(hn::Sqrt(second), all(s.root2)), all(s.epsilon));
    return hn::Div(hn::Mul(all(s.step), first), denominator);
  }
  HWY_INLINE V firstBefore(V gradient, V first) const {
    return hn::Mul(hn::NegMulAdd(all(s.towards1), gradient, first), all(1 / (1 - s.towards1)));
  }
  HWY_INLINE V secondBefore(V gradient, V second) const {
    return hn::Mul(hn::NegMulAdd(hn::Mul(all(s.towards2), gradient), gradient, second), all(1 / s.beta2));
  }
  HWY_INLINE V weightBefore(V weight, V moved) const { return hn::Mul(hn::Add(weight, moved), all(1 / s.keep)); }

  template <bool kBegins> HWY_INLINE void step(const float *const *in, float *const *out) const {
    V gradient = hn::Mul(load(in[0]), all(s.clip));
    V weight = hn::Mul(load(in[1]), all(s.keep)), first = load(in[2]), second = load(in[3]);
    first = hn::MulAdd(all(s.towards1), hn::Sub(gradient, first), first);
    second = hn::MulAdd(hn::Mul(all(s.towards2), gradient), gradient, hn::Mul(second, all(s.beta2)));
    V away = moved(first, second);
    weight = hn::Sub(weight, away);
    hn::StoreU(weight, D(), out[0]);
    hn::StoreU(first, D(), out[1]);
    hn::StoreU(second, D(), out[2]);
    if constexpr (kBegins) {
      hn::StoreU(weightBefore(weight, away), D(), out[3]);
      hn::StoreU(firstBefore(gradient, first), D(), out[4]);
      hn::StoreU(secondBefore(gradient, second), D(), out[5]);
    }
  }
  HWY_INLINE void stateBefore(const float *const *in, float *const *out) const {
    V gradient = hn::Mul(load(in[0]), all(s.clip));
    hn::StoreU(firstBefore(gradient, load(in[2])), D(), out[0]);
    hn::StoreU(secondBefore(gradient, load(in[3])), D(), out[1]);
  }
  HWY_INLINE V weightBefore(const float *const *in) const {
    return weightBefore(load(in[1]), moved(load(in[2]), load(in[3])));
  }
};

struct SgdRule {
  static constexpr int kState = 1;
  static constexpr bool kTellsState = false;
  Sgd s;
  template <bool kBegins> HWY_INLINE void step(const float *const *in, float *const *out) const {
    V weight = load(in[1]);
    V gradient = hn::MulAdd(weight, all(s.decay), hn::Mul(load(in[0]), all(s.clip)));
    V momentum = hn::MulAdd(load(in[2]), all(s.momentum), gradient);
    weight = hn::NegMulAdd(momentum, all(s.rate), weight);
    hn::StoreU(weight, D(), out[0]);
    hn::StoreU(momentum, D(), out[1]);
    if constexpr (kBegins)
      hn::StoreU(weightBefore(weight, momentum), D(), out[2]);
  }
  HWY_INLINE V weightBefore(V weight, V momentum) const { return hn::MulAdd(momentum, all(s.rate), weight); }
  HWY_INLINE V weightBefore(const float *const *in) const { return weightBefore(load(in[1]), load(in[2])); }
};

struct ReplaceRule {
  static constexpr int kState = 0;
  static constexpr bool kTellsState = false;
  template <bool kBegins> HWY_INLINE void step(const float *const *in, float *const *out) const {
    hn::StoreU(load(in[0]), D(), out[0]);
  }
  HWY_INLINE V weightBefore(const float *const *in) const { return load(in[1]); } // it tells nothing
};

struct LionRule {
  static constexpr int kState = 1;
  static constexpr bool kTellsState = true;
  Lion s;
  HWY_INLINE V moved(V away, V first) const {
    V direction = hn::MulAdd(all(s.towards1), away, first);
    return hn::IfThenElseZero(hn::Ne(direction, all(0)), hn::CopySign(all(s.rate), direction));
  }
  HWY_INLINE V firstBefore(V gradient, V first) const {
    return hn::Mul(hn::NegMulAdd(all(s.towards2), gradient, first), all(1 / (1 - s.towards2)));
  }
  HWY_INLINE V weightBefore(V weight, V moved) const { return hn::Mul(hn::Add(weight, moved), all(1 / s.keep)); }

  template <bool kBegins> HWY_INLINE void step(const float *const *in, float *const *out) const {
    V gradient = hn::Mul(load(in[0]), all(s.clip)), before = load(in[2]), away = hn::Sub(gradient, before);
    V by = moved(away, before), weight = hn::Sub(hn::Mul(load(in[1]), all(s.keep)), by);
    V first = hn::MulAdd(all(s.towards2), away, before);
    hn::StoreU(weight, D(), out[0]);
    hn::StoreU(first, D(), out[1]);
    if constexpr (kBegins) {
      hn::StoreU(weightBefore(weight, by), D(), out[2]);
      hn::StoreU(firstBefore(gradient, first), D(), out[3]);
    }
  }
  HWY_INLINE void stateBefore(const float *const *in, float *const *out) const {
    hn::StoreU(firstBefore(hn::Mul(load(in[0]), all(s.clip)), load(in[2])), D(), out[0]);
  }
  HWY_INLINE V weightBefore(const float *const *in) const {
    V before = load(in[3]);
    return weightBefore(load(in[1]), moved(hn::Sub(hn::Mul(load(in[0]), all(s.clip)), before), before));
  }
};

/// Of a rule, what inVectors() and map() call.
template <bool kBegins, typename Rule> struct Steps {
  Rule rule;
  HWY_INLINE void operator()(const float *const *in, float *const *out) const { rule.template step<kBegins>(in, out); }
};
template <typename Rule> struct StatesBefore {
  Rule rule;
  HWY_INLINE void operator()(const float *const *in, float *const *out) const { rule.stateBefore(in, out); }
};
template <typename Rule> struct WeightsBefore {
  Rule rule;
  HWY_INLINE V operator()(const float *const *in) const { return rule.weightBefore(in); }
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

// A weight from an element on.
float *at(float *weight, int64_t element) { return weight + element; }
SplitWeight at(const SplitWeight &weight, int64_t element) { return {weight.upper + element, weight.lower + element}; }

// An average follows the new weight; what both tell of it before.
struct Towards {
  float share;
  HWY_INLINE V operator()(const float *const *in) const {
    V average = load(in[1]);
    return hn::MulAdd(all(share), hn::Sub(load(in[0]), average), average);
  }
};
struct AverageBefore {
  float share;
  HWY_INLINE V operator()(const float *const *in) const {
    return hn::Mul(hn::NegMulAdd(all(share), load(in[0]), load(in[1])), all(1 / (1 - share)));
  }
};

/// A block's new weight, state and average, each in f32; and what they tell of what they replace.
constexpr int kMostParts = 4;
using Parts = float[kMostParts][kUpdateBlock];

/// Elements [first, end) of new ones to where they belong.
template <int kState, typename Weight>
void keepParts(const Parts &fresh, Weight weight, float *const *state, const Average &average, int64_t first,
               int64_t end) {
  keep(fresh[0] + first, at(weight, first), end - first);
  for (int i = 0; i < kState; ++i)
    std::memcpy(state[i] + first, fresh[1 + i] + first, static_cast<size_t>(end - first) * sizeof(float));
  if (average.values)
    std::memcpy(average.values + first, fresh[1 + kState] + first, static_cast<size_t>(end - first) * sizeof(float));
}
/// Of each run that has a bit.
template <int kState, typename Weight>
void keepRuns(const Parts &fresh, Weight weight, float *const *state, const Average &average, int64_t count,
              uint8_t runs) {
  if (runs == kAllRuns)
    return keepParts<kState>(fresh, weight, state, average, 0, count);
  for (int64_t first = 0; first < count; first += kUndoRun)
    if (runs >> (first / kUndoRun) & 1)
      keepParts<kState>(fresh, weight, state, average, first, std::min(count, first + kUndoRun));
}

template <typename Rule, typename Weight>
bool updateOn(Rule rule, const float *gradient, Weight weight, float *const *state, const Average &average,
              int64_t count) {
  constexpr int kState = Rule::kState;
  HWY_ALIGN Parts fresh;
  float buffer[kUpdateBlock];
  const float *in[2 + kState] = {gradient, values(weight, buffer, count)};
  float *out[1 + kState] = {fresh[0]};
  for (int i = 0; i < kState; ++i) {
    in[2 + i] = state[i];
    out[1 + i] = fresh[1 + i];
  }
  inVectors<2 + kState, 1 + kState>(in, out, count, Steps<false, Rule>{rule});
  if (!fits(weight, fresh[0], count))
    return false;
  keepParts<kState>(fresh, weight, state, {}, 0, count);
  const float *both[] = {fresh[0], average.values};
  if (average.values)
    map<2>(both, average.values, count, false, Towards{average.towards});
  return true;
}

/// By how many patterns of bits `guess` is off, of `count` elements, as integers, of which the least stands for a zero;
/// the runs of which some do not fit, a bit of each.
template <typename Integer> unsigned tell(const float *before, const float *guess, int64_t count, std::byte *undo) {
  const hn::RebindToSigned<D> whole;
  const Bits positive;
  const hn::Rebind<Integer, D> narrow;
  constexpr int32_t kMost = std::numeric_limits<Integer>::max();
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  HWY_ALIGN float padded[2][HWY_MAX_BYTES / sizeof(float)] = {};
  unsigned misses = 0;
  for (int64_t i = 0; i < count;) {
    auto largest = hn::Zero(positive); // of what is from 0 to 2 * kMost where it fits
    const int64_t run = i / kUndoRun;
    for (const int64_t end = std::min(count, (run + 1) * kUndoRun); i < end; i += lanes) {
      const float *values[] = {before + i, guess + i};
      for (int k = 0; k < 2 && i + lanes > count; ++k) {
        std::memcpy(padded[k], values[k], static_cast<size_t>(count - i) * sizeof(float));
        values[k] = padded[k];
      }
      const auto bits = hn::BitCast(whole, load(values[0])), off = hn::Sub(bits, hn::BitCast(whole, load(values[1])));
      const auto isZero = hn::Eq(bits, hn::Zero(whole));
      hn::StoreU(hn::DemoteTo(narrow, hn::IfThenElse(isZero, hn::Set(whole, -kMost - 1), off)), narrow,
                 reinterpret_cast<Integer *>(undo) + i);
      largest =
          hn::Max(largest, hn::BitCast(positive, hn::IfThenZeroElse(isZero, hn::Add(off, hn::Set(whole, kMost)))));
    }
    misses |= unsigned{hn::GetLane(hn::MaxOfLanes(positive, largest)) > 2 * kMost} << run;
  }
  return misses;
}
template <typename Integer> void hear(const std::byte *undo, const float *guess, int64_t count, float *before) {
  const hn::RebindToSigned<D> whole;
  const hn::Rebind<Integer, D> narrow;
  const auto zero = hn::Set(whole, std::numeric_limits<Integer>::min());
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t i = 0; i < count; i += lanes) { // a block's places are there
    const auto off = hn::PromoteTo(whole, hn::LoadU(narrow, reinterpret_cast<const Integer *>(undo) + i));
    const auto bits = hn::Add(off, hn::BitCast(whole, load(guess + i)));
    hn::StoreU(hn::BitCast(D(), hn::IfThenZeroElse(hn::Eq(off, zero), bits)), D(), before + i);
  }
}

/// Of one part, so many bytes an element; `undo` then is at the next part.
unsigned tellPart(const float *before, const float *guess, int64_t count, int64_t bytes, std::byte *&undo) {
  std::byte *to = std::exchange(undo, undo + kUpdateBlock * bytes);
  if (bytes == 1)
    return tell<int8_t>(before, guess, count, to);
  if (bytes == 2)
    return tell<int16_t>(before, guess, count, to);
  std::memcpy(to, before, static_cast<size_t>(count) * sizeof(float));
  return 0;
}
void hearPart(const std::byte *undo, const float *guess, int64_t count, int64_t bytes, float *before) {
  if (bytes == 1)
    return hear<int8_t>(undo, guess, count, before);
  if (bytes == 2)
    return hear<int16_t>(undo, guess, count, before);
  std::memcpy(before, undo, static_cast<size_t>(count) * sizeof(float));
}

template <typename Rule, typename Weight>
uint8_t beginOn(Rule rule, const float *gradient, Weight weight, float *const *state, const Average &average,
                int64_t count, std::span<const int64_t> parts, std::byte *undo) {
  constexpr int kState = Rule::kState;
  HWY_ALIGN Parts fresh, guess;
  float buffer[kUpdateBlock];
  const float *in[2 + kState] = {gradient, values(weight, buffer, count)};
  float *out[2 + 2 * kState];
  for (int i = 0; i < kState; ++i)
    in[2 + i] = state[i];
  for (int i = 0; i <= kState; ++i) {
    out[i] = fresh[i];
    out[1 + kState + i] = guess[i];
  }
  inVectors<2 + kState, 2 + 2 * kState>(in, out, count, Steps<true, Rule>{rule});
  if (!fits(weight, fresh[0], count))
    return kAllRuns;
  unsigned misses = 0;
  for (int i = 0; i <= kState; ++i)
    misses |= tellPart(in[1 + i], guess[i], count, parts[static_cast<size_t>(i)], undo);
  if (average.values) {
    const float *both[] = {fresh[0], average.values}, *then[] = {fresh[0], fresh[1 + kState]};
    map<2>(both, fresh[1 + kState], count, false, Towards{average.towards});
    map<2>(then, guess[0], count, false, AverageBefore{average.towards});
    misses |= tellPart(average.values, guess[0], count, parts[1 + kState], undo);
  }
  keepRuns<kState>(fresh, weight, state, average, count, static_cast<uint8_t>(~misses));
  return static_cast<uint8_t>(misses);
}

template <typename Rule, typename Weight>
void takeBackOn(Rule rule, const float *gradient, Weight weight, float *const *state, const Average &average,
                int64_t count, std::span<const int64_t> parts, const std::byte *undo, uint8_t left) {
  constexpr int kState = Rule::kState;
  HWY_ALIGN Parts before, guess = {};
  float buffer[kUpdateBlock];
  const float *in[2 + 2 * kState] = {gradient, values(weight, buffer, count)};
  float *ofState[1 + kState] = {};
  for (int i = 0; i < kState; ++i) {
    in[2 + i] = state[i];
    in[2 + kState + i] = before[1 + i];
    ofState[i] = guess[1 + i];
  }
  if constexpr (Rule::kTellsState)
    inVectors<2 + kState, kState>(in, ofState, count, StatesBefore<Rule>{rule});
  const std::byte *place = undo + kUpdateBlock * parts[0];
  for (size_t i = 1; i <= kState; place += kUpdateBlock * parts[i++])
    hearPart(place, guess[i], count, parts[i], before[i]);
  map<2 + 2 * kState>(in, guess[0], count, false, WeightsBefore<Rule>{rule});
  hearPart(undo, guess[0], count, parts[0], before[0]);
  if (average.values) {
    const float *both[] = {in[1], average.values};
    map<2>(both, guess[1 + kState], count, false, AverageBefore{average.towards});
    hearPart(place, guess[1 + kState], count, parts[1 + kState], before[1 + kState]);
  }
  keepRuns<kState>(before, weight, state, average, count, static_cast<uint8_t>(~left));
}

template <typename Body> auto byRule(const UpdateRule &rule, const Body &body) {
  if (const AdamW *adamw = std::get_if<AdamW>(&rule))
    return body(AdamWRule{*adamw});
  if (const Sgd *sgd = std::get_if<Sgd>(&rule))
    return body(SgdRule{*sgd});
  if (std::holds_alternative<Replace>(rule))
    return body(ReplaceRule());
  return body(LionRule{std::get<Lion>(rule)});
}
template <typename Weight>
bool updateBy(const UpdateRule &rule, const float *gradient, Weight weight, float *const *state, const Average &average,
              int64_t count) {
  return byRule(rule, [&](auto of) HWY_ATTR { return updateOn(of, gradient, weight, state, average, count); });
}
template <typename Weight>
uint8_t beginBy(const UpdateRule &rule, const float *gradient, Weight weight, float *const *state,
                const Average &average, int64_t count, std::span<const int64_t> parts, std::byte *undo) {
  return byRule(rule,
                [&](auto of) HWY_ATTR { return beginOn(of, gradient, weight, state, average, count, parts, undo); });
}
template <typename Weight>
void takeBackBy(const UpdateRule &rule, const float *gradient, Weight weight, float *const *state,
                const Average &average, int64_t count, std::span<const int64_t> parts, const std::byte *undo,
                uint8_t left) {
  byRule(rule, [&](auto of) HWY_ATTR { takeBackOn(of, gradient, weight, state, average, count, parts, undo, left); });
}
bool updateWhole(const UpdateRule &rule, const float *gradient, float *weight, float *const *state,
                 const Average &average, int64_t count) {
  return updateBy(rule, gradient, weight, state, average, count);
}
bool updateSplit(const UpdateRule &rule, const float *gradient, SplitWeight weight, float *const *state,
                 const Average &average, int64_t count) {
  return updateBy(rule, gradient, weight, state, average, count);
}
uint8_t beginWhole(const UpdateRule &rule, const float *gradient, float *weight, float *const *state,
                   const Average &average, int64_t count, std::span<const int64_t> parts, std::byte *undo) {
  return beginBy(rule, gradient, weight, state, average, count, parts, undo);
}
uint8_t beginSplit(const UpdateRule &rule, const float *gradient, SplitWeight weight, float *const *state,
                   const Average &average, int64_t count, std::span<const int64_t> parts, std::byte *undo) {
  return beginBy(rule, gradient, weight, state, average, count, parts, undo);
}
void takeBackWhole(const UpdateRule &rule, const float *gradient, float *weight, float *const *state,
                   const Average &average, int64_t count, std::span<const int64_t> parts, const std::byte *undo,
                   uint8_t left) {
  takeBackBy(rule, gradient, weight, state, average, count, parts, undo, left);
}
void takeBackSplit(const UpdateRule &rule, const float *gradient, SplitWeight weight, float *const *state,
                   const Average &average, int64_t count, std::span<const int64_t> parts, const std::byte *undo,
                   uint8_t left) {
  takeBackBy(rule, gradient, weight, state, average, count, parts, undo, left);
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
HWY_EXPORT(foldNarrowRows);
HWY_EXPORT(keepLargest);
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
HWY_EXPORT(beginWhole);
HWY_EXPORT(beginSplit);
HWY_EXPORT(takeBackWhole);
HWY_EXPORT(takeBackSplit);
HWY_EXPORT(streamBytes);

namespace vec {

void widen(const Bf16 *from, int64_t count, float *to) { HWY_DYNAMIC_DISPATCH(widenAll)(from, count, to); }
void narrow(const float *from, int64_t count, bool accumulate, Bf16 *to) {
  if (!accumulate && roundsByUnit())
    return narrowByUnit(from, count, to);
  HWY_DYNAMIC_DISPATCH(narrowAll)(from, count, accumulate, to);
}
void foldLanes(Fold fold, const float *x, int64_t count, double *lanes) {
  HWY_DYNAMIC_DISPATCH(foldLanes)(fold, x, count, lanes);
}
void foldRows(Fold fold, const float *x, int64_t step, int64_t rows, int64_t count, double *values) {
  HWY_DYNAMIC_DISPATCH(foldRows)(fold, x, step, rows, count, values);
}
void foldRows(Fold fold, const Bf16 *x, int64_t step, int64_t rows, int64_t count, double *values) {
  HWY_DYNAMIC_DISPATCH(foldNarrowRows)(fold, x, step, rows, count, values);
}
void rotate(const float *a, const float *b, const float *c, const float *s, bool back, int64_t step, int64_t pairs,
            float *outA, float *outB) {
  HWY_DYNAMIC_DISPATCH(rotate)(a, b, c, s, back, step, pairs, outA, outB);
}
void roundToBf16(const float *from, int64_t count, float *to) {
  roundsByUnit() ? roundByUnit(from, count, to) : HWY_DYNAMIC_DISPATCH(roundAll)(from, count, to);
}
void keepLargest(const float *x, int64_t step, int64_t count, int32_t element, float *values, int32_t *from) {
  HWY_DYNAMIC_DISPATCH(keepLargest)(x, step, count, element, values, from);
}
double sum(const float *x, int64_t count) { return HWY_DYNAMIC_DISPATCH(sum)(x, count); }
double dot(const float *x, const float *y, int64_t count) { return HWY_DYNAMIC_DISPATCH(dot)(x, y, count); }
double squaredDistance(const float *x, float center, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(squaredDistance)(x, center, count);
}
double squaredNorm(const float *x, int64_t count) { return HWY_DYNAMIC_DISPATCH(squaredNorm)(x, count); }
void addSquares(const float *x, int64_t step, int64_t rows, int64_t count, double *sums) {
  HWY_DYNAMIC_DISPATCH(addSquares)(x, step, rows, count, sums);
}
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
uint8_t begin(const UpdateRule &rule, const float *gradient, float *weight, float *const *state, const Average &average,
              int64_t count, std::span<const int64_t> parts, std::byte *undo) {
  return HWY_DYNAMIC_DISPATCH(beginWhole)(rule, gradient, weight, state, average, count, parts, undo);
}
uint8_t begin(const UpdateRule &rule, const float *gradient, SplitWeight weight, float *const *state,
              const Average &average, int64_t count, std::span<const int64_t> parts, std::byte *undo) {
  return HWY_DYNAMIC_DISPATCH(beginSplit)(rule, gradient, weight, state, average, count, parts, undo);
}
void takeBack(const UpdateRule &rule, const float *gradient, float *weight, float *const *state, const Average &average,
              int64_t count, std::span<const int64_t> parts, const std::byte *undo, uint8_t left) {
  HWY_DYNAMIC_DISPATCH(takeBackWhole)(rule, gradient, weight, state, average, count, parts, undo, left);
}
void takeBack(const UpdateRule &rule, const float *gradient, SplitWeight weight, float *const *state,
              const Average &average, int64_t count, std::span<const int64_t> parts, const std::byte *undo,
              uint8_t left) {
  HWY_DYNAMIC_DISPATCH(takeBackSplit)(rule, gradient, weight, state, average, count, parts, undo, left);
}

} // namespace vec
} // namespace mt::kernels::cpu
#endif
