// Operators that pick elements: slices and splits by known bounds, gathers by known or computed indices.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ExportMetadata.h"
#include "compiler/onnx/IndexParts.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

// start + i * step of a list of indices along a dimension of `size`; none if they are no such progression or leave it.
std::optional<SliceBounds> progression(std::vector<int64_t> indices, int64_t size) {
  for (int64_t &index : indices) {
    index = index < 0 ? index + size : index;
    if (index < 0 || index >= size)
      return std::nullopt;
  }
  if (indices.empty())
    return std::nullopt;
  int64_t step = indices.size() > 1 ? indices[1] - indices[0] : 1;
  for (size_t i = 1; i < indices.size(); ++i)
    if (step == 0 || indices[i] - indices[i - 1] != step)
      return std::nullopt;
  return SliceBounds{indices[0], static_cast<int64_t>(indices.size()), step};
}

// A stored tensor of floats, as it is or widened.
bool isParameter(Value value) {
  auto cast = value ? value.getDefiningOp<nn::CastOp>() : nn::CastOp();
  Value stored = cast ? cast.getOperand() : value;
  return isa_and_nonnull<BlockArgument>(stored) && nn::isReal(stored);
}

LogicalResult slice(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  auto starts = node.has(1) ? node.integers(1, "starts") : node.attributes.integers("starts");
  auto ends = node.has(2) ? node.integers(2, "ends") : node.attributes.integers("ends");
  if (!starts || !ends)
    return node.fail("its starts and ends are missing");
  Dims axes(starts->size()), steps(starts->size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.has(3) || node.attributes.has("axes")) {
    auto given = node.axes(3, "axes", static_cast<int64_t>(shape.size()));
    if (!given)
      return failure();
    axes = *given;
  }
  if (node.has(4)) {
    auto given = node.integers(4, "steps");
    if (!given)
      return failure();
    steps = *given;
  }
  if (ends->size() != starts->size() || axes.size() != starts->size() || steps.size() != starts->size() ||
      axes.size() > shape.size())
    return node.fail("its starts, ends, axes and steps differ in number");
  SmallVector<int64_t> first(shape.size(), 0), sizes(shape), strides(shape.size(), 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] == 0)
      return node.fail("a step is zero");
    auto at = static_cast<size_t>(axes[i]);
    SliceBounds bounds = sliceBounds((*starts)[i], (*ends)[i], steps[i], shape[at]);
    first[at] = bounds.start;
    sizes[at] = bounds.count;
    strides[at] = bounds.step;
  }
  bool whole = ArrayRef<int64_t>(sizes) == shape && llvm::all_of(strides, [](int64_t step) { return step == 1; });
  if (whole)
    return node.result(value);
  return node.result(node.emit<nn::SliceOp>(
      {value}, {node.intsAttr("starts", first), node.intsAttr("sizes", sizes), node.intsAttr("strides", strides)}));
}

// Sizes of the parts of a split of a dimension of `size` into `count` parts, given or even.
std::optional<Dims> partSizes(NodeContext &node, int64_t size, size_t count) {
  Dims sizes;
  if (node.has(1)) {
    auto given = node.integers(1, "sizes");
    if (!given)
      return std::nullopt;
    sizes = *given;
  } else if (auto given = node.attributes.integers("split")) {
    sizes = *given;
  } else {
    auto parts = static_cast<int64_t>(count);
    int64_t each = (size + parts - 1) / parts;
    for (int64_t start = 0; sizes.size() < count; start += each)
      sizes.push_back(std::max<int64_t>(0, std::min(each, size - start)));
  }
  int64_t total = 0;
  for (int64_t part : sizes)
    total = part < 0 ? -1 : total + part;
  if (sizes.size() == count && total == size)
    return sizes;
  (void)node.fail("the sizes of its parts ({}) do not add up to {}", dimsText(sizes), size);
  return std::nullopt;
}

