// Arithmetic, comparisons and logic, element by element, broadcast as NumPy's.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ExportMetadata.h"

using namespace mlir;

namespace mt::onnx {
namespace {

template <typename Op> LogicalResult unary(NodeContext &node) { return node.result(node.emit<Op>({node.input(0)})); }
template <typename Op> LogicalResult binary(NodeContext &node) {
  return node.result(node.emit<Op>({node.input(0), node.input(1)}));
}

// Sum, Max, Min of any number of inputs.
template <typename Op> LogicalResult variadic(NodeContext &node) {
  Value total = node.input(0);
  for (size_t i = 1; i < node.inputCount(); ++i)
    total = node.emit<Op>({total, node.input(i)});
  return node.result(total);
}

LogicalResult mean(NodeContext &node) {
  Value total = node.input(0);
  for (size_t i = 1; i < node.inputCount(); ++i)
    total = node.add(total, node.input(i));
  return node.result(node.mul(total, node.scalar(total, 1.0 / static_cast<double>(node.inputCount()))));
}

template <char A, char B> LogicalResult compare(NodeContext &node) {
  constexpr char predicate[] = {A, B, 0};
  return node.result(node.compare(node.input(0), node.input(1), predicate));
}

// The exponent may have another type than the base, which gives the result's; whole numbers to a real power are
// computed as reals.
LogicalResult pow(NodeContext &node) {
  Value base = node.input(0), exponent = node.input(1);
  if (!base || !exponent)
    return failure();
  Type result = getElementTypeOrSelf(base), power = getElementTypeOrSelf(exponent);
  Type common = isa<IntegerType>(result) && isa<FloatType>(power) ? power : result;
  return node.result(node.cast(node.emit<nn::PowOp>({node.cast(base, common), node.cast(exponent, common)}), result));
}

// With fmod = 1 the remainder has the dividend's sign: a - b * trunc(a / b).
LogicalResult mod(NodeContext &node) {
  Value a = node.input(0), b = node.input(1);
  if (!a || !b)
    return failure();
  if (!node.attributes.integer("fmod", 0))
    return node.result(node.emit<nn::ModOp>({a, b}));
  Value quotient = node.div(a, b);
  if (quotient && nn::isReal(quotient))
    quotient = node.mul(node.emit<nn::SignOp>({quotient}),
                        node.emit<nn::FloorOp>({node.emit<nn::AbsOp>({quotient})}));
  return node.result(node.sub(a, node.mul(quotient, b)));
}

/// x, where the value is sigmoid(x) or 1 - sigmoid(-x), of its shape; log1p's sum of a negative is such a difference,
/// too.
Value logitOf(NodeContext &node, Value value) {
  auto isOne = [](Value of) { return nn::splatValue(of) == 1.0; };
  if (auto sigmoid = value.getDefiningOp<nn::SigmoidOp>())
    return sigmoid->getOperand(0);
  Value less;
  if (auto difference = value.getDefiningOp<nn::SubOp>(); difference && isOne(difference->getOperand(0)))
    less = difference->getOperand(1);
  if (auto sum = value.getDefiningOp<nn::AddOp>(); sum && isOne(sum->getOperand(1)))
    if (auto negative = sum->getOperand(0).getDefiningOp<nn::NegOp>())
      less = negative->getOperand(0);
  auto sigmoid = less && less.getType() == value.getType() ? less.getDefiningOp<nn::SigmoidOp>() : nn::SigmoidOp();
  return sigmoid ? node.emit<nn::NegOp>({sigmoid->getOperand(0)}) : Value();
}

// log(sigmoid(x)) = -softplus(-x), which is finite where the sigmoid is too small for its type.
Value logSigmoid(NodeContext &node, Value logit) {
  return node.emit<nn::NegOp>({node.emit<nn::SoftplusOp>({node.emit<nn::NegOp>({logit})})});
}

// log(e^a + e^b) = max(a, b) + softplus(-|a - b|): no exponential is too large for its type, and equal infinities stay.
Value logAddExp(NodeContext &node, Value a, Value b) {
  Value distance = node.emit<nn::AbsOp>({node.sub(a, b)});
  distance = node.emit<nn::SelectOp>({node.compare(a, b, "eq"), node.scalar(a, 0), distance});
  return node.add(node.emit<nn::MaximumOp>({a, b}), node.emit<nn::SoftplusOp>({node.emit<nn::NegOp>({distance})}));
}

// Exporters write PyTorch's logsigmoid and its losses of logits as logarithms of sigmoids, and its logaddexp as one of
// exponentials.
LogicalResult logarithm(NodeContext &node) {
  Value value = node.input(0);
  if (Value logit = value ? logitOf(node, value) : Value())
    return node.result(logSigmoid(node, logit));
  if (auto sum = value ? value.getDefiningOp<nn::AddOp>() : nn::AddOp()) {
    auto a = sum->getOperand(0).getDefiningOp<nn::ExpOp>(), b = sum->getOperand(1).getDefiningOp<nn::ExpOp>();
    if (a && b)
      return node.result(logAddExp(node, a->getOperand(0), b->getOperand(0)));
  }
  return node.result(node.emit<nn::LogOp>({value}));
}

LogicalResult where(NodeContext &node) {
  Value chosen = node.input(0), one = node.input(1), other = node.input(2);
  // PyTorch's sinc is 1 where x is 0, else sin(pi x) / (pi x), which has no slope that is a number where x is 0.
  if (auto ratio = other ? other.getDefiningOp<nn::DivOp>() : nn::DivOp(); ratio && one && isSinc(node.node))
    other = node.div(ratio->getOperand(0), node.emit<nn::SelectOp>({chosen, one, ratio->getOperand(1)}));
  return node.result(node.emit<nn::SelectOp>({chosen, one, other}));
}

/// Whether a Clip has no gradient where its input is a bound: as the exporter says, else where it looks like relu6.
bool isFlat(NodeContext &node) {
  auto bound = [&](size_t index, const char *name) -> std::optional<double> {
    if (node.attributes.has(name))
      return node.attributes.real(name, 0);
    const HostTensor *known = node.has(index) ? node.known(index) : nullptr;
    return known && known->elements() == 1 ? std::optional(known->realAt(0)) : std::nullopt;
  };
  return isFlatAtBounds(node.node).value_or(bound(1, "min") == 0.0 && bound(2, "max") == 6.0);
}

LogicalResult clip(NodeContext &node) {
  Value value = node.input(0);
  auto bound = [&](size_t index, const char *name) {
    return node.attributes.has(name) ? node.scalar(value, node.attributes.real(name, 0))
           : node.has(index)         ? node.input(index)
                                     : Value();
  };
  Value low = bound(1, "min"), high = bound(2, "max");
  if (value && nn::isReal(value))
    return node.result(clipped(node, value, low, high, isFlat(node)));
  value = low ? node.emit<nn::MaximumOp>({value, low}) : value;
  return node.result(high ? node.emit<nn::MinimumOp>({value, high}) : value);
}

/// What `value` is the logarithm of: of a sigmoid's, too, that logarithm() wrote otherwise.
Value antilogarithm(NodeContext &node, Value value) {
  if (auto log = value.getDefiningOp<nn::LogOp>())
    return log->getOperand(0);
  auto minus = value.getDefiningOp<nn::NegOp>();
  auto softplus = minus ? minus->getOperand(0).getDefiningOp<nn::SoftplusOp>() : nn::SoftplusOp();
  return softplus ? node.emit<nn::SigmoidOp>({node.emit<nn::NegOp>({softplus->getOperand(0)})}) : Value();
}

// The exporter writes PyTorch's binary_cross_entropy as max(log p, -100) and max(log(1 - p), -100), whose gradient
// where p is 0 or 1 is no number. PyTorch's is 1 / max(p, 1e-12), bounded or not.
Value logarithmOfProbability(NodeContext &node, Value logarithm, Value probability) {
  Type type = getElementTypeOrSelf(logarithm);
  if (type.isF16())
    probability = node.cast(probability, node.builder.getF32Type());                           // where 1e-12 is not 0
  Value still = node.emit<nn::DetachOp>({probability}), change = node.sub(probability, still); // 0
  Value bounded = node.emit<nn::MaximumOp>({node.emit<nn::DetachOp>({logarithm}), node.scalar(logarithm, -100)});
  Value least = node.emit<nn::MaximumOp>({still, node.scalar(still, 1e-12)});
  return node.add(bounded, node.cast(node.div(change, least), type));
}

// The larger, or the smaller, of its inputs; or half of a clamp that the exporter took apart.
template <typename Op> LogicalResult extremum(NodeContext &node, bool larger) {
  Value value = node.input(0);
  std::optional<bool> flat = isFlatAtBounds(node.node);
  if (!flat || node.inputCount() != 2 || !value || !nn::isReal(value))
    return variadic<Op>(node);
  Value bound = node.input(1);
  return node.result(clipped(node, value, larger ? bound : Value(), larger ? Value() : bound, *flat));
}
LogicalResult maximum(NodeContext &node) {
  if (Value value = node.input(0); value && isBoundOfCrossEntropy(node.node))
    if (const HostTensor *bound = node.known(1); bound && bound->dims().empty() && bound->realAt(0) == -100)
      if (Value probability = antilogarithm(node, value))
        return node.result(logarithmOfProbability(node, value, probability));
  return extremum<nn::MaximumOp>(node, true);
}
LogicalResult minimum(NodeContext &node) { return extremum<nn::MinimumOp>(node, false); }

LogicalResult isInf(NodeContext &node) {
  Value value = node.input(0);
  bool positive = node.attributes.integer("detect_positive", 1), negative = node.attributes.integer("detect_negative", 1);
  Value bound = positive && negative ? node.emit<nn::AbsOp>({value}) : value;
  double infinity = std::numeric_limits<double>::infinity();
  return node.result(node.compare(bound, node.scalar(value, positive ? infinity : -infinity), "eq"));
}

LogicalResult tangent(NodeContext &node) {
  Value value = node.input(0);
  return node.result(node.div(node.emit<nn::SinOp>({value}), node.emit<nn::CosOp>({value})));
}

// Twice the angle of half the tangent, by forms that lose no digits where x is close to 1 or -1.
Value twiceAngle(NodeContext &node, Value halfTangent) {
  return node.mul(node.emit<nn::AtanOp>({halfTangent}), node.scalar(halfTangent, 2));
}
LogicalResult arcsine(NodeContext &node) {
  Value value = node.input(0), one = node.scalar(value, 1);
  Value cosine = node.emit<nn::SqrtOp>({node.mul(node.sub(one, value), node.add(one, value))});
  return node.result(twiceAngle(node, node.div(value, node.add(one, cosine))));
}
LogicalResult arccosine(NodeContext &node) {
  Value value = node.input(0), one = node.scalar(value, 1);
  return node.result(twiceAngle(node, node.emit<nn::SqrtOp>({node.div(node.sub(one, value), node.add(one, value))})));
}

// (e^x -+ e^-x) / 2
template <typename Combine> LogicalResult hyperbolic(NodeContext &node) {
  Value value = node.input(0);
  Value both = node.emit<Combine>({node.emit<nn::ExpOp>({value}), node.emit<nn::ExpOp>({node.emit<nn::NegOp>({value})})});
  return node.result(node.mul(both, node.scalar(value, 0.5)));
}

// Inverse hyperbolic functions as logarithms. The first is computed for what is not negative, where nothing cancels.
LogicalResult asinh(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  Value isNegative = node.compare(value, node.scalar(value, 0), "lt");
  Value size = node.emit<nn::SelectOp>({isNegative, node.emit<nn::NegOp>({value}), value});
  Value root = node.emit<nn::SqrtOp>({node.add(node.mul(size, size), node.scalar(size, 1))});
  Value curve = node.emit<nn::LogOp>({node.add(size, root)});
  return node.result(node.emit<nn::SelectOp>({isNegative, node.emit<nn::NegOp>({curve}), curve}));
}
LogicalResult acosh(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  Value one = node.scalar(value, 1);
  Value root = node.mul(node.emit<nn::SqrtOp>({node.sub(value, one)}), node.emit<nn::SqrtOp>({node.add(value, one)}));
  return node.result(node.emit<nn::LogOp>({node.add(value, root)}));
}
LogicalResult atanh(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  Value one = node.scalar(value, 1);
  Value twice = node.sub(node.emit<nn::LogOp>({node.add(one, value)}), node.emit<nn::LogOp>({node.sub(one, value)}));
  return node.result(node.mul(twice, node.scalar(value, 0.5)));
}

// A cast between equal types is nothing.
LogicalResult castTo(NodeContext &node, Type element) {
  Value value = node.input(0);
  return value && element ? node.result(node.cast(value, element)) : failure();
}
LogicalResult cast(NodeContext &node) {
  int to = static_cast<int>(node.attributes.integer("to", 0));
  std::optional<DType> type = elementType(to);
  if (!type)
    return node.fail("casts to {}, for which there are no kernels", onnxTypeName(to));
  return castTo(node, mlirType(node.builder.getContext(), *type));
}
LogicalResult castLike(NodeContext &node) {
  Value like = node.input(1);
  if (const HostTensor *known = node.known(0); known && like && !node.isSymbolic(0)) {
    node.knownResult(0, known->converted(dtypeOf(getElementTypeOrSelf(like))));
    return success();
  }
  return like ? castTo(node, getElementTypeOrSelf(like)) : failure();
}

} // namespace

Value clipped(NodeContext &node, Value value, Value low, Value high, bool flat) {
  if (low)
    value = node.emit<nn::SelectOp>({node.compare(value, low, flat ? "le" : "lt"), low, value});
  if (high)
    value = node.emit<nn::SelectOp>({node.compare(value, high, flat ? "ge" : "gt"), high, value});
  return value;
}

void addElementwise(Converters &table) {
  table.add("Add", binary<nn::AddOp>);
  table.add("Sub", binary<nn::SubOp>);
  table.add("Mul", binary<nn::MulOp>);
  table.add("Div", binary<nn::DivOp>);
  table.add("And", binary<nn::AndOp>);
  table.add("Or", binary<nn::OrOp>);
  table.add("Xor", binary<nn::XorOp>);
  table.add("Pow", pow);
  table.add("Mod", mod);
  table.add("Sum", variadic<nn::AddOp>);
  table.add("Max", maximum);
  table.add("Min", minimum);
  table.add("Mean", mean);
  table.add("Equal", compare<'e', 'q'>);
  table.add("Less", compare<'l', 't'>);
  table.add("LessOrEqual", compare<'l', 'e'>);
  table.add("Greater", compare<'g', 't'>);
  table.add("GreaterOrEqual", compare<'g', 'e'>);
  table.add("Where", where);
  table.add("Clip", clip);
  table.add("Not", unary<nn::NotOp>);
  table.add("Neg", unary<nn::NegOp>);
  table.add("Abs", unary<nn::AbsOp>);
  table.add("Sign", unary<nn::SignOp>);
  table.add("Exp", unary<nn::ExpOp>);
  table.add("Log", logarithm);
  table.add("Sqrt", unary<nn::SqrtOp>);
  table.add("Reciprocal", unary<nn::ReciprocalOp>);
  table.add("Erf", unary<nn::ErfOp>);
  table.add("Sin", unary<nn::SinOp>);
  table.add("Cos", unary<nn::CosOp>);
  table.add("Tan", tangent);
  table.add("Asin", arcsine);
  table.add("Acos", arccosine);
  table.add("Atan", unary<nn::AtanOp>);
  table.add("Sinh", hyperbolic<nn::SubOp>);
  table.add("Cosh", hyperbolic<nn::AddOp>);
  table.add("Asinh", asinh);
  table.add("Acosh", acosh);
  table.add("Atanh", atanh);
  table.add("Floor", unary<nn::FloorOp>);
  table.add("Ceil", unary<nn::CeilOp>);
  table.add("Round", unary<nn::RoundOp>);
  table.add("IsNaN", unary<nn::IsNanOp>);
  table.add("IsInf", isInf);
  table.add("Cast", cast);
  table.add("CastLike", castLike);
}

} // namespace mt::onnx
