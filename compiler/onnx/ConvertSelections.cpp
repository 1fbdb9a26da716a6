// What a mask of the model's data selects: NonZero gives places whose number only the data know, and no tensor here has
// such a size. What PyTorch's masked_scatter and x[mask] = value become has a result of a known size, and is followed
// from NonZero on.
#include "compiler/onnx/Converters.h"

#include <algorithm>

using namespace mlir;

namespace mt::onnx {
namespace {

/// Whether input `index` is absent, or the one number.
bool isNumber(NodeContext &node, size_t index, int64_t number) {
  const HostTensor *known = node.known(index);
  return !node.has(index) || (known && known->elements() == 1 && known->intAt(0) == number);
}

/// A mask without its trailing dimensions along which it is only repeated, as one of tokens is for their features.
struct Repeated {
  Value mask;
  size_t kept; ///< leading dimensions
};
Repeated withoutRepetition(Value mask) {
  ArrayRef<int64_t> shape = nn::shapeOf(mask);
  Repeated found{mask, shape.size()};
  while (auto broadcast = found.mask.getDefiningOp<nn::BroadcastOp>()) {
    ArrayRef<int64_t> from = nn::shapeOf(broadcast.getOperand());
    const size_t added = shape.size() - from.size();
    found = {broadcast.getOperand(), shape.size()};
    while (found.kept > 0 && (found.kept <= added || from[found.kept - 1 - added] == 1))
      --found.kept;
  }
  return found;
}

/// A mask of leading dimensions, which broadcasts to all of `data`.
Value alignedMask(NodeContext &node, Value mask, Value data) {
  SmallVector<int64_t> aligned(nn::shapeOf(mask));
  aligned.resize(nn::shapeOf(data).size(), 1);
  return node.reshape(mask, aligned);
}

/// data with entries of `from` put where the mask holds, one after another. Where the mask has rows of places, and
/// `from` fewer entries than places and as many for each row, rows take their own: all of them or none, or the index is
/// out of range, so that the result is that of the order over the whole batch.
Value putSelected(NodeContext &node, Value data, Value mask, Value from) {
  ArrayRef<int64_t> shape = nn::shapeOf(data), masked = nn::shapeOf(mask);
  const int64_t entries = nn::shapeOf(from)[0], entry = productOf(shape.drop_front(masked.size()));
  Repeated once = withoutRepetition(mask);
  if (entries % std::max<int64_t>(productOf(masked.drop_front(once.kept)), 1) != 0)
    once = {mask, masked.size()};
  const int64_t run = productOf(masked.drop_front(once.kept)), places = productOf(masked.take_front(once.kept));
  if (entries == 0 || places == 0 || run == 0)
    return (void)node.fail("it puts {} entries where a mask of {} places holds", entries, places * run), Value();
  const bool byRow = once.kept > 1 && entries / run < places && entries % (masked[0] * run) == 0;
  const int64_t rows = byRow ? masked[0] : 1, own = entries / rows / run;
  SmallVector<int64_t> leading(masked);
  std::fill(leading.begin() + static_cast<ptrdiff_t>(once.kept), leading.end(), 1);
  Value held = node.reshape(node.broadcast(once.mask, leading), {rows, places / rows});
  Value before = node.emit<nn::CumsumOp>(
      {node.cast(held, node.builder.getI64Type())},
      {node.intAttr("axis", 1), node.boolAttr("exclusive", true), node.boolAttr("reverse", false)});
  if (!before)
    return {};
  Value number = before;
  if (byRow) {
    Value count = node.reduce(node.cast(held, node.builder.getI64Type()), "sum", {1}, true);
    number = node.emit<nn::SelectOp>({node.compare(count, node.scalar(count, static_cast<double>(own)), "eq"), before,
                                      node.scalar(before, static_cast<double>(own))});
  }
  number = node.emit<nn::SelectOp>({held, number, node.scalar(before, 0)});
  Value taken = node.emit<nn::GatherNdOp>(
      {node.reshape(from, {rows, own, run * entry}), node.reshape(number, {rows, places / rows, 1})},
      {node.intAttr("batchDims", 1)});
  return node.emit<nn::SelectOp>({alignedMask(node, mask, data), node.reshape(taken, shape), data});
}

LogicalResult give(NodeContext &node, Selection selection) {
  NodeValue value;
  value.selection = std::move(selection);
  node.result(0, std::move(value));
  return success();
}

/// The same, a step further on its way.
LogicalResult give(NodeContext &node, Selection::Kind kind, Selection selection) {
  selection.kind = kind;
  return give(node, std::move(selection));
}

const Selection *selectionAt(NodeContext &node, size_t index) {
  return node.has(index) && node.given(index).selection ? &*node.given(index).selection : nullptr;
}

LogicalResult scatterSelected(NodeContext &node, const Selection &tuples, const Selection &entries) {
  Value data = node.input(0);
  if (!data)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(data), masked = nn::shapeOf(tuples.mask), from = nn::shapeOf(entries.from);
  bool fits = masked.size() <= shape.size() && masked == shape.take_front(masked.size()) &&
              getElementTypeOrSelf(data.getType()) == getElementTypeOrSelf(entries.from.getType());
  if (entries.kind == Selection::one) { // x[mask] = value
    ArrayRef<int64_t> each = fits ? shape.drop_front(withoutRepetition(tuples.mask).kept) : shape;
    while (!from.empty() && from.front() == 1)
      from = from.drop_front();
    for (size_t d = 1; d <= from.size(); ++d)
      fits &= d <= each.size() && (from[from.size() - d] == 1 || from[from.size() - d] == each[each.size() - d]);
    if (fits)
      return node.result(
          node.emit<nn::SelectOp>({alignedMask(node, tuples.mask, data), node.reshape(entries.from, from), data}));
  }
  if (!fits || tuples.mask != entries.mask || from.empty() || from.drop_front() != shape.drop_front(masked.size()))
    return node.fail("the mask, what it selects and where that goes do not fit each other");
  return node.result(putSelected(node, data, tuples.mask, entries.from));
}

} // namespace

LogicalResult selectPlaces(NodeContext &node) {
  Value mask = node.input(0);
  if (mask && !getElementTypeOrSelf(mask.getType()).isInteger(1))
    mask = node.compare(mask, node.scalar(mask, 0), "ne");
  return mask ? give(node, {Selection::places, mask, {}}) : failure();
}

LogicalResult repeatByData(NodeContext &node) {
  Value value = node.input(0);
  return value ? give(node, {Selection::one, {}, value}) : failure();
}

LogicalResult convertSelection(NodeContext &node) {
  const bool isStandard = node.node.domain().empty() || node.node.domain() == "ai.onnx";
  const std::string op = isStandard ? node.node.op_type() : "";
  const Selection *first = selectionAt(node, 0), *second = selectionAt(node, 1), *third = selectionAt(node, 2);
  using Kind = Selection::Kind;
  auto is = [](const Selection *selection, Kind kind) { return selection && selection->kind == kind; };
  if (op == "Transpose" && is(first, Kind::places))
    return give(node, Kind::tuples, *first);
  if (op == "Shape" && is(first, Kind::tuples) && node.attributes.integer("start", 0) == 0) {
    const int64_t end = node.attributes.integer("end", 2);
    return give(node, end == 1 || end == -1 ? Kind::count : Kind::sizes, *first);
  }
  if (op == "Gather" && is(first, Kind::sizes) && isNumber(node, 1, 0) && node.has(1))
    return give(node, Kind::count, *first);
  if (op == "Slice" && is(first, Kind::sizes) && isNumber(node, 1, 0) && node.has(2) && isNumber(node, 2, 1))
    return give(node, Kind::count, *first);
  const bool keeps = op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Cast" || op == "Identity";
  if (keeps && (is(first, Kind::count) || (is(first, Kind::one) && op != "Cast")))
    return give(node, first->kind, *first);
  if (op == "Slice" && !first && is(third, Kind::count) && isNumber(node, 1, 0) && isNumber(node, 3, 0) &&
      isNumber(node, 4, 1)) {
    Value from = node.input(0);
    return from ? give(node, {Kind::entries, third->mask, from}) : failure();
  }
  if (op == "ScatterND" && is(second, Kind::tuples) && (is(third, Kind::entries) || is(third, Kind::one)) &&
      node.attributes.text("reduction", "none") == "none")
    return scatterSelected(node, *second, *third);
  if (is(first, Kind::one) || is(second, Kind::one) || is(third, Kind::one))
    return node.fail(
        "it takes a tensor whose shape depends on the model's data; shapes must follow from shapes and constants");
  return node.fail("it takes what NonZero selects, the number of which depends on the model's data; only constants are "
                   "supported, and "
                   "what is put at the places that a mask selects (masked_scatter, x[mask] = value)");
}

} // namespace mt::onnx
