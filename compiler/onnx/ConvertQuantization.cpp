// Quantized tensors: q = saturate(round(x / scale) + zero point), x = (q - zero point) * scale, and products of them
// (https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html).
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/IndexParts.h"
#include "compiler/onnx/ProductParts.h"
#include "kernels/Blocks.h"

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

//===-- stored numbers ----------------------------------------------------------------------------------------===//

/// What nn.dequantize takes besides its numbers; zeros are reals, and may be null.
struct Scaling {
  Value scales, zeros;
  int64_t zero = 0, axis = 0, block = 1;
};

Value scaled(NodeContext &node, const StoredNumbers &numbers, const Scaling &scaling) {
  if (!scaling.scales)
    return {};
  RankedTensorType type = nn::tensorOf(numbers.dims, getElementTypeOrSelf(scaling.scales));
  const NamedAttribute attributes[] = {
      node.intAttr("bits", numbers.type.bits), node.boolAttr("isSigned", numbers.type.isSigned),
      node.intAttr("zero", scaling.zero), node.intAttr("axis", scaling.axis), node.intAttr("block", scaling.block)};
  return scaling.zeros
             ? node.emitAs<nn::DequantizeOp>(type, {numbers.bytes(), scaling.scales, scaling.zeros}, attributes)
             : node.emitAs<nn::DequantizeOp>(type, {numbers.bytes(), scaling.scales}, attributes);
}

// The numbers themselves, of the element type of `like`.
Value asReals(NodeContext &node, const StoredNumbers &numbers, Value like) {
  return scaled(node, numbers, {node.scalar(like, 1), {}});
}

// Zero points: one number, or reals of the shape of the scales.
bool readZeros(NodeContext &node, size_t index, Scaling &scaling) {
  if (const HostTensor *known = node.known(index); known && (known->isSplat() || known->elements() == 1)) {
    scaling.zero = known->intAt(0);
    return true;
  }
  const StoredNumbers *numbers = node.numbers(index);
  Value zeros = numbers ? asReals(node, *numbers, scaling.scales) : node.input(index);
  zeros = zeros ? node.cast(zeros, getElementTypeOrSelf(scaling.scales)) : Value();
  if (!zeros)
    return false;
  if (elementCount(Dims(nn::shapeOf(zeros))) != elementCount(Dims(nn::shapeOf(scaling.scales)))) {
    (void)node.fail("its zero points of shape {} do not fit its scales of shape {}", dimsText(Dims(nn::shapeOf(zeros))),
                    dimsText(Dims(nn::shapeOf(scaling.scales))));
    return false;
  }
  scaling.zeros = node.reshape(zeros, nn::shapeOf(scaling.scales));
  return bool(scaling.zeros);
}

// One scale for all, for each entry of the axis, or for each block of every line along it.
bool findBlocks(NodeContext &node, const Dims &dims, Scaling &scaling) {
  Dims from(nn::shapeOf(scaling.scales));
  if (elementCount(from) == 1) {
    scaling.scales = node.reshape(scaling.scales, {});
    return true;
  }
  auto axis = node.axis("axis", 1, static_cast<int64_t>(dims.size()));
  if (!axis)
    return false;
  int64_t size = node.attributes.integer("block_size", 0);
  auto along = static_cast<size_t>(*axis);
  scaling.axis = *axis;
  scaling.block = size > 0 ? size : 1;
  Dims wanted = dims;
  wanted[along] = kernels::ceilDivide(dims[along], scaling.block);
  if (from == (size > 0 ? wanted : Dims{dims[along]}))
    return true;
  (void)node.fail("its scales of shape {} do not fit blocks of {} entries of {}", dimsText(from), scaling.block,
                  dimsText(dims));
  return false;
}

Value dequantizedStored(NodeContext &node, const StoredNumbers &numbers) {
  Scaling scaling{node.input(1), {}};
  if (!scaling.scales || !findBlocks(node, numbers.dims, scaling) || (node.has(2) && !readZeros(node, 2, scaling)))
    return {};
  return scaled(node, numbers, scaling);
}

// a times the transposed matrix b of [N, K] numbers, each row cut into blocks that have a scale and a zero point each.
LogicalResult matmulNBits(NodeContext &node) {
  Value a = node.input(0), scales = node.input(2);
  const StoredNumbers *stored = node.numbers(1);
  int64_t rows = node.attributes.integer("N", 0), depth = node.attributes.integer("K", 0);
  int64_t bits = node.attributes.integer("bits", 4), block = node.attributes.integer("block_size", 0);
  if (!a || !scales)
    return failure();
  auto isSize = [](int64_t n) { return n >= 1 && n <= int64_t(1) << 31; };
  if (!isSize(rows) || !isSize(depth) || !isSize(block) || block % 8 != 0 || (bits != 2 && bits != 4 && bits != 8))
    return node.fail("its N, K, bits and block_size must be positive, bits 2, 4 or 8, and a block whole bytes");
  if (node.has(4))
    return node.fail("its input g_idx, an order of the blocks, is not supported");
  int64_t blocks = kernels::ceilDivide(depth, block), width = blocks * block;
  if (!stored || stored->type.bits != 8 ||
      elementCount(stored->dims) != elementCount({rows, blocks, block * bits / 8}) ||
      elementCount(Dims(nn::shapeOf(scales))) != elementCount({rows, blocks}))
    return node.fail("its numbers and scales are not stored as {} rows of {} blocks of {}", rows, blocks, block);
  node.isStatistic(2);
  Scaling scaling{node.reshape(scales, {rows, blocks}), {}, int64_t(1) << (bits - 1), 1, block};
  const PackedType type{static_cast<int>(bits), false};
  if (const StoredNumbers *zeros = node.numbers(3)) {
    int64_t each = kernels::ceilDivide(blocks * bits, 8) * 8 / bits; // a row begins with a whole byte
    if (elementCount(zeros->dims) != elementCount({rows, each * bits / 8}))
      return node.fail("its zero points of shape {} do not fit {} rows of {} blocks", dimsText(zeros->dims), rows,
                       blocks);
    scaling.zeros = node.slice(asReals(node, {zeros->bytes, type, {rows, each}}, scaling.scales), 1, 0, blocks);
  } else if (node.has(3)) {
    node.isStatistic(3);
    Value given = node.input(3);
    scaling.zeros = given ? node.reshape(node.cast(given, getElementTypeOrSelf(scales)), {rows, blocks}) : Value();
    if (!scaling.zeros)
      return failure();
  }
  Value matrix = node.slice(scaled(node, {stored->bytes, type, {rows, width}}, scaling), 1, 0, depth);
  Value bias = node.has(5) ? node.input(5) : Value();
  if (!matrix || (node.has(5) && !bias))
    return failure();
  return node.result(plainMatmul(node, a, node.cast(matrix, getElementTypeOrSelf(a)), bias, false, true));
}

