// Shape inference and verification of nn operations: what the result is, and what is wrong with the operands.
#include "compiler/nn/Nn.h"

using namespace mlir;
using namespace mt::nn;

namespace {
using Types = SmallVectorImpl<Type>;
using Where = std::optional<Location>;
using Shape = SmallVector<int64_t>;

Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }
Type f32(MLIRContext *context) { return Float32Type::get(context); }

LogicalResult inferBroadcast(Where where, ValueRange operands, Type element, Types &types) {
  Shape shape(shapeOf(operands[0]));
  for (Value operand : operands.drop_front()) {
    auto next = broadcastShapes(shape, shapeOf(operand));
    if (!next)
      return emitOptionalError(where, "shapes ", operands[0].getType(), " and ", operand.getType(),
                               " do not broadcast");
    shape = *next;
  }
  types.push_back(tensorOf(shape, element));
  return success();
}

LogicalResult inferBinary(Where where, Value lhs, Value rhs, Types &types) {
  if (elementOf(lhs) != elementOf(rhs))
    return emitOptionalError(where, "element types ", elementOf(lhs), " and ", elementOf(rhs), " differ");
  return inferBroadcast(where, {lhs, rhs}, elementOf(lhs), types);
}
/// Types of one shape each, of one element type or two floating-point ones.
bool compatible(TypeRange left, TypeRange right) {
  return left.size() == right.size() && llvm::all_of(llvm::zip(left, right), [](auto pair) {
           auto a = cast<RankedTensorType>(std::get<0>(pair)), b = cast<RankedTensorType>(std::get<1>(pair));
           bool floats = isa<FloatType>(a.getElementType()) && isa<FloatType>(b.getElementType());
           return a.getShape() == b.getShape() && (floats || a.getElementType() == b.getElementType());
         });
}
} // namespace

bool ReduceOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) { return compatible(left, right); }
bool MatmulOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) { return compatible(left, right); }
bool ConvOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) { return compatible(left, right); }
bool ExpertMatmulOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) { return compatible(left, right); }
bool LayerNormOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) { return compatible(left, right); }
bool RmsNormOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) { return compatible(left, right); }

#define MT_BINARY(Op)                                                                                                  \
  LogicalResult Op::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {                           \
    return inferBinary(where, op.getLhs(), op.getRhs(), types);                                                        \
  }
MT_BINARY(AddOp)
MT_BINARY(SubOp)
MT_BINARY(MulOp)
MT_BINARY(DivOp)
MT_BINARY(PowOp)
MT_BINARY(MaximumOp)
MT_BINARY(MinimumOp)
MT_BINARY(ModOp)
MT_BINARY(AndOp)
MT_BINARY(OrOp)
MT_BINARY(XorOp)

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context, Where where, Adaptor op, Types &types) {
  if (!llvm::is_contained({"eq", "ne", "lt", "le", "gt", "ge"}, op.getPredicate()))
    return emitOptionalError(where, "predicate must be eq, ne, lt, le, gt or ge");
  if (elementOf(op.getLhs()) != elementOf(op.getRhs()))
    return emitOptionalError(where, "compares different element types");
  return inferBroadcast(where, {op.getLhs(), op.getRhs()}, IntegerType::get(context, 1), types);
}
LogicalResult SelectOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  if (elementOf(op.getLhs()) != elementOf(op.getRhs()))
    return emitOptionalError(where, "chooses between different element types");
  return inferBroadcast(where, {op.getCondition(), op.getLhs(), op.getRhs()}, elementOf(op.getLhs()), types);
}
LogicalResult IsNanOp::inferReturnTypes(MLIRContext *context, Where, Adaptor op, Types &types) {
  types.push_back(tensorOf(shapeOf(op.getOperand()), IntegerType::get(context, 1)));
  return success();
}
LogicalResult GatedProductOp::inferReturnTypes(MLIRContext *, Where, Adaptor op, Types &types) {
  types.push_back(op.getGate().getType());
  return success();
}
LogicalResult GatedProductGradOp::inferReturnTypes(MLIRContext *, Where, Adaptor op, Types &types) {
  types.append(2, op.getGate().getType());
  return success();
}

