#include "compiler/onnx/WidenTypes.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace mt::onnx {
namespace {

bool isOtherReal(Type element) { return element.isF16() || element.isF64(); }

Type in32Bits(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !isOtherReal(tensor.getElementType()))
    return type;
  return nn::tensorOf(tensor.getShape(), Float32Type::get(type.getContext()));
}

float inRange(const APFloat &number) {
  double value = number.convertToDouble(), most = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(value) ? std::clamp(value, -most, most) : value);
}

/// The constant's numbers under its new type.
ElementsAttr converted(DenseElementsAttr value) {
  SmallVector<float> numbers;
  if (value.isSplat())
    numbers.push_back(inRange(value.getSplatValue<APFloat>()));
  else
    for (const APFloat &number : value.getValues<APFloat>())
      numbers.push_back(inRange(number));
  return DenseElementsAttr::get(cast<RankedTensorType>(in32Bits(value.getType())), ArrayRef<float>(numbers));
}

void convert(Operation &op) {
  auto constant = dyn_cast<nn::ConstantOp>(op);
  if (constant && isOtherReal(getElementTypeOrSelf(constant.getType())))
    constant.setValueAttr(converted(cast<DenseElementsAttr>(constant.getValue())));
  for (Value result : op.getResults())
    result.setType(in32Bits(result.getType()));
}

} // namespace

void computeIn32Bits(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    argument.setType(in32Bits(argument.getType()));
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    convert(op);
    if (auto cast = dyn_cast<nn::CastOp>(op); cast && cast.getOperand().getType() == cast.getType()) {
      cast.getResult().replaceAllUsesWith(cast.getOperand());
      cast.erase();
    }
  }
  SmallVector<Type> results(function.front().getTerminator()->getOperandTypes());
  function.setType(FunctionType::get(function.getContext(), function.getBody().getArgumentTypes(), results));
}

} // namespace mt::onnx
