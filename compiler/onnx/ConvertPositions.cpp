// Operators about positions: triangles, running sums and products, one-hot rows, diagonals, rows turned or written at
// places. They stay comparisons of indices.
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

// Products of ever more neighbours: after the step of distance d each place holds those of the 2 d up to it.
LogicalResult cumProd(NodeContext &node) {
  Value value = node.input(0);
  auto given = node.integers(1, "axis");
  if (!value || !given || given->size() != 1)
    return failure();
  auto rank = static_cast<int64_t>(nn::shapeOf(value).size());
  auto axis = frontAxis((*given)[0], rank);
  if (!axis)
    return node.fail("axis {} is out of range", (*given)[0]);
  int64_t size = nn::shapeOf(value)[static_cast<size_t>(*axis)];
  auto turned = [&](Value product) { return size ? node.slice(product, *axis, size - 1, size, -1) : product; };
  auto behind = [&](Value product, int64_t distance) { // moved along, with ones where it came from
    SmallVector<int64_t> low(static_cast<size_t>(rank), 0), none(low);
    low[static_cast<size_t>(*axis)] = distance;
    Value kept = node.slice(product, *axis, 0, size - distance);
    return node.emit<nn::PadOp>({kept}, {node.intsAttr("low", low), node.intsAttr("high", none),
                                         node.intsAttr("interior", none), node.realAttr("value", 1)});
  };
  bool reverse = node.attributes.integer("reverse", 0), exclusive = node.attributes.integer("exclusive", 0);
  Value product = reverse ? turned(value) : value;
  if (exclusive && size > 0)
    product = size > 1 ? behind(product, 1) : node.broadcast(node.scalar(product, 1), nn::shapeOf(product));
  for (int64_t distance = 1; distance < size; distance *= 2)
    product = node.mul(product, behind(product, distance));
  return node.result(reverse ? turned(product) : product);
}

// Where the elements of a known tensor are not zero: a column of indices for each.
LogicalResult nonZero(NodeContext &node) {
  const HostTensor *known = node.known(0);
  if (!known && node.has(0) && node.given(0).isGuess)
    return node.fail("the number of its results depends on the model's data; only constants are supported");
  if (!known)
    return selectPlaces(node);
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(known->rank()));
  int64_t found = 0;
  for (int64_t i = 0; i < known->elements() && known->elements() <= nn::kConstantLimit; ++i) {
    if (known->realAt(i) == 0)
      continue;
    ++found;
    for (int64_t d = known->rank() - 1, rest = i; d >= 0; rest /= known->dims()[static_cast<size_t>(d)], --d)
      rows[static_cast<size_t>(d)].push_back(rest % known->dims()[static_cast<size_t>(d)]);
  }
  std::vector<int64_t> all;
  for (const auto &row : rows)
    all.insert(all.end(), row.begin(), row.end());
  node.knownResult(0, HostTensor::ofIntegers(DType::i64, {known->rank(), found}, std::move(all)));
  return success();
}

// indices [size along `axis`, ones elsewhere], repeated to `shape`, and the entries of `data` along the axis that they
// name.
Value pickAlong(NodeContext &node, Value data, Value indices, ArrayRef<int64_t> shape, int64_t axis) {
  return node.emit<nn::GatherElementsOp>({data, node.broadcast(indices, shape)}, {node.intAttr("axis", axis)});
}

// A number per row of the batch, in a shape that broadcasts to tensors of `rank`.
Value perRow(NodeContext &node, Value numbers, size_t rank, int64_t batchAxis) {
  if (!numbers || nn::shapeOf(numbers).size() != 1) {
    if (numbers)
      (void)node.fail("needs one number for each row of the batch");
    return {};
  }
  SmallVector<int64_t> shape(rank, 1);
  shape[static_cast<size_t>(batchAxis)] = nn::shapeOf(numbers)[0];
  return node.cast(node.reshape(numbers, shape), node.builder.getI64Type());
}