//===-- structure -------------------------------------------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  if (!getValue().isSplat() && getValue().getNumElements() > kConstantLimit)
    return emitOpError() << "has " << getValue().getNumElements() << " elements; at most " << kConstantLimit
                         << " fit, unless all are equal";
  return success();
}
LogicalResult ReshapeOp::verify() {
  auto from = cast<RankedTensorType>(getOperand().getType()), to = cast<RankedTensorType>(getType());
  if (from.getNumElements() != to.getNumElements() || from.getElementType() != to.getElementType())
    return emitOpError() << "cannot view " << from << " as " << to;
  return success();
}
LogicalResult BroadcastOp::verify() {
  auto shape = broadcastShapes(shapeOf(getOperand()), shapeOf(getResult()));
  if (!shape || ArrayRef<int64_t>(*shape) != shapeOf(getResult()) || elementOf(getOperand()) != elementOf(getResult()))
    return emitOpError() << "cannot repeat " << getOperand().getType() << " to " << getType();
  return success();
}
LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> from = shapeOf(op.getOperand()), order = op.getPermutation();
  SmallVector<bool> seen(from.size(), false);
  Shape shape;
  for (int64_t i : order) {
    if (i < 0 || i >= static_cast<int64_t>(from.size()) || std::exchange(seen[i], true))
      return emitOptionalError(where, "permutation does not permute ", from.size(), " dimensions");
    shape.push_back(from[i]);
  }
  if (shape.size() != from.size())
    return emitOptionalError(where, "permutation has ", order.size(), " entries for ", from.size(), " dimensions");
  types.push_back(tensorOf(shape, elementOf(op.getOperand())));
  return success();
}
LogicalResult SliceOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  if (op.getSizes().size() != shapeOf(op.getOperand()).size())
    return emitOptionalError(where, "slices ", op.getSizes().size(), " dimensions of ", op.getOperand().getType());
  types.push_back(tensorOf(op.getSizes(), elementOf(op.getOperand())));
  return success();
}
LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getOperand());
  if (getStarts().size() != from.size() || getStrides().size() != from.size())
    return emitOpError("needs a start, a size and a stride for each dimension");
  for (auto [size, start, count, stride] : llvm::zip(from, getStarts(), getSizes(), getStrides())) {
    int64_t last = start + (count - 1) * stride;
    if (stride == 0 || count < 0 || (count > 0 && (start < 0 || start >= size || last < 0 || last >= size)))
      return emitOpError() << "reaches from " << start << " to " << last << " in a dimension of " << size;
  }
  return success();
}
LogicalResult PadOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> from = shapeOf(op.getOperand());
  if (op.getLow().size() != from.size() || op.getHigh().size() != from.size() || op.getInterior().size() != from.size())
    return emitOptionalError(where, "needs low, high and interior padding for each dimension");
  Shape shape;
  for (auto [size, low, high, interior] : llvm::zip(from, op.getLow(), op.getHigh(), op.getInterior()))
    shape.push_back(low + high + size + std::max<int64_t>(size - 1, 0) * interior);
  types.push_back(tensorOf(shape, elementOf(op.getOperand())));
  return success();
}
LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  if (op.getInputs().empty())
    return emitOptionalError(where, "joins nothing");
  Shape shape(shapeOf(op.getInputs()[0]));
  int64_t axis = op.getAxis();
  if (axis < 0 || axis >= static_cast<int64_t>(shape.size()))
    return emitOptionalError(where, "axis ", axis, " is not a dimension");
  shape[axis] = 0;
  for (Value input : op.getInputs()) {
    Shape other(shapeOf(input));
    if (other.size() != shape.size() || elementOf(input) != elementOf(op.getInputs()[0]))
      return emitOptionalError(where, "joins ", input.getType(), " and ", op.getInputs()[0].getType());
    shape[axis] += std::exchange(other[axis], shape[axis]);
    other[axis] = shape[axis];
    if (other != shape)
      return emitOptionalError(where, "joins ", input.getType(), " and ", op.getInputs()[0].getType(), " along ", axis);
  }
  types.push_back(tensorOf(shape, elementOf(op.getInputs()[0])));
  return success();
}
LogicalResult ReduceOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  if (!llvm::is_contained({"sum", "mean", "max", "min", "prod"}, op.getKind()))
    return emitOptionalError(where, "kind must be sum, mean, max, min or prod");
  if (BoolAttr first = op.getFirstAttr();
      first && first.getValue() && ((op.getKind() != "max" && op.getKind() != "min") || op.getAxes().size() != 1))
    return emitOptionalError(where, "only max and min over one axis have a first");
  ArrayRef<int64_t> from = shapeOf(op.getOperand());
  Shape shape;
  for (auto [i, size] : llvm::enumerate(from))
    if (!llvm::is_contained(op.getAxes(), static_cast<int64_t>(i)))
      shape.push_back(size);
    else if (op.getKeepDims())
      shape.push_back(1);
  for (int64_t axis : op.getAxes())
    if (axis < 0 || axis >= static_cast<int64_t>(from.size()))
      return emitOptionalError(where, "axis ", axis, " is not a dimension of ", op.getOperand().getType());
  if (!llvm::is_sorted(op.getAxes()))
    return emitOptionalError(where, "axes must ascend");
  types.push_back(tensorOf(shape, elementOf(op.getOperand())));
  return success();
}
LogicalResult CumsumOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  int64_t axis = op.getAxis();
  if (axis < 0 || axis >= static_cast<int64_t>(shapeOf(op.getOperand()).size()))
    return emitOptionalError(where, "axis ", axis, " is not a dimension");
  types.push_back(op.getOperand().getType());
  return success();
}
LogicalResult GatherOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> data = shapeOf(op.getData());
  int64_t axis = op.getAxis();
  if (axis < 0 || axis >= static_cast<int64_t>(data.size()))
    return emitOptionalError(where, "axis ", axis, " is not a dimension of ", op.getData().getType());
  Shape shape(data.take_front(axis));
  llvm::append_range(shape, shapeOf(op.getIndices()));
  llvm::append_range(shape, data.drop_front(axis + 1));
  types.push_back(tensorOf(shape, elementOf(op.getData())));
  return success();
}
LogicalResult GatherNdOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> data = shapeOf(op.getData()), indices = shapeOf(op.getIndices());
  int64_t batch = op.getBatchDims();
  if (indices.empty() || batch < 0 || batch + indices.back() > static_cast<int64_t>(data.size()) ||
      batch >= static_cast<int64_t>(indices.size()))
    return emitOptionalError(where, "index tuples of ", op.getIndices().getType(), " do not fit ", op.getData().getType());
  Shape shape(indices.drop_back());
  llvm::append_range(shape, data.drop_front(batch + indices.back()));
  types.push_back(tensorOf(shape, elementOf(op.getData())));
  return success();
}
LogicalResult GatherElementsOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  if (shapeOf(op.getData()).size() != shapeOf(op.getIndices()).size())
    return emitOptionalError(where, "data and indices have different ranks");
  types.push_back(tensorOf(shapeOf(op.getIndices()), elementOf(op.getData())));
  return success();
}
static LogicalResult inferScatter(Where where, Value data, Value updates, ArrayRef<int64_t> wanted, Types &types) {
  if (elementOf(updates) != elementOf(data) || shapeOf(updates) != wanted)
    return emitOptionalError(where, "updates ", updates.getType(), " do not fit ", data.getType(), " and the indices");
  types.push_back(data.getType());
  return success();
}
LogicalResult ScatterOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> data = shapeOf(op.getData());
  int64_t axis = op.getAxis();
  if (axis < 0 || axis >= static_cast<int64_t>(data.size()))
    return emitOptionalError(where, "axis ", axis, " is not a dimension of ", op.getData().getType());
  Shape wanted(data.take_front(axis));
  llvm::append_range(wanted, shapeOf(op.getIndices()));
  llvm::append_range(wanted, data.drop_front(axis + 1));
  return inferScatter(where, op.getData(), op.getUpdates(), wanted, types);
}
LogicalResult ScatterElementsOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> data = shapeOf(op.getData()), indices = shapeOf(op.getIndices());
  if (data.size() != indices.size())
    return emitOptionalError(where, "data and indices have different ranks");
  for (size_t dim = 0; dim < data.size(); ++dim)
    if (static_cast<int64_t>(dim) != static_cast<int64_t>(op.getAxis()) && indices[dim] > data[dim])
      return emitOptionalError(where, "indices ", op.getIndices().getType(), " exceed ", op.getData().getType(),
                               " in dimension ", dim);
  return inferScatter(where, op.getData(), op.getUpdates(), shapeOf(op.getIndices()), types);
}
LogicalResult TopKOp::inferReturnTypes(MLIRContext *context, Where where, Adaptor op, Types &types) {
  Shape shape(shapeOf(op.getOperand()));
  int64_t k = op.getK();
  if (shape.empty() || k < 0 || k > shape.back())
    return emitOptionalError(where, "k = ", k, " is more than ", op.getOperand().getType(),
                             " has along its last dimension");
  shape.back() = k;
  types.push_back(tensorOf(shape, IntegerType::get(context, 64)));
  return success();
}