LogicalResult split(NodeContext &node) {
  if (node.has(1) && !node.known(1) && !node.given(1).isGuess)
    return splitByData(node);
  Value value = node.input(0);
  if (!value)
    return failure();
  auto axis = node.axis("axis", 0, static_cast<int64_t>(nn::shapeOf(value).size()));
  if (!axis)
    return failure();
  auto sizes = partSizes(node, nn::shapeOf(value)[static_cast<size_t>(*axis)], node.outputCount());
  if (!sizes)
    return failure();
  int64_t start = 0;
  for (size_t i = 0; i < sizes->size(); ++i) {
    Value part = node.slice(value, *axis, start, (*sizes)[i]);
    if (failed(node.result(i, part)))
      return failure();
    start += (*sizes)[i];
  }
  return success();
}

Value dropAxis(NodeContext &node, Value value, int64_t axis) {
  if (!value)
    return {};
  SmallVector<int64_t> shape(nn::shapeOf(value));
  shape.erase(shape.begin() + axis);
  return node.reshape(value, shape);
}

// The same rows, through which each looked-up row gets its gradient divided by how often it is looked up.
Value scaledByFrequency(NodeContext &node, Value table, Value ids, Value rows) {
  SmallVector<int64_t> shape(nn::shapeOf(ids));
  const int64_t count = productOf(shape);
  Value like = node.cast(rows, node.builder.getF32Type()), one = node.scalar(like, 1), zero = node.scalar(like, 0);
  Value flat = node.reshape(ids, {count});
  Value counts =
      node.emit<nn::ScatterOp>({node.broadcast(zero, {nn::shapeOf(table)[0]}), flat, node.broadcast(one, {count})},
                               {node.intAttr("axis", 0), node.textAttr("kind", "add")});
  shape.push_back(1);
  Value times = node.reshape(node.emit<nn::GatherOp>({counts, flat}, {node.intAttr("axis", 0)}), shape);
  Value still = node.emit<nn::DetachOp>({rows}), change = node.sub(rows, still); // 0
  return node.add(still, node.div(change, node.cast(times, getElementTypeOrSelf(rows))));
}

LogicalResult embedding(NodeContext &node, Value table, Value ids) {
  std::optional<int64_t> padding = paddingOf(node.node);
  const bool pads = padding && *padding >= 0 && *padding < nn::shapeOf(table)[0];
  Value rows = pads ? node.emit<nn::EmbeddingOp>({table, ids}, {node.intAttr("padding", *padding)})
                    : node.emit<nn::EmbeddingOp>({table, ids});
  return node.result(rows && isScaledByFrequency(node.node) ? scaledByFrequency(node, table, ids, rows) : rows);
}

// Rows looked up at known indices: no gradient goes to the row of padding.
LogicalResult withoutPadding(NodeContext &node, Value rows, const HostTensor &ids) {
  const bool isTable =
      node.input(0) && nn::shapeOf(node.input(0)).size() == 2 && node.attributes.integer("axis", 0) == 0;
  std::optional<int64_t> padding = isTable ? paddingOf(node.node) : std::nullopt;
  std::vector<int64_t> known = ids.toIntegers();
  auto pads = static_cast<size_t>(padding ? llvm::count(known, *padding) : 0);
  if (pads == 0 || !rows || !nn::isReal(rows))
    return node.result(rows);
  Value kept = node.emit<nn::DetachOp>({rows});
  if (pads == known.size())
    return node.result(kept);
  std::vector<int64_t> shape(ids.dims().begin(), ids.dims().end());
  shape.push_back(1);
  Value numbers = node.constant(HostTensor::ofIntegers(DType::i64, Dims(shape.begin(), shape.end()), std::move(known)));
  return node.result(node.emit<nn::SelectOp>(
      {node.compare(numbers, node.scalar(numbers, static_cast<double>(*padding)), "eq"), kept, rows}));
}

