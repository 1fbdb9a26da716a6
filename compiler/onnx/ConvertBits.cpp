// Operators on the bits of integers.
#include "compiler/onnx/Converters.h"

using namespace mlir;

namespace mt::onnx {
namespace {

template <typename Op> LogicalResult bitwise(NodeContext &node) {
  return node.result(node.emit<Op>({node.input(0), node.input(1)}));
}

LogicalResult bitwiseNot(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  Type type = getElementTypeOrSelf(value);
  Value ones = node.scalar(value, type.isUnsignedInteger() ? 255 : -1); // of unsigned types there is one, of 8 bits
  return node.result(node.emit<nn::XorOp>({value, ones}));
}

Value powerOfTwo(NodeContext &node, Value exponent) {
  return node.emit<nn::PowOp>({node.scalar(exponent, 2), exponent});
}

// The number that the low `bits` bits of 64 are, with or without a sign.
Value lowBits(NodeContext &node, Value value, unsigned bits, bool isUnsigned) {
  if (bits == 64)
    return value;
  double half = isUnsigned ? 0 : static_cast<double>(uint64_t(1) << (bits - 1));
  Value all = node.scalar(value, static_cast<double>((uint64_t(1) << bits) - 1));
  Value raised = node.add(value, node.scalar(value, half));
  return node.sub(node.emit<nn::AndOp>({raised, all}), node.scalar(value, half));
}

// floor(value / 2^count), 2^count being a positive number of 64 bits.
Value shiftedRight(NodeContext &node, Value value, Value count) {
  Value factor = powerOfTwo(node, count);
  return node.div(node.sub(value, node.emit<nn::ModOp>({value, factor})), factor);
}

// In 64 bits: to the left a product, to the right a quotient, rounded down as the sign is carried on. Counts outside
// the type leave nothing but that sign.
LogicalResult bitShift(NodeContext &node) {
  Value given = node.input(0), by = node.input(1);
  if (!given || !by)
    return failure();
  std::string direction = node.attributes.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return node.fail("direction '{}' is neither LEFT nor RIGHT", direction);
  Type type = getElementTypeOrSelf(given), wide = node.builder.getI64Type();
  unsigned bits = type.getIntOrFloatBitWidth();
  Value value = node.cast(given, wide), count = node.cast(by, wide);
  Value inside = node.emit<nn::AndOp>(
      {node.compare(count, node.scalar(count, 0), "ge"), node.compare(count, node.scalar(count, bits), "lt")});
  count = node.emit<nn::SelectOp>({inside, count, node.scalar(count, 0)});
  Value zero = node.scalar(value, 0), shifted, outside = zero;
  if (direction == "LEFT") {
    shifted = lowBits(node, node.mul(value, powerOfTwo(node, count)), bits, type.isUnsignedInteger());
  } else { // in two steps: 2^63 is no positive number
    Value some = node.emit<nn::MinimumOp>({count, node.scalar(count, 32)});
    shifted = shiftedRight(node, shiftedRight(node, value, some), node.sub(count, some));
    outside = node.emit<nn::SelectOp>({node.compare(value, zero, "lt"), node.scalar(value, -1), zero});
  }
  return node.result(node.cast(node.emit<nn::SelectOp>({inside, shifted, outside}), type));
}

} // namespace

void addBits(Converters &table) {
  table.add("BitwiseAnd", bitwise<nn::AndOp>);
  table.add("BitwiseOr", bitwise<nn::OrOp>);
  table.add("BitwiseXor", bitwise<nn::XorOp>);
  table.add("BitwiseNot", bitwiseNot);
  table.add("BitShift", bitShift);
}

} // namespace mt::onnx