//===-- convolution, pooling --------------------------------------------------------------------------------===//

/// Appends the sizes of the results of windows over `image`, without batch and channels.
static LogicalResult appendOutputs(Where where, ArrayRef<int64_t> image, ArrayRef<int64_t> size,
                                   ArrayRef<int64_t> strides, ArrayRef<int64_t> dilations, ArrayRef<int64_t> low,
                                   ArrayRef<int64_t> high, Shape &shape) {
  size_t rank = size.size();
  if (rank < 1 || image.size() != rank || strides.size() != rank || dilations.size() != rank || low.size() != rank ||
      high.size() != rank)
    return emitOptionalError(where,
                             "the windows have not one size, stride, dilation and pad for each dimension of the image");
  for (size_t d = 0; d < rank; ++d) {
    int64_t room = image[d] + low[d] + high[d] - ((size[d] - 1) * dilations[d] + 1);
    if (strides[d] < 1 || dilations[d] < 1 || room < 0)
      return emitOptionalError(where, "the window is larger than the padded image in dimension ", d,
                               ", or moves by nothing");
    shape.push_back(room / strides[d] + 1);
  }
  return success();
}
LogicalResult ConvOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> image = shapeOf(op.getImage()), kernel = shapeOf(op.getKernel());
  int64_t groups = op.getGroups();
  if (image.size() < 3 || kernel.size() != image.size() || groups < 1 || kernel[1] * groups != image[1] ||
      kernel[0] % groups)
    return emitOptionalError(where, "a kernel ", op.getKernel().getType(), " in ", groups, " groups does not fit ",
                             op.getImage().getType());
  if (op.getBias() && shapeOf(op.getBias()) != kernel.take_front(1))
    return emitOptionalError(where, "bias ", op.getBias().getType(), " has not one entry for each of ", kernel[0],
                             " filters");
  Shape shape{image[0], kernel[0]};
  if (failed(appendOutputs(where, image.drop_front(2), kernel.drop_front(2), op.getStrides(), op.getDilations(),
                           op.getLow(), op.getHigh(), shape)))
    return failure();
  types.push_back(tensorOf(shape, elementOf(op.getImage())));
  return success();
}
LogicalResult PoolOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> image = shapeOf(op.getOperand());
  if (image.size() < 3)
    return emitOptionalError(where, "needs batch, channels and at least one more dimension, not ",
                             op.getOperand().getType());
  Shape shape(image.take_front(2));
  if (failed(appendOutputs(where, image.drop_front(2), op.getSize(), op.getStrides(), op.getDilations(), op.getLow(),
                           op.getHigh(), shape)))
    return failure();
  types.push_back(tensorOf(shape, elementOf(op.getOperand())));
  return success();
}