// Known indices in a row are a slice; rows of a parameter are an embedding; the rest is a gather.
LogicalResult gather(NodeContext &node) {
  Value data = node.input(0);
  if (!data || !node.has(1))
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(data);
  auto axis = node.axis("axis", 0, static_cast<int64_t>(shape.size()));
  if (!axis)
    return failure();
  const HostTensor *known = node.known(1);
  if (known && known->rank() <= 1 && known->elements() <= kEvaluateInput) {
    if (auto bounds = progression(known->toIntegers(), shape[static_cast<size_t>(*axis)])) {
      Value part = node.slice(data, *axis, bounds->start, bounds->count, bounds->step);
      return withoutPadding(node, known->rank() == 0 ? dropAxis(node, part, *axis) : part, *known);
    }
  }
  Value ids = indicesOf(node, 1);
  if (!ids)
    return failure();
  if (*axis == 0 && shape.size() == 2 && isParameter(data) && !known)
    return embedding(node, data, ids);
  Value rows = node.emit<nn::GatherOp>({data, ids}, {node.intAttr("axis", *axis)});
  return known && known->elements() <= nn::kConstantLimit ? withoutPadding(node, rows, *known) : node.result(rows);
}

// The entries along the axis, or of all in a row, whose conditions are known to hold.
LogicalResult compress(NodeContext &node) {
  Value data = node.input(0);
  auto conditions = node.integers(1, "conditions");
  if (!data || !conditions)
    return failure();
  std::optional<int64_t> axis = 0;
  if (node.attributes.has("axis"))
    axis = node.axis("axis", 0, static_cast<int64_t>(nn::shapeOf(data).size()));
  else
    data = node.reshape(data, {*elementCount(Dims(nn::shapeOf(data)))});
  if (!axis || !data)
    return failure();
  std::vector<int64_t> kept;
  for (size_t i = 0; i < conditions->size(); ++i)
    if ((*conditions)[i])
      kept.push_back(static_cast<int64_t>(i));
  if (!kept.empty() && kept.back() >= nn::shapeOf(data)[static_cast<size_t>(*axis)])
    return node.fail("has more conditions than the {} entries of dimension {}",
                     nn::shapeOf(data)[static_cast<size_t>(*axis)], *axis);
  if (kept.empty())
    return node.result(node.slice(data, *axis, 0, 0));
  return node.result(
      node.emit<nn::GatherOp>({data, node.constant(HostTensor::integers(kept))}, {node.intAttr("axis", *axis)}));
}

LogicalResult gatherNd(NodeContext &node) {
  return node.result(node.emit<nn::GatherNdOp>({node.input(0), indicesOf(node, 1)},
                                               {node.intAttr("batchDims", node.attributes.integer("batch_dims", 0))}));
}

LogicalResult gatherElements(NodeContext &node) {
  Value data = node.input(0);
  if (!data)
    return failure();
  auto axis = node.axis("axis", 0, static_cast<int64_t>(nn::shapeOf(data).size()));
  if (!axis)
    return failure();
  return node.result(node.emit<nn::GatherElementsOp>({data, indicesOf(node, 1)}, {node.intAttr("axis", *axis)}));
}

} // namespace

Value indicesOf(NodeContext &node, size_t index) {
  Value value = node.input(index);
  if (!value)
    return {};
  Type type = getElementTypeOrSelf(value);
  if (!type.isSignlessInteger() || type.getIntOrFloatBitWidth() < 8) {
    (void)node.fail("its indices must be integers");
    return {};
  }
  return type.getIntOrFloatBitWidth() < 32 ? node.cast(value, node.builder.getI64Type()) : value;
}

Value pickedAt(NodeContext &node, Value value, int64_t axis, const std::vector<int64_t> &indices) {
  if (!value)
    return {};
  if (auto bounds = progression(indices, nn::shapeOf(value)[static_cast<size_t>(axis)]))
    return node.slice(value, axis, bounds->start, bounds->count, bounds->step);
  Value places = node.constant(HostTensor::integers(indices));
  return node.emit<nn::GatherOp>({value, places}, {node.intAttr("axis", axis)});
}

void addIndexing(Converters &table) {
  table.add("Slice", slice);
  table.add("Split", split);
  table.add("Compress", compress); // known conditions
  table.add("Gather", gather);
  table.add("GatherND", gatherNd);
  table.add("GatherElements", gatherElements);
}

} // namespace mt::onnx
