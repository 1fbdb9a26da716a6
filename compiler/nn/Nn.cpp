// Registration of the nn dialect, and the helpers of Nn.h.
#include "compiler/nn/Nn.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APSInt.h"

using namespace mlir;
using namespace mt::nn;
#include "compiler/nn/NnDialect.cpp.inc"
#include "compiler/nn/NnInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/nn/NnOps.cpp.inc"

void NnDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "compiler/nn/NnOps.cpp.inc"
      >();
}

Operation *NnDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location location) {
  auto elements = dyn_cast<ElementsAttr>(value);
  return elements && elements.getType() == type ? ConstantOp::create(builder, location, elements).getOperation()
                                                : nullptr;
}

void Gradients::add(OpBuilder &builder, Value value, Value gradient) {
  if (!wants(value))
    return;
  gradient = castTo(builder, gradient, getElementTypeOrSelf(value.getType()));
  Value &sum = gradients[value];
  sum = sum ? AddOp::create(builder, gradient.getLoc(), sum, gradient).getResult() : gradient;
}

ArrayRef<int64_t> mt::nn::shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

bool mt::nn::isReal(Value value) { return isa<FloatType>(getElementTypeOrSelf(value)); }

RankedTensorType mt::nn::tensorOf(ArrayRef<int64_t> shape, Type element) { return RankedTensorType::get(shape, element); }

std::optional<SmallVector<int64_t>> mt::nn::broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  SmallVector<int64_t> shape(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return std::nullopt;
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  return shape;
}

Value mt::nn::splat(OpBuilder &builder, Location location, RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute scalar;
  if (auto floating = dyn_cast<FloatType>(element)) {
    APFloat number(value);
    bool loses = false;
    number.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
    scalar = FloatAttr::get(floating, number);
  } else {
    scalar = IntegerAttr::get(element, static_cast<int64_t>(value));
  }
  return ConstantOp::create(builder, location, DenseElementsAttr::get(type, scalar));
}

Value mt::nn::scalarLike(OpBuilder &builder, Value like, double value) {
  return splat(builder, like.getLoc(), tensorOf({}, getElementTypeOrSelf(like.getType())), value);
}

Value mt::nn::castTo(OpBuilder &builder, Value value, Type element) {
  if (getElementTypeOrSelf(value.getType()) == element)
    return value;
  return CastOp::create(builder, value.getLoc(), tensorOf(shapeOf(value), element), value);
}

std::optional<double> mt::nn::splatValue(Value tensor) {
  auto constant = tensor.getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!dense || !dense.isSplat())
    return std::nullopt;
  if (isa<FloatType>(dense.getElementType()))
    return dense.getSplatValue<APFloat>().convertToDouble();
  const APInt number = dense.getSplatValue<APInt>();
  const bool isUnsigned = number.getBitWidth() == 1 || dense.getElementType().isUnsignedInteger();
  const double value = number.roundToDouble(!isUnsigned);
  APSInt back(number.getBitWidth(), isUnsigned);
  bool isExact = false;
  APFloat(value).convertToInteger(back, APFloat::rmTowardZero, &isExact);
  return isExact && back == number ? std::optional(value) : std::nullopt;
}

Value mt::nn::reshapeTo(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return ReshapeOp::create(builder, value.getLoc(), tensorOf(shape, getElementTypeOrSelf(value.getType())), value);
}

Value mt::nn::swapLastTwo(OpBuilder &builder, Value value) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(value).size()));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return TransposeOp::create(builder, value.getLoc(), value, order);
}

std::string mt::nn::nodeOf(Location location) {
  std::string node;
  location->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part); name && node.empty())
      node = name.getName().str();
    return WalkResult::advance();
  });
  return node;
}

Value mt::nn::sumTo(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> from = shapeOf(value);
  if (from == shape)
    return value;
  SmallVector<int64_t> axes;
  size_t lead = from.size() - shape.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (i < lead || (shape[i - lead] == 1 && from[i] != 1))
      axes.push_back(i);
  Value sum = axes.empty() ? value : ReduceOp::create(builder, value.getLoc(), value, "sum", axes, false).getResult();
  return reshapeTo(builder, sum, shape);
}
