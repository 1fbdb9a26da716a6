// Elementwise operations: scalar functions in double, and where they are applied.
#include "kernels/Expression.h"
#include "tests/nn/Evaluate.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace mt::nn::test {
namespace {

bool isInteger(Value value) { return isa<IntegerType>(getElementTypeOrSelf(value.getType())); }

double quotient(double a, double b) { return a / b; }
double truncatedQuotient(double a, double b) { return std::trunc(a / b); }
double remainder(double a, double b) { // of the divisor's sign
  double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
double sum(double a, double b) { return a + b; }
double difference(double a, double b) { return a - b; }
double product(double a, double b) { return a * b; }
double power(double a, double b) { return std::pow(a, b); }
double larger(double a, double b) { return a > b ? a : b; }
double smaller(double a, double b) { return a < b ? a : b; }
// Of integers bit by bit, which is right for booleans too.
double both(double a, double b) { return double(int64_t(a) & int64_t(b)); }
double either(double a, double b) { return double(int64_t(a) | int64_t(b)); }
double oneOf(double a, double b) { return double(int64_t(a) ^ int64_t(b)); }

template <typename Op, double (*kFunction)(double, double)> std::vector<Tensor> binary(Op op, const Operands &in) {
  const Tensor &lhs = in[op.getLhs()], &rhs = in[op.getRhs()];
  return {each(op.getResult(), [&](const Index &i) { return kFunction(lhs.broadcastAt(i), rhs.broadcastAt(i)); })};
}
std::vector<Tensor> divide(DivOp op, const Operands &in) {
  return isInteger(op.getLhs()) ? binary<DivOp, truncatedQuotient>(op, in) : binary<DivOp, quotient>(op, in);
}

std::vector<Tensor> compare(CompareOp op, const Operands &in) {
  const Tensor &lhs = in[op.getLhs()], &rhs = in[op.getRhs()];
  StringRef predicate = op.getPredicate();
  return {each(op.getResult(), [&](const Index &i) -> double {
    double a = lhs.broadcastAt(i), b = rhs.broadcastAt(i);
    if (predicate == "eq")
      return a == b;
    if (predicate == "ne")
      return a != b;
    if (predicate == "lt")
      return a < b;
    if (predicate == "le")
      return a <= b;
    return predicate == "gt" ? a > b : a >= b;
  })};
}

std::vector<Tensor> select(SelectOp op, const Operands &in) {
  const Tensor &condition = in[op.getCondition()], &lhs = in[op.getLhs()], &rhs = in[op.getRhs()];
  return {each(op.getResult(), [&](const Index &i) {
    return condition.broadcastAt(i) != 0 ? lhs.broadcastAt(i) : rhs.broadcastAt(i);
  })};
}

double negative(double x) { return -x; }
double magnitude(double x) { return x < 0 ? -x : x; }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double exponential(double x) { return std::exp(x); }
double logarithm(double x) { return std::log(x); }
double root(double x) { return std::sqrt(x); }
double inverseRoot(double x) { return 1 / std::sqrt(x); }
double inverse(double x) { return 1 / x; }
double hyperbolic(double x) { return std::tanh(x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::log(1 + std::exp(x)); }
double errorFunction(double x) { return std::erf(x); }
double sine(double x) { return std::sin(x); }
double cosine(double x) { return std::cos(x); }
double angle(double x) { return std::atan2(x, 1); }
double below(double x) { return std::floor(x); }
double same(double x) { return x; }
double above(double x) { return std::ceil(x); }
double nearest(double x) { return std::nearbyint(x); }
double relu(double x) { return x > 0 ? x : 0; }
double silu(double x) { return x * sigmoid(x); }
double negation(double x) { return x == 0; }
double isNan(double x) { return x != x; }

template <typename Op, double (*kFunction)(double)> std::vector<Tensor> unary(Op op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  return {each(op.getResult(), [&](const Index &i) { return kFunction(x.at(i)); })};
}
std::vector<Tensor> gelu(GeluOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  std::string name = ("gelu_" + op.getForm()).str();
  return {each(op.getResult(), [&](const Index &i) { return activation(name, x.at(i)); })};
}

std::vector<Tensor> activationGrad(ActivationGradOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()], &dy = in[op.getGradient()];
  return {each(op.getResult(), [&](const Index &i) { return slope(op.getActivation(), x.at(i)) * dy.at(i); })};
}
std::vector<Tensor> gatedProduct(GatedProductOp op, const Operands &in) {
  const Tensor &gate = in[op.getGate()], &up = in[op.getUp()];
  return {each(op.getResult(), [&](const Index &i) { return activation(op.getActivation(), gate.at(i)) * up.at(i); })};
}
std::vector<Tensor> gatedProductGrad(GatedProductGradOp op, const Operands &in) {
  const Tensor &gate = in[op.getGate()], &up = in[op.getUp()], &dy = in[op.getGradient()];
  StringRef name = op.getActivation();
  return {each(op.getDgate(), [&](const Index &i) { return slope(name, gate.at(i)) * up.at(i) * dy.at(i); }),
          each(op.getDup(), [&](const Index &i) { return activation(name, gate.at(i)) * dy.at(i); })};
}

/// The values of an expression of some functions, for one element.
template <typename Op> std::vector<double> valuesAt(Op op, const Operands &in, const Index &i) {
  kernels::Expression expression;
  kernels::parse(op.getExpression().str(), expression);
  std::vector<double> values;
  for (Value input : op.getInputs())
    values.push_back(in[input].broadcastAt(i));
  for (const kernels::Instruction &one : expression.instructions) {
    auto x = [&](size_t operand) { return values[one.operands[operand]]; };
    values.push_back(one.kernel == "constant" ? one.constant
                     : one.kernel == "mul"    ? x(0) * x(1)
                     : one.kernel == "add"    ? x(0) + x(1)
                     : one.kernel == "tanh"   ? hyperbolic(x(0))
                     : one.kernel == "gelu"   ? activation("gelu_" + one.choice, x(0))
                                              : std::nan(""));
  }
  return values;
}
std::vector<size_t> resultsOf(StringRef text) {
  kernels::Expression expression;
  kernels::parse(text.str(), expression);
  return expression.results;
}

std::vector<Tensor> elementwise(ElementwiseOp op, const Operands &in) {
  std::vector<Tensor> results;
  for (auto [result, value] : llvm::zip(op.getResults(), resultsOf(op.getExpression())))
    results.push_back(each(result, [&, value = value](const Index &i) { return valuesAt(op, in, i)[value]; }));
  return results;
}
std::vector<Tensor> elementwiseSums(ElementwiseSumsOp op, const Operands &in) {
  const std::vector<size_t> values = resultsOf(op.getExpression());
  const size_t first = values.size() - static_cast<size_t>(op.getSums());
  std::vector<Tensor> results;
  for (auto [k, result] : llvm::enumerate(op.getResults())) {
    auto value = [&, k = k](const Index &i) { return valuesAt(op, in, i)[values[k]]; };
    if (k < first) {
      results.push_back(each(result, value));
      continue;
    }
    const Index dims = in[op.getInputs()[0]].dims; // of cases: the first is not repeated
    Tensor made = zeros(result);
    int64_t count = 0;
    forEach(dims, [&](const Index &i) {
      Index to;
      for (size_t d = 0; d < i.size(); ++d)
        if (!llvm::is_contained(op.getAxes(), static_cast<int64_t>(d)))
          to.push_back(i[d]);
      made.at(to) += value(i);
      ++count;
    });
    for (double &sum : made.values)
      sum *= op.getKind() == "mean" ? static_cast<double>(made.values.size()) / static_cast<double>(count) : 1;
    results.push_back(made);
  }
  return results;
}

// Gelu's approximation x (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3).
const double kOuter = std::sqrt(2 / std::numbers::pi);
double tanhArgument(double x) { return kOuter * (x + 0.044715 * x * x * x); }
double bell(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double underBell(double x) { return (1 + std::erf(x / std::numbers::sqrt2)) / 2; }

} // namespace

double activation(StringRef name, double x) {
  if (name == "relu")
    return relu(x);
  if (name == "silu")
    return silu(x);
  if (name == "sigmoid")
    return sigmoid(x);
  if (name == "softplus")
    return softplus(x);
  if (name == "gelu_erf")
    return x * underBell(x);
  if (name == "gelu_tanh")
    return x * (1 + std::tanh(tanhArgument(x))) / 2;
  if (name == "gelu_sigmoid")
    return x * sigmoid(1.702 * x);
  return std::nan("");
}

double slope(StringRef name, double x) {
  double s = sigmoid(x);
  if (name == "relu")
    return x > 0 ? 1 : 0;
  if (name == "silu")
    return s + x * s * (1 - s);
  if (name == "sigmoid")
    return s * (1 - s);
  if (name == "softplus")
    return s;
  if (name == "gelu_erf")
    return underBell(x) + x * bell(x);
  if (name == "gelu_tanh") {
    double t = std::tanh(tanhArgument(x));
    return (1 + t) / 2 + x * (1 - t * t) / 2 * kOuter * (1 + 3 * 0.044715 * x * x);
  }
  if (name == "gelu_sigmoid") {
    double t = sigmoid(1.702 * x);
    return t + 1.702 * x * t * (1 - t);
  }
  return std::nan("");
}

void addElementwiseRules(Rules &rules) {
  addRule<AddOp, binary<AddOp, sum>>(rules);
  addRule<SubOp, binary<SubOp, difference>>(rules);
  addRule<MulOp, binary<MulOp, product>>(rules);
  addRule<DivOp, divide>(rules);
  addRule<PowOp, binary<PowOp, power>>(rules);
  addRule<MaximumOp, binary<MaximumOp, larger>>(rules);
  addRule<MinimumOp, binary<MinimumOp, smaller>>(rules);
  addRule<ModOp, binary<ModOp, remainder>>(rules);
  addRule<AndOp, binary<AndOp, both>>(rules);
  addRule<OrOp, binary<OrOp, either>>(rules);
  addRule<XorOp, binary<XorOp, oneOf>>(rules);
  addRule<CompareOp, compare>(rules);
  addRule<SelectOp, select>(rules);
  addRule<NegOp, unary<NegOp, negative>>(rules);
  addRule<AbsOp, unary<AbsOp, magnitude>>(rules);
  addRule<SignOp, unary<SignOp, sign>>(rules);
  addRule<ExpOp, unary<ExpOp, exponential>>(rules);
  addRule<LogOp, unary<LogOp, logarithm>>(rules);
  addRule<SqrtOp, unary<SqrtOp, root>>(rules);
  addRule<RsqrtOp, unary<RsqrtOp, inverseRoot>>(rules);
  addRule<ReciprocalOp, unary<ReciprocalOp, inverse>>(rules);
  addRule<TanhOp, unary<TanhOp, hyperbolic>>(rules);
  addRule<SigmoidOp, unary<SigmoidOp, sigmoid>>(rules);
  addRule<SoftplusOp, unary<SoftplusOp, softplus>>(rules);
  addRule<ErfOp, unary<ErfOp, errorFunction>>(rules);
  addRule<SinOp, unary<SinOp, sine>>(rules);
  addRule<CosOp, unary<CosOp, cosine>>(rules);
  addRule<AtanOp, unary<AtanOp, angle>>(rules);
  addRule<FloorOp, unary<FloorOp, below>>(rules);
  addRule<DetachOp, unary<DetachOp, same>>(rules);
  addRule<CeilOp, unary<CeilOp, above>>(rules);
  addRule<RoundOp, unary<RoundOp, nearest>>(rules);
  addRule<ReluOp, unary<ReluOp, relu>>(rules);
  addRule<SiluOp, unary<SiluOp, silu>>(rules);
  addRule<NotOp, unary<NotOp, negation>>(rules);
  addRule<IsNanOp, unary<IsNanOp, isNan>>(rules);
  addRule<GeluOp, gelu>(rules);
  addRule<ActivationGradOp, activationGrad>(rules);
  addRule<GatedProductOp, gatedProduct>(rules);
  addRule<ElementwiseOp, elementwise>(rules);
  addRule<ElementwiseSumsOp, elementwiseSums>(rules);
  addRule<GatedProductGradOp, gatedProductGrad>(rules);
}

} // namespace mt::nn::test