//===-- products, normalization, attention, losses ----------------------------------------------------------===//

template <typename Product> static LogicalResult inferProduct(Where where, Product op, Types &types) {
  ArrayRef<int64_t> lhs = shapeOf(op.getLhs()), rhs = shapeOf(op.getRhs());
  if (lhs.size() < 2 || rhs.size() < 2)
    return emitOptionalError(where, "needs matrices, not ", op.getLhs().getType(), " and ", op.getRhs().getType());
  if (elementOf(op.getLhs()) != elementOf(op.getRhs()))
    return emitOptionalError(where, "element types ", elementOf(op.getLhs()), " and ", elementOf(op.getRhs()), " differ");
  if (rhs.size() != 2 && rhs.drop_back(2) != lhs.drop_back(2))
    return emitOptionalError(where, "batch dimensions of ", op.getLhs().getType(), " and ", op.getRhs().getType(), " differ");
  bool tl = op.getTransposeLhs(), tr = op.getTransposeRhs();
  int64_t m = lhs[lhs.size() - (tl ? 1 : 2)], k = lhs[lhs.size() - (tl ? 2 : 1)];
  int64_t n = rhs[rhs.size() - (tr ? 2 : 1)], contracted = rhs[rhs.size() - (tr ? 1 : 2)];
  if (k != contracted)
    return emitOptionalError(where, "contracts dimensions of different size: ", k, " and ", contracted);
  if (op.getBias() && shapeOf(op.getBias()) != ArrayRef<int64_t>{n})
    return emitOptionalError(where, "bias ", op.getBias().getType(), " is not one row of ", n);
  Shape shape(lhs.drop_back(2));
  shape.append({m, n});
  types.push_back(tensorOf(shape, elementOf(op.getLhs())));
  return success();
}
LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  return inferProduct(where, op, types);
}
LogicalResult MatmulGeluOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  if (failed(inferProduct(where, op, types)))
    return failure();
  types.push_back(types.front());
  return success();
}
LogicalResult MatmulAddOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  if (failed(inferProduct(where, op, types)))
    return failure();
  if (shapeOf(op.getAddend()) != cast<RankedTensorType>(types.front()).getShape())
    return emitOptionalError(where, "addend ", op.getAddend().getType(), " has not the shape of the product, ",
                             types.front());
  types.front() = op.getAddend().getType();
  return success();
}
void MatmulOp::build(OpBuilder &builder, OperationState &state, Value lhs, Value rhs, bool transposeLhs,
                     bool transposeRhs) {
  build(builder, state, lhs, rhs, Value(), transposeLhs, transposeRhs);
}
LogicalResult ExpertMatmulOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> lhs = shapeOf(op.getLhs()), weight = shapeOf(op.getWeight()), experts = shapeOf(op.getExperts());
  bool transposed = op.getTransposed();
  if (lhs.size() != 2 || weight.size() != 3 || weight[transposed ? 2 : 1] != lhs[1] || experts != lhs.take_front(1))
    return emitOptionalError(where, "rows ", op.getLhs().getType(), ", matrices ", op.getWeight().getType(),
                             " and experts ", op.getExperts().getType(), " do not fit");
  types.push_back(tensorOf({lhs[0], weight[transposed ? 1 : 2]}, elementOf(op.getLhs())));
  return success();
}
LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  if (shapeOf(op.getTable()).size() != 2)
    return emitOptionalError(where, "table must be a matrix, not ", op.getTable().getType());
  Shape shape(shapeOf(op.getIds()));
  shape.push_back(shapeOf(op.getTable())[1]);
  types.push_back(tensorOf(shape, elementOf(op.getTable())));
  return success();
}
static LogicalResult checkRow(Where where, Value operand, Value row, StringRef what) {
  if (shapeOf(operand).empty())
    return emitOptionalError(where, "needs at least one dimension");
  if (row && shapeOf(row) != shapeOf(operand).take_back(1))
    return emitOptionalError(where, what, " ", row.getType(), " does not fit the last dimension of ", operand.getType());
  return success();
}
LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *context, Where where, Adaptor op, Types &types) {
  if (failed(checkRow(where, op.getOperand(), op.getGain(), "gain")) ||
      failed(checkRow(where, op.getOperand(), op.getBias(), "bias")))
    return failure();
  types.push_back(op.getOperand().getType());
  types.append(2, tensorOf(shapeOf(op.getOperand()).drop_back(), f32(context)));
  return success();
}
LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *context, Where where, Adaptor op, Types &types) {
  if (failed(checkRow(where, op.getOperand(), op.getGain(), "gain")))
    return failure();
  types.push_back(op.getOperand().getType());
  types.push_back(tensorOf(shapeOf(op.getOperand()).drop_back(), f32(context)));
  return success();
}
/// A bias with an entry for every distance of a query and a key.
static bool isByDistance(ArrayRef<int64_t> bias, int64_t queries, int64_t keys) {
  return bias.size() == 4 && bias[2] == 1 && bias[3] == queries + keys - 1;
}
static bool isByPlace(ArrayRef<int64_t> bias) { return bias.size() == 4 && bias[2] == 1; }
LogicalResult AttentionOp::inferReturnTypes(MLIRContext *context, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey()), v = shapeOf(op.getValue());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return emitOptionalError(where, "query, key and value need four dimensions: batch, position, head, channel");
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] || k[2] == 0 || q[2] % k[2])
    return emitOptionalError(where, "query ", op.getQuery().getType(), ", key ", op.getKey().getType(), " and value ",
                             op.getValue().getType(), " do not fit");
  if (op.getBias()) {
    bool isLine =
        op.getQueryPlace() ? isByPlace(shapeOf(op.getBias())) : isByDistance(shapeOf(op.getBias()), q[1], k[1]);
    SmallVector<int64_t> own(shapeOf(op.getBias()));
    if (isLine)
      own.back() = 1;
    auto shape = broadcastShapes(own, {q[0], q[2], q[1], k[1]});
    if (!shape || *shape != Shape{q[0], q[2], q[1], k[1]} || own.size() != 4 || (op.getQueryPlace() && !isLine))
      return emitOptionalError(where, "bias ", op.getBias().getType(), " does not broadcast to the scores");
  }
  if (op.getKeyMask() && shapeOf(op.getKeyMask()) != ArrayRef<int64_t>{q[0], k[1]})
    return emitOptionalError(where, "key mask ", op.getKeyMask().getType(), " is not [batch, keys]");
  if (!op.getQuerySegment() != !op.getKeySegment())
    return emitOptionalError(where, "needs segments of both queries and keys, or of neither");
  if (!op.getQueryPlace() != !op.getKeyPlace() || (op.getQueryPlace() && !op.getBias()))
    return emitOptionalError(where, "needs places of both queries and keys and a bias, or of neither");
  if (op.getQueryPlace() &&
      (shapeOf(op.getQueryPlace()) != q.slice(1, 1) || shapeOf(op.getKeyPlace()) != k.slice(1, 1)))
    return emitOptionalError(where, "places are not [queries] and [keys]");
  if (op.getSink() && shapeOf(op.getSink()) != q.slice(2, 1))
    return emitOptionalError(where, "sink ", op.getSink().getType(), " is not [heads]");
  types.push_back(tensorOf({q[0], q[1], q[2], v[3]}, elementOf(op.getQuery())));
  types.push_back(tensorOf({q[0], q[2], q[1]}, f32(context)));
  return success();
}
LogicalResult RotaryOp::inferReturnTypes(MLIRContext *, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> x = shapeOf(op.getOperand()), cos = shapeOf(op.getCos());
  if (x.size() != 4 || cos.size() != 3 || cos != shapeOf(op.getSin()) || cos[1] != x[1] ||
      (cos[0] != 1 && cos[0] != x[0]) || 2 * cos[2] > x[3])
    return emitOptionalError(where, "tables ", op.getCos().getType(), " do not fit ", op.getOperand().getType());
  types.push_back(op.getOperand().getType());
  return success();
}

