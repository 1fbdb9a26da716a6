// Folders of nn operations: identities that exporters leave behind. Values are never folded here beyond identities;
// shape arithmetic folds in the importer.
#include "compiler/nn/Nn.h"

using namespace mlir;
using namespace mt::nn;

namespace {
/// `other` if combining it with the splat `value` leaves it as it is.
OpFoldResult unlessChanged(Value other, Value value, double neutral, Type type) {
  auto number = splatValue(value);
  return number && *number == neutral && other.getType() == type ? OpFoldResult(other) : OpFoldResult();
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

OpFoldResult AddOp::fold(FoldAdaptor) {
  if (auto same = unlessChanged(getLhs(), getRhs(), 0, getType()))
    return same;
  return unlessChanged(getRhs(), getLhs(), 0, getType());
}
OpFoldResult SubOp::fold(FoldAdaptor) { return unlessChanged(getLhs(), getRhs(), 0, getType()); }
OpFoldResult MulOp::fold(FoldAdaptor) {
  if (auto same = unlessChanged(getLhs(), getRhs(), 1, getType()))
    return same;
  return unlessChanged(getRhs(), getLhs(), 1, getType());
}
OpFoldResult DivOp::fold(FoldAdaptor) { return unlessChanged(getLhs(), getRhs(), 1, getType()); }

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
OpFoldResult CastOp::fold(FoldAdaptor) {
  return getOperand().getType() == getType() ? OpFoldResult(getOperand()) : OpFoldResult();
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
OpFoldResult ConcatOp::fold(FoldAdaptor) { return getInputs().size() == 1 ? OpFoldResult(getInputs()[0]) : OpFoldResult(); }