// The first `length` entries of each row backwards: t becomes length - 1 - t.
LogicalResult reverseSequence(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  SmallVector<int64_t> shape(nn::shapeOf(value)), line(shape.size(), 1);
  auto rank = static_cast<int64_t>(shape.size());
  auto time = node.axis("time_axis", 0, rank), batch = node.axis("batch_axis", 1, rank);
  if (!time || !batch || *time == *batch)
    return node.fail("needs a time axis and another one for the batch");
  Value lengths = perRow(node, node.input(1), shape.size(), *batch);
  line[static_cast<size_t>(*time)] = shape[static_cast<size_t>(*time)];
  Value place = node.iota(line, node.builder.getI64Type(), *time, 0, 1);
  if (!lengths || !place)
    return failure();
  Value turned = node.sub(node.sub(lengths, node.scalar(lengths, 1)), place);
  Value from = node.emit<nn::SelectOp>({node.compare(place, lengths, "lt"), turned, place});
  return node.result(pickAlong(node, value, from, shape, *time));
}

// The update written into the cache from an index of each row on; `circular` goes on at the start.
LogicalResult tensorScatter(NodeContext &node) {
  Value past = node.input(0), update = node.input(1);
  if (!past || !update)
    return failure();
  SmallVector<int64_t> shape(nn::shapeOf(past)), line(shape.size(), 1);
  auto axis = node.axis("axis", -2, static_cast<int64_t>(shape.size()));
  if (!axis || *axis == 0 || nn::shapeOf(update).size() != shape.size())
    return node.fail("its update must have the rank of the cache, and its axis must not be the batch's");
  int64_t size = shape[static_cast<size_t>(*axis)], added = nn::shapeOf(update)[static_cast<size_t>(*axis)];
  if (added < 1 || added > size)
    return node.fail("writes {} entries into a cache of {}", added, size);
  line[static_cast<size_t>(*axis)] = size;
  Value place = node.iota(line, node.builder.getI64Type(), *axis, 0, 1);
  if (node.has(2)) {
    Value start = perRow(node, node.input(2), shape.size(), 0);
    place = start ? node.sub(place, start) : start;
  }
  if (!place)
    return failure();
  if (node.attributes.text("mode", "linear") == "circular")
    place = node.emit<nn::ModOp>({place, node.scalar(place, static_cast<double>(size))});
  Value inside = node.emit<nn::AndOp>({node.compare(place, node.scalar(place, 0), "ge"),
                                       node.compare(place, node.scalar(place, static_cast<double>(added)), "lt")});
  Value from = node.emit<nn::SelectOp>({inside, place, node.scalar(place, 0)});
  return node.result(node.emit<nn::SelectOp>({inside, pickAlong(node, update, from, shape, *axis), past}));
}

// indices[..] against 0 .. depth - 1 along a new axis; negative indices count from the end.
LogicalResult oneHot(NodeContext &node) {
  Value ids = node.input(0), values = node.input(2);
  const HostTensor *depth = node.known(1);
  if (!ids || !values)
    return failure();
  if (!depth || depth->elements() != 1)
    return node.fail(
        "its depth must be one number that is known when compiling: export the model so that it follows from "
        "shapes or constants");
  int64_t count = depth->intAt(0);
  SmallVector<int64_t> shape(nn::shapeOf(ids)), classes(shape.size() + 1, 1);
  auto axis = node.axis("axis", -1, static_cast<int64_t>(classes.size()));
  if (!axis || count <= 0)
    return node.fail("its depth {} must be positive", count);
  shape.insert(shape.begin() + *axis, 1);
  classes[static_cast<size_t>(*axis)] = count;
  Type integer = getElementTypeOrSelf(ids);
  ids = node.reshape(ids, shape);
  Value fromEnd = node.add(ids, node.scalar(ids, static_cast<double>(count)));
  Value wrapped = node.emit<nn::SelectOp>({node.compare(ids, node.scalar(ids, 0), "lt"), fromEnd, ids});
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
  table.add("CumProd", cumProd);
  table.add("NonZero", nonZero); // what it selects is put back or summed
  table.add("ReverseSequence", reverseSequence);
  table.add("TensorScatter", tensorScatter);
  table.add("OneHot", oneHot);
  table.add("EyeLike", eyeLike);
  table.add("ArgMax", argExtreme<true>);
  table.add("ArgMin", argExtreme<false>);
}

} // namespace mt::onnx
