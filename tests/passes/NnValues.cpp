#include "tests/passes/NnValues.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>

using namespace mlir;

namespace mt::test {
namespace {
/// `value` as a number of the type: rounded, or wrapped around.
double stored(double value, Type element) {
  if (element.isF32())
    return static_cast<float>(value);
  if (auto floating = dyn_cast<FloatType>(element)) {
    if (element.isF64())
      return value;
    llvm::APFloat number(value);
    bool loses = false;
    number.convert(floating.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &loses);
    return number.convertToDouble();
  }
  unsigned bits = element.getIntOrFloatBitWidth();
  if (bits == 1)
    return value != 0;
  double range = std::ldexp(1.0, static_cast<int>(bits)), whole = std::trunc(value);
  if (bits == 64)
    return whole;
  whole -= std::floor(whole / range) * range;
  return element.isUnsignedInteger() || whole < range / 2 ? whole : whole - range;
}
} // namespace

const Tensor &NnValues::of(Value value) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    (void)of(operand);
  std::vector<Tensor> results = nn::test::evaluate(op, known);
  for (auto [result, tensor] : llvm::zip(op->getResults(), results)) {
    for (double &number : tensor.values)
      number = stored(number, getElementTypeOrSelf(result.getType()));
    known[result] = std::move(tensor);
  }
  return known[value];
}

} // namespace mt::test