// Bytes that hold several numbers each, along the last dimension.
StoredNumbers unpacked(StoredNumbers numbers, int64_t bits) {
  if (numbers.type.bits != 8 || numbers.type.isSigned || bits == 8 || numbers.dims.empty())
    return numbers;
  numbers.type = {static_cast<int>(bits), false};
  numbers.dims.back() *= 8 / bits;
  return numbers;
}

// Zero points that lie packed as the numbers do; a line of them begins with a whole byte.
bool readPackedZeros(NodeContext &node, const StoredNumbers &zeros, int64_t bits, Scaling &scaling) {
  StoredNumbers whole = unpacked(zeros, bits);
  Dims wanted(nn::shapeOf(scaling.scales)), padded = wanted;
  padded.back() = kernels::ceilDivide(padded.back() * bits, 8) * 8 / bits;
  if (whole.dims != padded) {
    (void)node.fail("its zero points of shape {} do not fit its scales of shape {}", dimsText(zeros.dims),
                    dimsText(wanted));
    return false;
  }
  scaling.zeros =
      node.slice(asReals(node, whole, scaling.scales), static_cast<int64_t>(wanted.size()) - 1, 0, wanted.back());
  return bool(scaling.zeros);
}

// Entries along one dimension of numbers that have a scale, and may have a zero point, for each block along another.
LogicalResult gatherQuantized(NodeContext &node) {
  const StoredNumbers *stored = node.numbers(0);
  Value ids = indicesOf(node, 1), scales = node.input(2);
  int64_t bits = node.attributes.integer("bits", 4), block = node.attributes.integer("block_size", 128);
  if (!ids || !scales)
    return failure();
  if (!stored || stored->dims.empty() || (bits != 2 && bits != 4 && bits != 8) || block < 1 || block > int64_t(1) << 31)
    return node.fail("its numbers must be stored, bits 2, 4 or 8, and block_size positive");
  StoredNumbers numbers = unpacked(*stored, bits);
  bool bytes = stored->type.bits == 8 && !stored->type.isSigned;
  auto rank = static_cast<int64_t>(numbers.dims.size());
  auto axis = node.axis("gather_axis", 0, rank), along = node.axis("quantize_axis", 1, rank);
  if (!axis || !along)
    return failure();
  Dims wanted = numbers.dims;
  wanted[static_cast<size_t>(*along)] = kernels::ceilDivide(wanted[static_cast<size_t>(*along)], block);
  if (Dims(nn::shapeOf(scales)) != wanted)
    return node.fail("its scales of shape {} do not fit blocks of {} entries of {}",
                     dimsText(Dims(nn::shapeOf(scales))), block, dimsText(numbers.dims));
  node.isStatistic(2);
  Scaling scaling{scales, {}, bytes ? int64_t(1) << (bits - 1) : 0, *along, block};
  const StoredNumbers *zeros = node.numbers(3);
  bool packed = zeros && bytes && bits < 8;
  if (node.has(3) && !(packed ? readPackedZeros(node, *zeros, bits, scaling) : readZeros(node, 3, scaling)))
    return failure();
  return node.result(node.emit<nn::GatherOp>({scaled(node, numbers, scaling), ids}, {node.intAttr("axis", *axis)}));
}

LogicalResult dequantize(NodeContext &node) {
  Value result;
  if (const StoredNumbers *numbers = node.numbers(0)) {
    result = dequantizedStored(node, *numbers);
  } else {
    Value value = node.input(0), scale = spread(node, node.input(1), value);
    if (!value || !scale)
      return failure();
    result = dequantized(node, value, node.has(2) ? spread(node, node.input(2), value) : Value(), scale);
  }
  node.isStatistic(1);
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
  table.addContrib("DequantizeLinear", dequantize);
  table.addContrib("MatMulNBits", matmulNBits);
  table.addContrib("GatherBlockQuantized", gatherQuantized);
  table.add("DynamicQuantizeLinear", dynamicQuantize);
  table.add("MatMulInteger", matmulInteger);
  table.add("QLinearMatMul", quantizedMatmul);
}

} // namespace mt::onnx
