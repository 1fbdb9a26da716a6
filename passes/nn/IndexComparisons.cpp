// Elements compared with a number, as IndexExpression.h says: through casts, choices, sums and additive masks.
#include "passes/nn/IndexExpression.h"

#include "llvm/ADT/ScopeExit.h"

#include <cmath>

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// Whether a number is whole and so small that x + number and x - number of whole x are exact in the type wherever they
/// come near such a number again.
bool isSmallIn(Type element, double number) {
  auto real = dyn_cast<FloatType>(element);
  return number == std::floor(number) &&
         std::abs(number) <= std::ldexp(1, static_cast<int>(real ? real.getFPMantissaWidth() : 24) - 2);
}

/// Whether a comparison with a number says the same of a number before it is cast from one type to another.
bool isKept(Type from, Type to, double bound) {
  auto reals = std::pair(dyn_cast<FloatType>(from), dyn_cast<FloatType>(to));
  auto integers = std::pair(dyn_cast<IntegerType>(from), dyn_cast<IntegerType>(to));
  if (integers.first && reals.second)
    return isSmallIn(to, bound);
  if (reals.first && reals.second) // every number of one is one of the other
    return isNumberOf(from, bound) && (from == to || to.isF64() || (to.isF32() && (from.isF16() || from.isBF16())));
  return integers.first && integers.second && !integers.first.isUnsigned() && !integers.second.isUnsigned() &&
         !from.isInteger(1) && integers.second.getWidth() >= integers.first.getWidth();
}

/// The number of an integer type that arithmetic in it makes of this one; of a real type itself.
double wrapped(Type element, double number) {
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() > 32)
    return number; // beyond what is reasoned about
  const double range = std::ldexp(1, static_cast<int>(integer.getWidth()));
  number -= range * std::floor(number / range);
  return integer.isUnsigned() || number < range / 2 ? number : number - range;
}
} // namespace

/// Whether a tensor holds whole numbers that the model is fed, or that are as little known.
bool IndexEvaluator::isWholeLoad(Value tensor, const Indices &indices) const {
  if (auto inner = budget-- > 0 ? moved(tensor, indices) : std::nullopt)
    return isWholeLoad(inner->first, inner->second);
  if (auto cast = tensor.getDefiningOp<CastOp>(); cast && nn::isReal(tensor) && budget > 0)
    return isWholeLoad(cast.getOperand(), indices);
  return !nn::isReal(tensor) && element(tensor, indices)->kind == Expression::load;
}

/// tensor == bound, or !=, of x + number, x - number or number - x: x == bound - number, and so on, as wrapping
/// integers do it, too. Null where it is none of these.
ExpressionRef IndexEvaluator::comparedSum(Operation *op, const Indices &indices, StringRef predicate,
                                          double bound) const {
  Value sum = op->getResult(0);
  const Type own = getElementTypeOrSelf(sum.getType());
  for (unsigned i : {0, 1}) {
    Value number = op->getOperand(i), other = op->getOperand(1 - i);
    Indices at = broadcastIndices(other, indices, shapeOf(sum));
    auto value = splatValue(number);
    if (!value || !isSmallIn(own, *value) || !isSmallIn(own, bound) || own.isInteger(1) ||
        !(bound == 0 || isWholeLoad(other, at)))
      continue;
    const double shifted = isa<AddOp>(op) ? bound - *value : i == 0 ? *value - bound : bound + *value;
    return compared(other, at, predicate, wrapped(own, shifted));
  }
  return nullptr;
}

/// Whether an additive mask, whose elements are zero or very negative, equals a bound that is not; or, for the bound
/// zero, whether the sum of one and of whole numbers does: where both are zero, if these are zeros and ones, as
/// IndexExpression.h takes them to be. Null where the tensor is neither.
ExpressionRef IndexEvaluator::comparedMask(Value tensor, const Indices &indices, double bound) const {
  double outer = std::exchange(scale, 1);
  llvm::scope_exit restore([&] { scale = outer; });
  if (ExpressionRef seen = visible(tensor, indices))
    return bound == 0 ? seen : truth(false);
  auto sum = bound == 0 ? tensor.getDefiningOp<AddOp>() : AddOp();
  for (unsigned i = 0; sum && i < 2; ++i) {
    Value mask = sum->getOperand(i), other = sum->getOperand(1 - i);
    Indices at = broadcastIndices(other, indices, shapeOf(tensor));
    ExpressionRef seen =
        isWholeLoad(other, at) ? visible(mask, broadcastIndices(mask, indices, shapeOf(tensor))) : nullptr;
    if (ExpressionRef none = seen ? compared(other, at, "eq", 0) : nullptr)
      return both(seen, none);
  }
  return nullptr;
}

/// Whether an element compares with a number as `predicate` says; null where that cannot be told. Looked through is
/// what keeps the answer: views, choices, casts, and sums.
ExpressionRef IndexEvaluator::compared(Value tensor, const Indices &indices, StringRef predicate, double bound) const {
  if (budget-- <= 0 || depth >= kDeepest || std::isnan(bound))
    return nullptr;
  ++depth;
  llvm::scope_exit restore([&] { --depth; });
  if (auto inner = moved(tensor, indices))
    return compared(inner->first, inner->second, predicate, bound);
  const bool isReal = nn::isReal(tensor), equates = predicate == "eq" || predicate == "ne";
  if (auto value = splatValue(tensor)) {
    const bool exact = isReal ? !std::isnan(*value) : std::max(std::abs(*value), std::abs(bound)) < kLimit;
    return exact ? truth(holds(predicate, (*value > bound) - (*value < bound))) : nullptr;
  }
  Operation *op = tensor.getDefiningOp();
  if (auto select = dyn_cast_or_null<SelectOp>(op)) {
    auto at = [&](Value operand) { return broadcastIndices(operand, indices, shapeOf(tensor)); };
    ExpressionRef yes = compared(select.getLhs(), at(select.getLhs()), predicate, bound),
                  no = yes ? compared(select.getRhs(), at(select.getRhs()), predicate, bound) : nullptr;
    if (no)
      return choose(asBoolean(element(select.getCondition(), at(select.getCondition()))), yes, no);
  }
  if (auto cast = dyn_cast_or_null<CastOp>(op))
    if (isKept(getElementTypeOrSelf(cast.getOperand().getType()), getElementTypeOrSelf(tensor.getType()), bound))
      return compared(cast.getOperand(), indices, predicate, bound);
  if (isa_and_nonnull<AddOp, SubOp>(op) && equates)
    if (ExpressionRef found = comparedSum(op, indices, predicate, bound))
      return found;
  if (equates && bound > kVeryNegative && isReal)
    if (ExpressionRef found = comparedMask(tensor, indices, bound))
      return predicate == "ne" ? negate(found) : found;
  if (bound != std::floor(bound) || std::abs(bound) >= kLimit)
    return nullptr;
  return compare(predicate, element(tensor, indices), number(constantAffine(static_cast<int64_t>(bound))));
}

} // namespace mt::passes
