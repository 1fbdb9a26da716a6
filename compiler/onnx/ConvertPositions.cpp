// Operators about positions: triangles, running sums, one-hot rows, diagonals. They stay comparisons of indices.
#include "compiler/onnx/Converters.h"

using namespace mlir;

namespace mt::onnx {
namespace {

// Keeps an element where column - row >= k (upper) or <= k (lower), else zero.
LogicalResult trilu(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  int64_t k = 0;
  if (node.has(1)) {
    auto given = node.integers(1, "diagonal");
    if (!given || given->size() != 1)
      return failure();
    k = (*given)[0];
  }
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  if (shape.size() < 2)
    return node.fail("needs a tensor of rank two or more");
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  Type integer = node.builder.getI64Type();
  Value row = node.iota({rows, 1}, integer, 0, static_cast<double>(k), 1);
  Value column = node.iota({1, columns}, integer, 1, 0, 1);
  Value kept = node.compare(column, row, node.attributes.integer("upper", 1) ? "ge" : "le");
  return node.result(node.emit<nn::SelectOp>({kept, value, node.scalar(value, 0)}));
}

LogicalResult cumSum(NodeContext &node) {
  Value value = node.input(0);
  auto given = node.integers(1, "axis");
  if (!value || !given || given->size() != 1)
    return failure();
  auto axis = frontAxis((*given)[0], static_cast<int64_t>(nn::shapeOf(value).size()));
  if (!axis)
    return node.fail("axis {} is out of range", (*given)[0]);
  return node.result(node.emit<nn::CumsumOp>(
      {value}, {node.intAttr("axis", *axis), node.boolAttr("exclusive", node.attributes.integer("exclusive", 0)),
                node.boolAttr("reverse", node.attributes.integer("reverse", 0))}));
}

// indices[..] against 0 .. depth - 1 along a new axis; negative indices count from the end.
LogicalResult oneHot(NodeContext &node) {
  Value ids = node.input(0), values = node.input(2);
  auto depth = node.integers(1, "depth");
  if (!ids || !values || !depth || depth->size() != 1)
    return failure();
  int64_t count = (*depth)[0];
  SmallVector<int64_t> shape(nn::shapeOf(ids)), classes(shape.size() + 1, 1);
  auto axis = node.axis("axis", -1, static_cast<int64_t>(classes.size()));
  if (!axis || count <= 0)
    return node.fail("its depth {} must be positive", count);
  shape.insert(shape.begin() + *axis, 1);
  classes[static_cast<size_t>(*axis)] = count;
  Type integer = getElementTypeOrSelf(ids);
  Value wrapped = node.emit<nn::ModOp>({node.reshape(ids, shape), node.scalar(ids, static_cast<double>(count))});
  Value hit = node.compare(wrapped, node.iota(classes, integer, *axis, 0, 1), "eq");
  Value off = node.reshape(node.slice(values, 0, 0, 1), {}), on = node.reshape(node.slice(values, 0, 1, 1), {});
  return node.result(node.emit<nn::SelectOp>({hit, on, off}));
}

LogicalResult eyeLike(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  if (shape.size() != 2)
    return node.fail("needs a tensor of rank two");
  Type element = getElementTypeOrSelf(value);
  if (node.attributes.has("dtype")) {
    std::optional<DType> type = elementType(static_cast<int>(node.attributes.integer("dtype", 1)));
    if (!type)
      return node.fail("its dtype is not supported");
    element = mlirType(node.builder.getContext(), *type);
  }
  Type integer = node.builder.getI64Type();
  Value row = node.iota({shape[0], 1}, integer, 0, static_cast<double>(node.attributes.integer("k", 0)), 1);
  Value column = node.iota({1, shape[1]}, integer, 1, 0, 1);
  return node.result(node.cast(node.compare(column, row, "eq"), element));
}

// The first (or last) index at which the largest (or smallest) element stands: the extreme index among those equal.
template <bool Largest> LogicalResult argExtreme(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  auto axis = node.axis("axis", 0, static_cast<int64_t>(shape.size()));
  if (!axis)
    return failure();
  int64_t size = shape[static_cast<size_t>(*axis)];
  bool last = node.attributes.integer("select_last_index", 0);
  SmallVector<int64_t> line(shape.size(), 1);
  line[static_cast<size_t>(*axis)] = size;
  Value extreme = node.reduce(value, Largest ? "max" : "min", {*axis}, true);
  Value position = node.iota(line, node.builder.getI64Type(), *axis, 0, 1);
  Value none = node.scalar(position, last ? -1 : static_cast<double>(size));
  Value candidates = node.emit<nn::SelectOp>({node.compare(value, extreme, "eq"), position, none});
  return node.result(node.reduce(candidates, last ? "max" : "min", {*axis}, node.attributes.integer("keepdims", 1)));
}

} // namespace

void addPositions(Converters &table) {
  table.add("Trilu", trilu);
  table.add("CumSum", cumSum);
  table.add("OneHot", oneHot);
  table.add("EyeLike", eyeLike);
  table.add("ArgMax", argExtreme<true>);
  table.add("ArgMin", argExtreme<false>);
}

} // namespace mt::onnx
