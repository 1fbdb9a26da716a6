// Row functions of integers and booleans, and of double: plain loops.
#include "kernels/cpu/ElementwiseOps.h"

#include <cmath>
#include <map>
#include <numbers>

namespace mt::kernels::cpu {
namespace {

template <typename C> using Table = std::map<std::string, RowFunction<C>, std::less<>>;

// A row function out of a stateless lambda of one, two or three values.
template <typename C, typename F> RowFunction<C> one(F) {
  return [](const C *const *in, C *const *out, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      out[0][i] = static_cast<C>(F()(in[0][i]));
  };
}
template <typename C, typename F> RowFunction<C> two(F) {
  return [](const C *const *in, C *const *out, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      out[0][i] = static_cast<C>(F()(in[0][i], in[1][i]));
  };
}
template <typename C> void choose(const C *const *in, C *const *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[0][i] = in[0][i] != C(0) ? in[1][i] : in[2][i];
}

template <typename C> void addComparisons(Table<C> &table) {
  table["compare.eq"] = two<C>([](C a, C b) { return a == b; });
  table["compare.ne"] = two<C>([](C a, C b) { return a != b; });
  table["compare.lt"] = two<C>([](C a, C b) { return a < b; });
  table["compare.le"] = two<C>([](C a, C b) { return a <= b; });
  table["compare.gt"] = two<C>([](C a, C b) { return a > b; });
  table["compare.ge"] = two<C>([](C a, C b) { return a >= b; });
  table["select"] = choose<C>;
}

// Integer arithmetic wraps around, as the hardware's does.
int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }
uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

int64_t divide(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? wrap(0 - bits(a)) : a / b; }

int64_t modulo(int64_t a, int64_t b) {
  if (b == 0 || b == -1)
    return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = bits(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor)
    result *= exponent & 1 ? factor : 1;
  return wrap(result);
}

Table<int64_t> integers() {
  using I = int64_t;
  Table<I> table;
  table["add"] = two<I>([](I a, I b) { return wrap(bits(a) + bits(b)); });
  table["sub"] = two<I>([](I a, I b) { return wrap(bits(a) - bits(b)); });
  table["mul"] = two<I>([](I a, I b) { return wrap(bits(a) * bits(b)); });
  table["div"] = two<I>([](I a, I b) { return divide(a, b); });
  table["mod"] = two<I>([](I a, I b) { return modulo(a, b); });
  table["pow"] = two<I>([](I a, I b) { return power(a, b); });
  table["maximum"] = two<I>([](I a, I b) { return a > b ? a : b; });
  table["minimum"] = two<I>([](I a, I b) { return a < b ? a : b; });
  table["and"] = two<I>([](I a, I b) { return a & b; });
  table["or"] = two<I>([](I a, I b) { return a | b; });
  table["xor"] = two<I>([](I a, I b) { return a ^ b; });
  table["neg"] = one<I>([](I a) { return wrap(0 - bits(a)); });
  table["abs"] = one<I>([](I a) { return a < 0 ? wrap(0 - bits(a)) : a; });
  table["sign"] = one<I>([](I a) { return I(a > 0) - I(a < 0); });
  table["relu"] = one<I>([](I a) { return a > 0 ? a : 0; });
  table["not"] = one<I>([](I a) { return a == 0; });
  for (const char *name : {"floor", "ceil", "round"})
    table[name] = one<I>([](I a) { return a; });
  addComparisons(table);
  return table;
}

// The activations and their derivatives, in 64 bits.
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

enum class Activation { relu, silu, geluErf, geluTanh, geluSigmoid, softplus, sigmoid };

constexpr double kTanhScale = 0.79788456080286535588; // sqrt(2 / pi)
constexpr double kCubic = 0.044715, kSigmoidScale = 1.702;

template <Activation A> double value(double x) {
  if constexpr (A == Activation::relu)
    return x > 0 ? x : 0;
  if constexpr (A == Activation::silu)
    return x * sigmoid(x);
  if constexpr (A == Activation::geluErf)
    return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
  if constexpr (A == Activation::geluTanh)
    return 0.5 * x * (1 + std::tanh(kTanhScale * (x + kCubic * x * x * x)));
  if constexpr (A == Activation::geluSigmoid)
    return x * sigmoid(kSigmoidScale * x);
  if constexpr (A == Activation::softplus)
    return softplus(x);
  return sigmoid(x);
}

template <Activation A> double slope(double x) {
  double s = sigmoid(A == Activation::geluSigmoid ? kSigmoidScale * x : x);
  if constexpr (A == Activation::relu)
    return x > 0;
  if constexpr (A == Activation::silu)
    return s * (1 + x * (1 - s));
  if constexpr (A == Activation::geluErf)
    return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + x * std::exp(-0.5 * x * x) * 0.5 * kTanhScale;
  if constexpr (A == Activation::geluTanh) {
    double t = std::tanh(kTanhScale * (x + kCubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kTanhScale * (1 + 3 * kCubic * x * x);
  }
  if constexpr (A == Activation::geluSigmoid)
    return s * (1 + kSigmoidScale * x * (1 - s));
  if constexpr (A == Activation::softplus)
    return s;
  return s * (1 - s);
}

template <Activation A> void addActivation(Table<double> &table, const std::string &name) {
  table["activation_grad." + name] = two<double>([](double x, double g) { return slope<A>(x) * g; });
  table["gated_product." + name] = two<double>([](double x, double up) { return value<A>(x) * up; });
  table["gated_product_grad." + name] = [](const double *const *in, double *const *out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      double gate = in[0][i], up = in[1][i], gradient = in[2][i];
      out[0][i] = slope<A>(gate) * up * gradient;
      out[1][i] = value<A>(gate) * gradient;
    }
  };
}

void addActivations(Table<double> &table) {
  addActivation<Activation::relu>(table, "relu");
  addActivation<Activation::silu>(table, "silu");
  addActivation<Activation::geluErf>(table, "gelu_erf");
  addActivation<Activation::geluTanh>(table, "gelu_tanh");
  addActivation<Activation::geluSigmoid>(table, "gelu_sigmoid");
  addActivation<Activation::softplus>(table, "softplus");
  addActivation<Activation::sigmoid>(table, "sigmoid");
  table["relu"] = one<double>([](double x) { return value<Activation::relu>(x); });
  table["silu"] = one<double>([](double x) { return value<Activation::silu>(x); });
  table["gelu.erf"] = one<double>([](double x) { return value<Activation::geluErf>(x); });
  table["gelu.tanh"] = one<double>([](double x) { return value<Activation::geluTanh>(x); });
  table["gelu.sigmoid"] = one<double>([](double x) { return value<Activation::geluSigmoid>(x); });
  table["softplus"] = one<double>([](double x) { return value<Activation::softplus>(x); });
  table["sigmoid"] = one<double>([](double x) { return value<Activation::sigmoid>(x); });
}

void addRealArithmetic(Table<double> &table) {
  using D = double;
  table["add"] = two<D>([](D a, D b) { return a + b; });
  table["sub"] = two<D>([](D a, D b) { return a - b; });
  table["mul"] = two<D>([](D a, D b) { return a * b; });
  table["div"] = two<D>([](D a, D b) { return a / b; });
  table["mod"] = two<D>([](D a, D b) {
    D rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  });
  table["pow"] = two<D>([](D a, D b) { return std::pow(a, b); });
  table["maximum"] = two<D>([](D a, D b) { return a != a || a > b ? a : b; });
  table["minimum"] = two<D>([](D a, D b) { return a != a || a < b ? a : b; });
}

void addRealFunctions(Table<double> &table) {
  using D = double;
  table["neg"] = one<D>([](D x) { return -x; });
  table["abs"] = one<D>([](D x) { return std::abs(x); });
  table["sign"] = one<D>([](D x) { return D(x > 0) - D(x < 0); });
  table["exp"] = one<D>([](D x) { return std::exp(x); });
  table["log"] = one<D>([](D x) { return std::log(x); });
  table["sqrt"] = one<D>([](D x) { return std::sqrt(x); });
  table["rsqrt"] = one<D>([](D x) { return 1 / std::sqrt(x); });
  table["reciprocal"] = one<D>([](D x) { return 1 / x; });
  table["tanh"] = one<D>([](D x) { return std::tanh(x); });
  table["erf"] = one<D>([](D x) { return std::erf(x); });
  table["sin"] = one<D>([](D x) { return std::sin(x); });
  table["cos"] = one<D>([](D x) { return std::cos(x); });
  table["atan"] = one<D>([](D x) { return std::atan(x); });
  table["floor"] = one<D>([](D x) { return std::floor(x); });
  table["ceil"] = one<D>([](D x) { return std::ceil(x); });
  table["round"] = one<D>([](D x) { return std::nearbyint(x); });
  table["is_nan"] = one<D>([](D x) { return std::isnan(x); });
}

Table<double> reals() {
  Table<double> table;
  addRealArithmetic(table);
  addRealFunctions(table);
  addActivations(table);
  addComparisons(table);
  return table;
}

template <typename C> RowFunction<C> lookUp(const Table<C> &table, const std::string &function) {
  auto found = table.find(function);
  return found == table.end() ? nullptr : found->second;
}

} // namespace

template <> RowFunction<double> rowFunction<double>(const std::string &function) {
  static const Table<double> table = reals();
  return lookUp(table, function);
}

template <> RowFunction<int64_t> rowFunction<int64_t>(const std::string &function) {
  static const Table<int64_t> table = integers();
  return lookUp(table, function);
}

} // namespace mt::kernels::cpu