/// What is wrong with the attributes of a recurrence; empty if nothing is.
static StringRef problemOf(RecurrenceOp::Adaptor op) {
  StringRef kind = op.getKind();
  if (!llvm::is_contained({"lstm", "gru", "rnn"}, kind))
    return "kind must be lstm, gru or rnn";
  for (StringRef activation : {op.getGate(), op.getCandidate(), op.getOutput()})
    if (!llvm::is_contained({"sigmoid", "tanh", "relu"}, activation))
      return "activations must be sigmoid, tanh or relu";
  if (kind != "lstm" && (op.getInitialCell() || op.getPeephole() || op.getCoupled()))
    return "only lstm has cells, a peephole and coupled gates";
  return kind != "gru" && op.getLinearBeforeReset() ? "only gru has a reset gate" : "";
}
LogicalResult RecurrenceOp::inferReturnTypes(MLIRContext *context, Where where, Adaptor op, Types &types) {
  if (StringRef problem = problemOf(op); !problem.empty())
    return emitOptionalError(where, problem);
  ArrayRef<int64_t> gates = shapeOf(op.getGates()), weight = shapeOf(op.getWeight());
  int64_t each = op.getKind() == "lstm" ? 4 : op.getKind() == "gru" ? 3 : 1;
  if (gates.size() != 3 || weight.size() != 2 || weight[0] != each * weight[1] || gates[2] != weight[0])
    return emitOptionalError(where, "gates ", op.getGates().getType(), " and weight ", op.getWeight().getType(),
                             " are not [steps, batch, ", each, " * width] and [", each, " * width, width]");
  int64_t width = weight[1];
  auto fits = [](Value value, ArrayRef<int64_t> shape) { return !value || shapeOf(value) == shape; };
  for (Value state : {op.getInitialHidden(), op.getInitialCell()})
    if (!fits(state, {gates[1], width}))
      return emitOptionalError(where, "an initial state ", state.getType(), " is not [batch, width] of ",
                               op.getGates().getType());
  if (!fits(op.getRecurrentBias(), {weight[0]}) || !fits(op.getPeephole(), {3 * width}) ||
      !fits(op.getLengths(), {gates[1]}))
    return emitOptionalError(where, "recurrent bias, peephole or lengths do not fit ", op.getGates().getType());
  Type element = elementOf(op.getGates());
  types.append(op.getKind() == "lstm" ? 2 : 1,
               tensorOf({gates[0], gates[1], width}, element.isF64() ? element : f32(context)));
  return success();
}

