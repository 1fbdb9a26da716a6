// Elementwise kernels against functions of one number in 64 bits, over shapes, broadcasts and types.
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace mt::kernels::test {
namespace {

using One = double (*)(double);
using Two = double (*)(double, double);

/// Places of a broadcast operand's elements, one for each of the result's.
std::vector<size_t> places(const Dims &operand, const Dims &result) {
  size_t total = 1;
  for (int64_t dim : result)
    total *= static_cast<size_t>(dim);
  std::vector<size_t> from(total);
  for (size_t i = 0; i < total; ++i) {
    size_t rest = i, place = 0, stride = 1;
    for (size_t d = 0; d < operand.size(); ++d) {
      size_t size = static_cast<size_t>(result[result.size() - 1 - d]),
             own = static_cast<size_t>(operand[operand.size() - 1 - d]);
      place += own == 1 ? 0 : rest % size * stride;
      stride *= own;
      rest /= size;
    }
    from[i] = place;
  }
  return from;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double relu(double x) { return x > 0 ? x : 0; }
double silu(double x) { return x * sigmoid(x); }
double geluErf(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double geluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double geluSigmoid(double x) { return x * sigmoid(1.702 * x); }

struct UnaryCase {
  const char *name;
  Attributes attributes;
  One function;
  double low, high;
};

const UnaryCase kUnaries[] = {{"neg", {}, [](double x) { return -x; }, -9, 9},
                              {"abs", {}, [](double x) { return std::abs(x); }, -9, 9},
                              {"sign", {}, [](double x) { return double(x > 0) - double(x < 0); }, -9, 9},
                              {"exp", {}, [](double x) { return std::exp(x); }, -100, 10},
                              {"log", {}, [](double x) { return std::log(x); }, 1e-20, 100},
                              {"sqrt", {}, [](double x) { return std::sqrt(x); }, 0, 100},
                              {"rsqrt", {}, [](double x) { return 1 / std::sqrt(x); }, 0.01, 100},
                              {"reciprocal", {}, [](double x) { return 1 / x; }, 0.01, 100},
                              {"tanh", {}, [](double x) { return std::tanh(x); }, -12, 12},
                              {"sigmoid", {}, sigmoid, -100, 100},
                              {"softplus", {}, softplus, -50, 50},
                              {"erf", {}, [](double x) { return std::erf(x); }, -6, 6},
                              {"sin", {}, [](double x) { return std::sin(x); }, -1e5, 1e5},
                              {"cos", {}, [](double x) { return std::cos(x); }, -1e5, 1e5},
                              {"atan", {}, [](double x) { return std::atan(x); }, -30, 30},
                              {"floor", {}, [](double x) { return std::floor(x); }, -9, 9},
                              {"ceil", {}, [](double x) { return std::ceil(x); }, -9, 9},
                              {"round", {}, [](double x) { return std::nearbyint(x); }, -9, 9},
                              {"relu", {}, relu, -9, 9},
                              {"silu", {}, silu, -30, 30},
                              {"gelu", {}, geluErf, -9, 9},
                              {"gelu", {{"form", std::string("erf")}}, geluErf, -9, 9},
                              {"gelu", {{"form", std::string("tanh")}}, geluTanh, -9, 9},
                              {"gelu", {{"form", std::string("sigmoid")}}, geluSigmoid, -9, 9}};

Values mapped(const Values &values, One function) {
  Values out;
  for (double value : values)
    out.push_back(function(value));
  return out;
}

void testUnary(const UnaryCase &test, DType type, Dims dims, double tolerance) {
  SCOPED_TRACE(fmt::format("{} {}", test.name, name(type)));
  Tensor x = random(dims, 7, (test.high - test.low) / 2, type);
  for (double &value : x.values)
    value += (test.high + test.low) / 2;
  x = tensor(type, dims, run({"cast", {}, {tensor(DType::f64, dims, x.values)}, {{type, dims}}}).outputs[0]);
  expectResults({test.name, test.attributes, {x}, {{type, dims}}}, {mapped(x.values, test.function)}, tolerance);
}

TEST(Elementwise, UnaryFloat) {
  for (const UnaryCase &test : kUnaries) {
    testUnary(test, DType::f32, {37}, 3e-7);
    testUnary(test, DType::f32, {3, 41, 353}, 3e-7);
  }
}

TEST(Elementwise, UnaryOtherTypes) {
  for (const UnaryCase &test : kUnaries) {
    testUnary(test, DType::f64, {1031}, 1e-13);
    testUnary(test, DType::bf16, {1031}, 8e-3);
    testUnary(test, DType::f16, {1031}, 2e-3);
  }
}

TEST(Elementwise, SpecialValues) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  Tensor x = tensor(DType::f32, {6}, {inf, -inf, nan, 0, -1, 1e-40});
  auto expect = [&](const char *kernel, One function) {
    expectResults({kernel, {}, {x}, {{DType::f32, {6}}}}, {mapped(x.values, function)}, 3e-7);
  };
  expect("exp", [](double v) { return std::exp(v); });
  expect("log", [](double v) { return std::log(v); });
  expect("sqrt", [](double v) { return std::sqrt(v); });
  expect("tanh", [](double v) { return std::tanh(v); });
  expect("erf", [](double v) { return std::erf(v); });
  expect("atan", [](double v) { return std::atan(v); });
  expect("sigmoid", sigmoid);
  expect("softplus", [](double v) { return v == -INFINITY ? 0.0 : v == INFINITY ? v : softplus(v); });
  expect("relu", [](double v) { return std::isnan(v) ? v : relu(v); });
  expectResults({"is_nan", {}, {x}, {{DType::boolean, {6}}}}, {{0, 0, 1, 0, 0, 0}}, 0);
  Tensor y = tensor(DType::f32, {6}, {1, nan, 1, nan, -2, 0});
  expectResults({"maximum", {}, {x, y}, {{DType::f32, {6}}}}, {{inf, nan, nan, nan, -1, 1e-40f}}, 0);
  expectResults({"minimum", {}, {x, y}, {{DType::f32, {6}}}}, {{1, nan, nan, nan, -2, 0}}, 0);
}

struct BinaryCase {
  const char *name;
  Two real, integer;
};

const BinaryCase kBinaries[] = {
    {"add", [](double a, double b) { return a + b; }, [](double a, double b) { return a + b; }},
    {"sub", [](double a, double b) { return a - b; }, [](double a, double b) { return a - b; }},
    {"mul", [](double a, double b) { return a * b; }, [](double a, double b) { return a * b; }},
    {"div", [](double a, double b) { return a / b; },
     [](double a, double b) { return b == 0 ? 0 : std::trunc(a / b); }},
    {"maximum", [](double a, double b) { return std::max(a, b); }, [](double a, double b) { return std::max(a, b); }},
    {"minimum", [](double a, double b) { return std::min(a, b); }, [](double a, double b) { return std::min(a, b); }},
    {"mod", [](double a, double b) { return a - b * std::floor(a / b); },
     [](double a, double b) { return b == 0 ? 0 : a - b * std::floor(a / b); }}};

struct Shapes {
  Dims lhs, rhs, result;
};
const Shapes kShapes[] = {{{5, 77}, {5, 77}, {5, 77}},
                          {{6, 1000}, {1000}, {6, 1000}},
                          {{3, 1, 5}, {4, 1}, {3, 4, 5}},
                          {{}, {2, 3}, {2, 3}},
                          {{7, 1}, {1, 9}, {7, 9}},
                          {{64, 1025}, {64, 1}, {64, 1025}},
                          {{2, 3, 1, 4, 5}, {3, 6, 1, 5}, {2, 3, 6, 4, 5}}};

Values mapped(const Tensor &lhs, const Tensor &rhs, const Dims &result, Two function) {
  std::vector<size_t> left = places(lhs.dims, result), right = places(rhs.dims, result);
  Values out;
  for (size_t i = 0; i < left.size(); ++i)
    out.push_back(function(lhs.values[left[i]], rhs.values[right[i]]));
  return out;
}

TEST(Elementwise, BinaryBroadcast) {
  for (const BinaryCase &test : kBinaries)
    for (const Shapes &shapes : kShapes) {
      for (DType type : {DType::f32, DType::f64}) {
        Tensor lhs = random(shapes.lhs, 1, 3, type), rhs = random(shapes.rhs, 2, 1, type);
        for (double &value : rhs.values)
          value = value < 0 ? value - 0.5 : value + 0.5;
        rhs = tensor(type, rhs.dims,
                     run({"cast", {}, {tensor(DType::f64, rhs.dims, rhs.values)}, {{type, rhs.dims}}}).outputs[0]);
        expectResults({test.name, {}, {lhs, rhs}, {{type, shapes.result}}},
                      {mapped(lhs, rhs, shapes.result, test.real)}, 1e-6);
      }
      for (DType type : {DType::i64, DType::i32}) {
        Tensor lhs = integers(shapes.lhs, -9, 10, 3, type), rhs = integers(shapes.rhs, -4, 5, 4, type);
        expectResults({test.name, {}, {lhs, rhs}, {{type, shapes.result}}},
                      {mapped(lhs, rhs, shapes.result, test.integer)}, 0);
      }
    }
}

TEST(Elementwise, Power) {
  Tensor base = random({11, 13}, 5, 1), exponent = random({13}, 6, 3);
  for (double &value : base.values)
    value = std::abs(value) + 0.25;
  exponent.values[0] = 2, exponent.values[1] = 3, exponent.values[2] = 0;
  base = tensor(DType::f32, base.dims,
                run({"cast", {}, {tensor(DType::f64, base.dims, base.values)}, {{DType::f32, base.dims}}}).outputs[0]);
  expectResults({"pow", {}, {base, exponent}, {{DType::f32, {11, 13}}}},
                {mapped(base, exponent, {11, 13}, [](double a, double b) { return std::pow(a, b); })}, 1e-6);
  Tensor small = integers({50}, -3, 4, 7), power = integers({50}, 0, 5, 8);
  expectResults({"pow", {}, {small, power}, {{DType::i64, {50}}}},
                {mapped(small, power, {50}, [](double a, double b) { return std::pow(a, b); })}, 0);
}

TEST(Elementwise, CompareLogicSelect) {
  std::map<std::string, Two> predicates = {{"eq", [](double a, double b) { return double(a == b); }},
                                           {"ne", [](double a, double b) { return double(a != b); }},
                                           {"lt", [](double a, double b) { return double(a < b); }},
                                           {"le", [](double a, double b) { return double(a <= b); }},
                                           {"gt", [](double a, double b) { return double(a > b); }},
                                           {"ge", [](double a, double b) { return double(a >= b); }}};
  for (DType type : {DType::f32, DType::f64, DType::i64, DType::i32, DType::boolean})
    for (auto [predicate, function] : predicates) {
      Tensor lhs = integers({9, 1}, 0, type == DType::boolean ? 2 : 4, 1, type),
             rhs = integers({33}, 0, type == DType::boolean ? 2 : 4, 2, type);
      expectResults({"compare", {{"predicate", predicate}}, {lhs, rhs}, {{DType::boolean, {9, 33}}}},
                    {mapped(lhs, rhs, {9, 33}, function)}, 0);
    }
  Tensor lhs = integers({9, 1}, 0, 2, 1, DType::boolean), rhs = integers({33}, 0, 2, 2, DType::boolean);
  Two both = [](double a, double b) { return double(a != 0 && b != 0); };
  Two either = [](double a, double b) { return double(a != 0 || b != 0); };
  Two one = [](double a, double b) { return double((a != 0) != (b != 0)); };
  expectResults({"and", {}, {lhs, rhs}, {{DType::boolean, {9, 33}}}}, {mapped(lhs, rhs, {9, 33}, both)}, 0);
  expectResults({"or", {}, {lhs, rhs}, {{DType::boolean, {9, 33}}}}, {mapped(lhs, rhs, {9, 33}, either)}, 0);
  expectResults({"xor", {}, {lhs, rhs}, {{DType::boolean, {9, 33}}}}, {mapped(lhs, rhs, {9, 33}, one)}, 0);
  expectResults({"not", {}, {rhs}, {{DType::boolean, {33}}}},
                {mapped(rhs.values, [](double x) { return double(x == 0); })}, 0);
  for (DType type : {DType::f32, DType::f64, DType::i64}) {
    Tensor a = integers({9, 33}, -5, 5, 3, type), b = integers({}, 7, 8, 4, type);
    Values expected = a.values;
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = lhs.values[i / 33] != 0 ? expected[i] : 7;
    expectResults({"select", {}, {lhs, a, b}, {{type, {9, 33}}}}, {expected}, 0);
  }
}

const std::map<std::string, One> kActivations = {{"relu", relu},
                                                 {"silu", silu},
                                                 {"gelu_erf", geluErf},
                                                 {"gelu_tanh", geluTanh},
                                                 {"gelu_sigmoid", geluSigmoid},
                                                 {"sigmoid", sigmoid},
                                                 {"softplus", softplus}};

Values slopes(const Values &at, One function) {
  Values out;
  for (double x : at)
    out.push_back((function(x + 1e-5) - function(x - 1e-5)) / 2e-5);
  return out;
}

Values times(Values a, const Values &b) {
  for (size_t i = 0; i < a.size(); ++i)
    a[i] *= b[i];
  return a;
}

TEST(Elementwise, ActivationGradients) {
  for (auto [activation, function] : kActivations)
    for (DType type : {DType::f32, DType::f64}) {
      SCOPED_TRACE(activation);
      Attributes attributes = {{"activation", activation}};
      Tensor gate = random({5, 419}, 1, 6, type), up = random({5, 419}, 2, 2, type),
             gradient = random({5, 419}, 3, 2, type);
      Output out{type, {5, 419}};
      Values slope = slopes(gate.values, function), value = mapped(gate.values, function);
      expectResults({"activation_grad", attributes, {gate, gradient}, {out}}, {times(slope, gradient.values)}, 4e-6);
      if (activation == "softplus")
        continue;
      expectResults({"gated_product", attributes, {gate, up}, {out}}, {times(value, up.values)}, 1e-6);
      expectResults({"gated_product_grad", attributes, {gate, up, gradient}, {out, out}},
                    {times(times(slope, up.values), gradient.values), times(value, gradient.values)}, 4e-6);
    }
}

} // namespace
} // namespace mt::kernels::test
