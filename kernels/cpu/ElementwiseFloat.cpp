// Row functions of float, vectorized with Highway; compiled once for each instruction set and chosen at run time.
#include "kernels/cpu/ElementwiseOps.h"

#include <cmath>
#include <cstring>
#include <map>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/ElementwiseFloat.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/Activations-inl.h"

#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mt::kernels::cpu {
namespace HWY_NAMESPACE {

template <class F> struct Step1 {
  HWY_INLINE void operator()(const float *const *in, float *const *out) const {
    D d;
    hn::StoreU(F()(d, hn::LoadU(d, in[0])), d, out[0]);
  }
};
template <class F> struct Step2 {
  HWY_INLINE void operator()(const float *const *in, float *const *out) const {
    D d;
    hn::StoreU(F()(d, hn::LoadU(d, in[0]), hn::LoadU(d, in[1])), d, out[0]);
  }
};
template <class F> void one(const float *const *in, float *const *out, int64_t count) {
  inVectors<1, 1>(in, out, count, Step1<F>());
}
template <class F> void two(const float *const *in, float *const *out, int64_t count) {
  inVectors<2, 1>(in, out, count, Step2<F>());
}

/// What another gives, rounded to bf16.
template <class F> struct InBf16 {
  template <class... W> HWY_INLINE V operator()(D d, W... x) const { return nearestInBf16(F()(d, x...)); }
};

#define MT_ONE(name, expression)                                                                                       \
  struct name {                                                                                                        \
    HWY_INLINE V operator()(D d, V x) const {                                                                          \
      (void)d;                                                                                                         \
      return expression;                                                                                               \
    }                                                                                                                  \
  }
#define MT_TWO(name, expression)                                                                                       \
  struct name {                                                                                                        \
    HWY_INLINE V operator()(D d, V a, V b) const {                                                                     \
      (void)d;                                                                                                         \
      return expression;                                                                                               \
    }                                                                                                                  \
  }
#define MT_TEST(mask) hn::IfThenElseZero(mask, hn::Set(d, 1.0f))

MT_TWO(Add, hn::Add(a, b));
MT_TWO(Sub, hn::Sub(a, b));
MT_TWO(Mul, hn::Mul(a, b));
MT_TWO(Div, hn::Div(a, b));
MT_TWO(Maximum, hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Gt(a, b)), a, b));
MT_TWO(Minimum, hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Lt(a, b)), a, b));
MT_TWO(Equal, MT_TEST(hn::Eq(a, b)));
MT_TWO(NotEqual, MT_TEST(hn::Not(hn::Eq(a, b))));
MT_TWO(Less, MT_TEST(hn::Lt(a, b)));
MT_TWO(LessEqual, MT_TEST(hn::Le(a, b)));
MT_TWO(Greater, MT_TEST(hn::Gt(a, b)));
MT_TWO(GreaterEqual, MT_TEST(hn::Ge(a, b)));
MT_ONE(Neg, hn::Neg(x));
MT_ONE(Abs, hn::Abs(x));
MT_ONE(Sign, hn::Sub(MT_TEST(hn::Gt(x, hn::Zero(d))), MT_TEST(hn::Lt(x, hn::Zero(d)))));
MT_ONE(ExpF, expOf(d, x));
MT_ONE(LogF, logOf(d, x));
MT_ONE(Sqrt, hn::Sqrt(x));
MT_ONE(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)));
MT_ONE(Reciprocal, hn::Div(hn::Set(d, 1.0f), x));
MT_ONE(TanhF, tanhOf(d, x));
MT_ONE(Erf, erfOf(d, x));
MT_ONE(AtanF, keepNan(x, hn::Atan(d, x)));
MT_ONE(Floor, hn::Floor(x));
MT_ONE(Ceil, hn::Ceil(x));
MT_ONE(Round, hn::Round(x));
MT_ONE(IsNan, MT_TEST(hn::IsNaN(x)));

template <class A> struct GateGradStep {
  HWY_INLINE void operator()(const float *const *in, float *const *out) const {
    D d;
    V gate = hn::LoadU(d, in[0]), up = hn::LoadU(d, in[1]), gradient = hn::LoadU(d, in[2]);
    hn::StoreU(GateGrad<A>::toGate(d, gate, up, gradient), d, out[0]);
    hn::StoreU(GateGrad<A>::toUp(d, gate, gradient), d, out[1]);
  }
};
template <class A> void gateGrad(const float *const *in, float *const *out, int64_t count) {
  inVectors<3, 2>(in, out, count, GateGradStep<A>());
}

struct SelectStep {
  HWY_INLINE void operator()(const float *const *in, float *const *out) const {
    D d;
    auto chosen = hn::Not(hn::Eq(hn::LoadU(d, in[0]), hn::Zero(d)));
    hn::StoreU(hn::IfThenElse(chosen, hn::LoadU(d, in[1]), hn::LoadU(d, in[2])), d, out[0]);
  }
};
void choose(const float *const *in, float *const *out, int64_t count) { inVectors<3, 1>(in, out, count, SelectStep()); }

