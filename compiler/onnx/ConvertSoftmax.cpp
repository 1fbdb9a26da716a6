// Softmax and its kin. nn's work over the last dimension; another one is moved there.
#include "compiler/onnx/Converters.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

using OfRows = Value (*)(NodeContext &, Value); ///< a function over the last dimension

// Before opset 13 an axis meant all dimensions from it on, as one.
LogicalResult overRest(NodeContext &node, Value value, OfRows ofRows) {
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  auto rank = static_cast<int64_t>(shape.size());
  auto axis = rank ? node.axis("axis", 1 < rank ? 1 : 0, rank) : std::optional<int64_t>(0);
  if (!axis)
    return failure();
  Value rows = node.reshape(value, {productOf(shape.take_front(*axis)), productOf(shape.drop_front(*axis))});
  Value result = rows ? ofRows(node, rows) : Value();
  return node.result(result ? node.reshape(result, shape) : result);
}

LogicalResult alongAxis(NodeContext &node, OfRows ofRows) {
  Value value = node.input(0);
  if (!value)
    return failure();
  if (node.opset < 13)
    return overRest(node, value, ofRows);
  auto rank = static_cast<int64_t>(nn::shapeOf(value).size());
  auto axis = node.axis("axis", -1, rank);
  if (!axis)
    return failure();
  if (*axis == rank - 1)
    return node.result(ofRows(node, value));
  Dims swap(static_cast<size_t>(rank));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[static_cast<size_t>(*axis)], swap.back());
  return node.result(node.transpose(ofRows(node, node.transpose(value, swap)), swap));
}

template <typename Op> LogicalResult softmax(NodeContext &node) {
  return alongAxis(node, [](NodeContext &context, Value rows) { return context.emit<Op>({rows}); });
}

// One at the first of the largest, else zero.
Value firstLargest(NodeContext &node, Value rows) {
  if (!rows)
    return {};
  auto last = static_cast<int64_t>(nn::shapeOf(rows).size()) - 1;
  SmallVector<int64_t> line(nn::shapeOf(rows).size(), 1);
  line.back() = nn::shapeOf(rows).back();
  Value places = node.iota(line, node.builder.getI64Type(), last, 0, 1);
  Value isLargest = node.compare(rows, node.reduce(rows, "max", {last}, true), "eq");
  Value none = node.scalar(places, static_cast<double>(line.back()));
  Value first = node.reduce(node.emit<nn::SelectOp>({isLargest, places, none}), "min", {last}, true);
  Value isFirst = node.compare(places, first, "eq");
  return isFirst ? node.cast(isFirst, getElementTypeOrSelf(rows)) : isFirst;
}
LogicalResult hardmax(NodeContext &node) { return alongAxis(node, firstLargest); }

} // namespace

void addSoftmax(Converters &table) {
  table.add("Softmax", softmax<nn::SoftmaxOp>);
  table.add("LogSoftmax", softmax<nn::LogSoftmaxOp>);
  table.add("Hardmax", hardmax);
}

} // namespace mt::onnx
