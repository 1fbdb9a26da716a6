// Quantized tensors: q = saturate(round(x / scale) + zero point), x = (q - zero point) * scale, and products of them
// (https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html).
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"

using namespace mlir;

namespace mt::onnx {
namespace {

struct Limits {
  double low = 0, high = 0;
};
Limits limitsOf(DType type) {
  switch (type) {
  case DType::i8:
    return {-128, 127};
  case DType::i16:
    return {-32768, 32767};
  case DType::i32:
    return {-2147483648.0, 2147483647.0};
  default:
    return {0, 255};
  }
}

// A scale or zero point per block of `size` entries of a dimension, repeated to all entries.
Value spreadBlocks(NodeContext &node, Value value, int64_t axis, int64_t size, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> fine(nn::shapeOf(value)), wide, whole(fine);
  fine.insert(fine.begin() + axis + 1, 1);
  wide = fine;
  wide[static_cast<size_t>(axis) + 1] = size;
  whole[static_cast<size_t>(axis)] *= size;
  Value repeated = node.reshape(node.broadcast(node.reshape(value, fine), wide), whole);
  return node.slice(repeated, axis, 0, shape[static_cast<size_t>(axis)]);
}

// A scale or zero point - one, one per entry of the axis, or one per block of it - so that it broadcasts to `like`.
Value spread(NodeContext &node, Value value, Value like) {
  if (!value || !like)
    return {};
  ArrayRef<int64_t> from = nn::shapeOf(value), shape = nn::shapeOf(like);
  if (elementCount(Dims(from)) == 1)
    return node.reshape(value, {});
  auto axis = node.axis("axis", 1, static_cast<int64_t>(shape.size()));
  if (!axis)
    return {};
  if (from.size() == 1) {
    SmallVector<int64_t> row(shape.size(), 1);
    row[static_cast<size_t>(*axis)] = from[0];
    return node.reshape(value, row);
  }
  int64_t size = node.attributes.integer("block_size", 0);
  if (size <= 0 || from.size() != shape.size() ||
      from[static_cast<size_t>(*axis)] != (shape[static_cast<size_t>(*axis)] + size - 1) / size) {
    (void)node.fail("its scales of shape {} do not fit blocks of {} entries of {}", dimsText(Dims(from)), size,
                    dimsText(Dims(shape)));
    return {};
  }
  return spreadBlocks(node, value, *axis, size, shape);
}

// saturate(round(scaled) + zero): whole numbers of `type`. `zero` may be null.
Value saturated(NodeContext &node, Value scaled, Value zero, DType type) {
  Value rounded = node.emit<nn::RoundOp>({scaled});
  if (zero && rounded)
    rounded = node.add(rounded, node.cast(zero, getElementTypeOrSelf(rounded)));
  if (!rounded)
    return {};
  Limits limits = limitsOf(type);
  Value bounded = node.emit<nn::MaximumOp>({rounded, node.scalar(rounded, limits.low)});
  bounded = node.emit<nn::MinimumOp>({bounded, node.scalar(rounded, limits.high)});
  return bounded ? node.cast(bounded, mlirType(node.builder.getContext(), type)) : Value();
}

// The type that is quantized to: the zero point's, else an attribute's, else 8 bits without sign.
std::optional<DType> quantizedType(NodeContext &node, size_t zero) {
  if (node.has(zero)) {
    Value given = node.input(zero);
    return given ? std::optional<DType>(dtypeOf(getElementTypeOrSelf(given))) : std::nullopt;
  }
  int64_t wanted = node.attributes.integer("output_dtype", 0);
  std::optional<DType> type = wanted ? elementType(static_cast<int>(wanted)) : DType::u8;
  if (type && !isFloat(*type))
    return type;
  (void)node.fail("quantizes to {}, for which there are no kernels", onnxTypeName(static_cast<int>(wanted)));
  return std::nullopt;
}

LogicalResult quantize(NodeContext &node) {
  Value value = node.input(0), scale = spread(node, node.input(1), value);
  auto type = quantizedType(node, 2);
  if (!value || !scale || !type)
    return failure();
  node.isStatistic(1);
  Value zero = node.has(2) ? spread(node, node.input(2), value) : Value();
  Type computed = getElementTypeOrSelf(scale);
  if (int64_t precision = node.attributes.integer("precision", 0))
    if (auto wanted = elementType(static_cast<int>(precision)))
      computed = mlirType(node.builder.getContext(), *wanted);
  return node.result(saturated(node, node.div(node.cast(value, computed), node.cast(scale, computed)), zero, *type));
}

// (value - zero) * scale, the difference in 32 bits.
Value dequantized(NodeContext &node, Value value, Value zero, Value scale) {
  Type integer = node.builder.getI32Type();
  Value number = value ? node.cast(value, integer) : Value();
  if (zero)
    number = node.sub(number, node.cast(zero, integer));
  return number && scale ? node.mul(node.cast(number, getElementTypeOrSelf(scale)), scale) : Value();
}

LogicalResult dequantize(NodeContext &node) {
  Value value = node.input(0), scale = spread(node, node.input(1), value);
  if (!value || !scale)
    return failure();
  node.isStatistic(1);
  Value zero = node.has(2) ? spread(node, node.input(2), value) : Value();
  Value result = dequantized(node, value, zero, scale);
  int64_t wanted = node.attributes.integer("output_dtype", 0);
  auto type = wanted ? elementType(static_cast<int>(wanted)) : std::nullopt;
  if (result && wanted && (!type || !isFloat(*type)))
    return node.fail("gives {}, for which there are no kernels", onnxTypeName(static_cast<int>(wanted)));
  return node.result(type && result ? node.cast(result, mlirType(node.builder.getContext(), *type)) : result);
}

// Scale and zero point so that [min(x, 0), max(x, 0)] becomes [0, 255].
LogicalResult dynamicQuantize(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  Dims axes(nn::shapeOf(value).size());
  for (size_t d = 0; d < axes.size(); ++d)
    axes[d] = static_cast<int64_t>(d);
  Value zero = node.scalar(value, 0);
  Value high = node.emit<nn::MaximumOp>({node.reduce(value, "max", axes, false), zero});
  Value low = node.emit<nn::MinimumOp>({node.reduce(value, "min", axes, false), zero});
  Value scale = node.div(node.sub(high, low), node.scalar(value, 255));
  Value point = saturated(node, node.div(node.emit<nn::NegOp>({low}), scale), {}, DType::u8);
  for (auto [index, result] : {std::pair<size_t, Value>{1, scale}, {2, point}})
    if (node.wantsOutput(index) && failed(node.result(index, result)))
      return failure();
  return node.result(saturated(node, node.div(value, scale), point, DType::u8));
}

//===-- products ------------------------------------------------------------------------------------------------===//

// A zero point or scale of a factor: one, one for each row of the left or column of the right, or already spread.
Value perLine(NodeContext &node, Value value, Value factor, bool rows) {
  if (!value || !factor || nn::shapeOf(value).size() != 1)
    return value;
  int64_t count = nn::shapeOf(value)[0];
  if (count == 1)
    return node.reshape(value, {});
  return rows && nn::shapeOf(factor).size() > 1 ? node.reshape(value, {count, 1}) : value;
}

// Whole numbers less their zero point, in 64-bit reals: their products and sums are exact.
Value centered(NodeContext &node, Value value, Value zero) {
  Type exact = node.builder.getF64Type();
  Value number = value ? node.cast(value, exact) : Value();
  return zero && number ? node.sub(number, node.cast(zero, exact)) : number;
}

LogicalResult matmulInteger(NodeContext &node) {
  Value a = node.input(0), b = node.input(1);
  Value zeroA = node.has(2) ? perLine(node, node.input(2), a, true) : Value();
  Value zeroB = node.has(3) ? perLine(node, node.input(3), b, false) : Value();
  Value product = matmulOf(node, centered(node, a, zeroA), centered(node, b, zeroB));
  return node.result(product ? node.cast(product, node.builder.getI32Type()) : product);
}

LogicalResult quantizedMatmul(NodeContext &node) {
  Value a = node.input(0), b = node.input(3), scale = node.input(6), zero = node.input(7);
  Value scaleA = perLine(node, node.input(1), a, true), scaleB = perLine(node, node.input(4), b, false);
  Value zeroA = perLine(node, node.input(2), a, true), zeroB = perLine(node, node.input(5), b, false);
  Value product = matmulOf(node, centered(node, a, zeroA), centered(node, b, zeroB));
  if (!product || !scaleA || !scaleB || !scale || !zero)
    return failure();
  Type exact = node.builder.getF64Type();
  Value factor = node.div(node.mul(node.cast(scaleA, exact), node.cast(scaleB, exact)), node.cast(scale, exact));
  return node.result(saturated(node, node.mul(product, factor), zero, dtypeOf(getElementTypeOrSelf(zero))));
}

} // namespace

void addQuantization(Converters &table) {
  table.add("QuantizeLinear", quantize);
  table.add("DequantizeLinear", dequantize);
  table.add("DynamicQuantizeLinear", dynamicQuantize);
  table.add("MatMulInteger", matmulInteger);
  table.add("QLinearMatMul", quantizedMatmul);
}

} // namespace mt::onnx