static void pushLoss(MLIRContext *context, Types &types) { types.push_back(tensorOf({}, f32(context))); }

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *context, Where where, Adaptor op, Types &types) {
  if (shapeOf(op.getLogits()).size() != 2 || shapeOf(op.getLabels()) != shapeOf(op.getLogits()).take_front(1))
    return emitOptionalError(where, "logits ", op.getLogits().getType(), " and labels ", op.getLabels().getType(), " do not fit");
  pushLoss(context, types);
  return success();
}
LogicalResult CrossEntropyGradOp::inferReturnTypes(MLIRContext *context, Where, Adaptor op, Types &types) {
  pushLoss(context, types);
  types.push_back(op.getLogits().getType());
  return success();
}
LogicalResult LinearCrossEntropyOp::inferReturnTypes(MLIRContext *context, Where where, Adaptor op, Types &types) {
  ArrayRef<int64_t> h = shapeOf(op.getHidden()), w = shapeOf(op.getWeight());
  if (h.size() != 2 || w.size() != 2 || w[op.getTransposed() ? 0 : 1] != h[1] ||
      shapeOf(op.getLabels()) != h.take_front(1))
    return emitOptionalError(where, "hidden ", op.getHidden().getType(), ", weight ", op.getWeight().getType(),
                             " and labels ", op.getLabels().getType(), " do not fit");
  pushLoss(context, types);
  return success();
}
LogicalResult SquaredErrorOp::inferReturnTypes(MLIRContext *context, Where where, Adaptor op, Types &types) {
  if (op.getPrediction().getType() != op.getTarget().getType())
    return emitOptionalError(where, "compares ", op.getPrediction().getType(), " with ", op.getTarget().getType());
  pushLoss(context, types);
  return success();
}
LogicalResult SquaredErrorGradOp::inferReturnTypes(MLIRContext *context, Where, Adaptor op, Types &types) {
  pushLoss(context, types);
  types.push_back(op.getPrediction().getType());
  return success();
}