struct Named {
  const char *name;
  RowFunction<float> function, rounded; ///< the same, rounded to bf16; null: there is none
};
#define MT_OF(rows, type) rows<type>, rows<InBf16<type>>

#define MT_GATES(text, type)                                                                                           \
  {"activation_grad." text, MT_OF(two, Slope<type>)}, {"gated_product." text, MT_OF(two, Gate<type>)}, {               \
    "gated_product_grad." text, gateGrad<type>, nullptr                                                                \
  }

constexpr Named kFunctions[] = {{"add", MT_OF(two, Add)},
                                {"sub", MT_OF(two, Sub)},
                                {"mul", MT_OF(two, Mul)},
                                {"div", MT_OF(two, Div)},
                                {"maximum", MT_OF(two, Maximum)},
                                {"minimum", MT_OF(two, Minimum)},
                                {"compare.eq", two<Equal>, nullptr},
                                {"compare.ne", two<NotEqual>, nullptr},
                                {"compare.lt", two<Less>, nullptr},
                                {"compare.le", two<LessEqual>, nullptr},
                                {"compare.gt", two<Greater>, nullptr},
                                {"compare.ge", two<GreaterEqual>, nullptr},
                                {"select", choose, nullptr},
                                {"neg", MT_OF(one, Neg)},
                                {"abs", MT_OF(one, Abs)},
                                {"sign", MT_OF(one, Sign)},
                                {"exp", MT_OF(one, ExpF)},
                                {"log", MT_OF(one, LogF)},
                                {"sqrt", MT_OF(one, Sqrt)},
                                {"rsqrt", MT_OF(one, Rsqrt)},
                                {"reciprocal", MT_OF(one, Reciprocal)},
                                {"tanh", MT_OF(one, TanhF)},
                                {"erf", MT_OF(one, Erf)},
                                {"atan", MT_OF(one, AtanF)},
                                {"floor", MT_OF(one, Floor)},
                                {"ceil", MT_OF(one, Ceil)},
                                {"round", MT_OF(one, Round)},
                                {"is_nan", one<IsNan>, nullptr},
                                {"relu", MT_OF(one, Value<Relu>)},
                                {"silu", MT_OF(one, Value<Swish<1000>>)},
                                {"sigmoid", MT_OF(one, Value<Sigmoid>)},
                                {"softplus", MT_OF(one, Value<Softplus>)},
                                {"gelu.erf", MT_OF(one, Value<GeluErf>)},
                                {"gelu.tanh", MT_OF(one, Value<GeluTanh>)},
                                {"gelu.sigmoid", MT_OF(one, Value<Swish<1702>>)},
                                MT_GATES("relu", Relu),
                                MT_GATES("silu", Swish<1000>),
                                MT_GATES("sigmoid", Sigmoid),
                                MT_GATES("softplus", Softplus),
                                MT_GATES("gelu_erf", GeluErf),
                                MT_GATES("gelu_tanh", GeluTanh),
                                MT_GATES("gelu_sigmoid", Swish<1702>)};

RowFunction<float> vectorFunction(const char *name, bool rounded) {
  for (const Named &entry : kFunctions)
    if (std::strcmp(entry.name, name) == 0)
      return rounded ? entry.rounded : entry.function;
  return nullptr;
}

} // namespace HWY_NAMESPACE
} // namespace mt::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mt::kernels::cpu {
namespace {

// What is not worth a vector: rare, or only exact in the C library.
void sine(const float *const *in, float *const *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[0][i] = std::sin(in[0][i]);
}
void cosine(const float *const *in, float *const *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[0][i] = std::cos(in[0][i]);
}
void modulo(const float *const *in, float *const *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float rest = std::fmod(in[0][i], in[1][i]);
    out[0][i] = rest != 0 && (rest < 0) != (in[1][i] < 0) ? rest + in[1][i] : rest;
  }
}
void power(const float *const *in, float *const *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float x = in[0][i], y = in[1][i];
    out[0][i] = y == 2 ? x * x : y == 3 ? x * x * x : std::pow(x, y);
  }
}

HWY_EXPORT(vectorFunction);

} // namespace

template <> RowFunction<float> rowFunction<float>(const std::string &function) {
  static const std::map<std::string, RowFunction<float>> scalar = {
      {"sin", sine}, {"cos", cosine}, {"mod", modulo}, {"pow", power}};
  if (auto found = scalar.find(function); found != scalar.end())
    return found->second;
  return HWY_DYNAMIC_DISPATCH(vectorFunction)(function.c_str(), false);
}

RowFunction<float> roundedRowFunction(const std::string &function) {
  return HWY_DYNAMIC_DISPATCH(vectorFunction)(function.c_str(), true);
}

} // namespace mt::kernels::cpu
#endif
