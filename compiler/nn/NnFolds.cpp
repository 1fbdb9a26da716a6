// Folders of nn operations: identities and arithmetic on single numbers that exporters leave behind. Shape arithmetic
// folds in the importer; larger constants are never folded by value.
#include "compiler/nn/Nn.h"

#include <cmath>

using namespace mlir;
using namespace mt::nn;

namespace {
/// `other` if combining it with the splat `value` leaves it as it is.
OpFoldResult unlessChanged(Value other, Value value, double neutral, Type type) {
  auto number = splatValue(value);
  return number && *number == neutral && other.getType() == type ? OpFoldResult(other) : OpFoldResult();
}

/// The number that a float splat holds.
std::optional<double> splatOf(Attribute operand) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(operand);
  if (!dense || !dense.isSplat() || !isa<FloatType>(dense.getElementType()))
    return std::nullopt;
  return dense.getSplatValue<APFloat>().convertToDouble();
}
OpFoldResult splatOf(Type type, double value) {
  auto tensor = cast<RankedTensorType>(type);
  APFloat number(value);
  bool loses = false;
  number.convert(cast<FloatType>(tensor.getElementType()).getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
  return DenseElementsAttr::get(tensor, number);
}
/// `function` of a float splat: exporters leave roots of constants.
OpFoldResult foldUnary(Attribute operand, Type type, double (*function)(double)) {
  auto number = splatOf(operand);
  return number ? splatOf(type, function(*number)) : OpFoldResult();
}
OpFoldResult foldBinary(Attribute lhs, Attribute rhs, Type type, double (*function)(double, double)) {
  auto a = splatOf(lhs), b = splatOf(rhs);
  return a && b ? splatOf(type, function(*a, *b)) : OpFoldResult();
}

template <typename Op> Op definedBy(Value value) { return value.getDefiningOp<Op>(); }

OpFoldResult resplat(Attribute operand, Type type) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(operand);
  if (!dense || !dense.isSplat())
    return {};
  return dense.resizeSplat(cast<ShapedType>(type));
}
} // namespace

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (auto same = unlessChanged(getLhs(), getRhs(), 0, getType()))
    return same;
  if (auto same = unlessChanged(getRhs(), getLhs(), 0, getType()))
    return same;
  return foldBinary(adaptor.getLhs(), adaptor.getRhs(), getType(), [](double a, double b) { return a + b; });
}
OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (auto same = unlessChanged(getLhs(), getRhs(), 0, getType()))
    return same;
  return foldBinary(adaptor.getLhs(), adaptor.getRhs(), getType(), [](double a, double b) { return a - b; });
}
OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (auto same = unlessChanged(getLhs(), getRhs(), 1, getType()))
    return same;
  if (auto same = unlessChanged(getRhs(), getLhs(), 1, getType()))
    return same;
  return foldBinary(adaptor.getLhs(), adaptor.getRhs(), getType(), [](double a, double b) { return a * b; });
}
OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (auto same = unlessChanged(getLhs(), getRhs(), 1, getType()))
    return same;
  return foldBinary(adaptor.getLhs(), adaptor.getRhs(), getType(), [](double a, double b) { return a / b; });
}
OpFoldResult PowOp::fold(FoldAdaptor adaptor) {
  return foldBinary(adaptor.getLhs(), adaptor.getRhs(), getType(), [](double a, double b) { return std::pow(a, b); });
}
OpFoldResult NegOp::fold(FoldAdaptor adaptor) {
  return foldUnary(adaptor.getOperand(), getType(), [](double x) { return -x; });
}
OpFoldResult SqrtOp::fold(FoldAdaptor adaptor) {
  return foldUnary(adaptor.getOperand(), getType(), [](double x) { return std::sqrt(x); });
}
OpFoldResult RsqrtOp::fold(FoldAdaptor adaptor) {
  return foldUnary(adaptor.getOperand(), getType(), [](double x) { return 1 / std::sqrt(x); });
}
OpFoldResult ReciprocalOp::fold(FoldAdaptor adaptor) {
  return foldUnary(adaptor.getOperand(), getType(), [](double x) { return 1 / x; });
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto inner = definedBy<ReshapeOp>(getOperand())) {
    if (inner.getOperand().getType() == getType())
      return inner.getOperand();
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getOperand()))
    return dense.reshape(cast<ShapedType>(getType()));
  return {};
}
OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  auto number = splatOf(adaptor.getOperand());
  return number && isa<FloatType>(getElementTypeOrSelf(getType())) ? splatOf(getType(), *number) : OpFoldResult();
}
OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (llvm::equal(getPermutation(), llvm::seq<int64_t>(0, getPermutation().size())))
    return getOperand();
  if (auto inner = definedBy<TransposeOp>(getOperand())) {
    SmallVector<int64_t> order;
    for (int64_t i : getPermutation())
      order.push_back(inner.getPermutation()[i]);
    setPermutation(order);
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return resplat(adaptor.getOperand(), getType());
}
OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  return resplat(adaptor.getOperand(), getType());
}
OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType() && llvm::all_of(getStrides(), [](int64_t s) { return s == 1; }))
    return getOperand();
  return resplat(adaptor.getOperand(), getType());
}
/// One input is the result; empty ones, as exporters leave of a partial rotation that is whole, go.
OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1)
    return getInputs()[0];
  SmallVector<Value> filled;
  for (Value input : getInputs())
    if (cast<ShapedType>(input.getType()).getNumElements() > 0)
      filled.push_back(input);
  if (filled.empty() || filled.size() == getInputs().size())
    return {};
  getInputsMutable().assign(filled);
  return getResult();
}
