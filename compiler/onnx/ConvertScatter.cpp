// Operators that put elements at computed places, and the one that finds the largest.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ExportMetadata.h"
#include "compiler/onnx/IndexParts.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

std::optional<std::string> reductionOf(NodeContext &node) {
  std::string kind = node.attributes.text("reduction", "none");
  if (kind == "none" || kind == "add" || kind == "mul" || kind == "max" || kind == "min")
    return kind;
  (void)node.fail("its reduction '{}' is none of none, add, mul, max, min", kind);
  return std::nullopt;
}

LogicalResult scatterElements(NodeContext &node) {
  Value data = node.input(0), places = indicesOf(node, 1), updates = node.input(2);
  auto kind = reductionOf(node);
  if (!data || !places || !updates || !kind)
    return failure();
  auto axis = node.axis("axis", 0, static_cast<int64_t>(nn::shapeOf(data).size()));
  if (!axis)
    return failure();
  auto scattered = [&](Value into, Value what, StringRef how) {
    return node.emit<nn::ScatterElementsOp>({into, places, what},
                                            {node.intAttr("axis", *axis), node.textAttr("kind", how)});
  };
  std::optional<bool> self = countsSelf(node.node);
  if (!self || *kind != "none" || !nn::isReal(data))
    return node.result(scattered(data, updates, *kind));
  // Means: what is not to count was set to zero before.
  Value one = node.scalar(node.cast(updates, node.builder.getF32Type()), 1);
  Value counts = scattered(node.broadcast(*self ? one : node.scalar(one, 0), nn::shapeOf(data)),
                           node.broadcast(one, nn::shapeOf(updates)), "add");
  counts = node.cast(node.emit<nn::MaximumOp>({counts, one}), getElementTypeOrSelf(data));
  return node.result(node.div(scattered(data, updates, "add"), counts));
}

// Of tuples [.., depth] that name entries of `sizes` the place counted over all of these dimensions together.
Value flatPlaces(NodeContext &node, Value tuples, ArrayRef<int64_t> sizes) {
  Type integer = node.builder.getI64Type();
  int64_t last = static_cast<int64_t>(nn::shapeOf(tuples).size()) - 1;
  Value flat;
  for (size_t d = 0; d < sizes.size(); ++d) {
    SmallVector<int64_t> prefix(nn::shapeOf(tuples).drop_back());
    Value index = node.reshape(node.slice(node.cast(tuples, integer), last, static_cast<int64_t>(d), 1), prefix);
    index =
        node.emit<nn::ModOp>({index, node.scalar(index, static_cast<double>(sizes[d]))}); // from the end where negative
    Value scaled = node.mul(index, node.scalar(index, static_cast<double>(productOf(sizes.drop_front(d + 1)))));
    flat = flat ? node.add(flat, scaled) : scaled;
  }
  return flat;
}

// Tuples of one number are indices along the first dimension; longer ones name places of several dimensions together.
LogicalResult scatterNd(NodeContext &node) {
  Value data = node.input(0), tuples = indicesOf(node, 1), updates = node.input(2);
  auto kind = reductionOf(node);
  if (!data || !tuples || !updates || !kind)
    return failure();
  SmallVector<int64_t> shape(nn::shapeOf(data)), prefix(nn::shapeOf(tuples));
  if (prefix.empty() || prefix.back() < 1 || prefix.back() > static_cast<int64_t>(shape.size()))
    return node.fail("its index tuples of shape {} do not fit data of shape {}",
                     dimsText(Dims(prefix.begin(), prefix.end())), dimsText(Dims(shape.begin(), shape.end())));
  auto depth = static_cast<size_t>(prefix.pop_back_val());
  ArrayRef<int64_t> leading = ArrayRef<int64_t>(shape).take_front(depth);
  int64_t outer = productOf(leading), inner = productOf(ArrayRef<int64_t>(shape).drop_front(depth)),
          count = productOf(prefix);
  if (count == 0) // puts nothing
    return node.result(data);
  Value places = node.reshape(flatPlaces(node, tuples, leading), {count});
  Value result =
      node.emit<nn::ScatterOp>({node.reshape(data, {outer, inner}), places, node.reshape(updates, {count, inner})},
                               {node.intAttr("axis", 0), node.textAttr("kind", *kind)});
  return node.result(node.reshape(result, shape));
}

// The places by their order, and the elements there. Along another dimension than the last through a transpose.
LogicalResult topK(NodeContext &node) {
  Value value = node.input(0);
  auto count = node.has(1) ? node.integers(1, "k") : std::optional<Dims>(Dims{node.attributes.integer("k", 0)});
  if (!value || !count || count->size() != 1)
    return failure();
  auto rank = static_cast<int64_t>(nn::shapeOf(value).size());
  auto axis = node.axis("axis", -1, rank);
  if (!axis)
    return failure();
  SmallVector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(*axis)], order.back());
  bool moved = *axis != rank - 1;
  auto turned = [&](Value turning) { return moved ? node.transpose(turning, order) : turning; };
  Value line = turned(value);
  Value places = node.emit<nn::TopKOp>(
      {line}, {node.intAttr("k", (*count)[0]), node.boolAttr("largest", node.attributes.integer("largest", 1))});
  if (node.wantsOutput(0) &&
      failed(node.result(0, turned(node.emit<nn::GatherElementsOp>({line, places}, {node.intAttr("axis", rank - 1)})))))
    return failure();
  return node.wantsOutput(1) ? node.result(1, turned(places)) : success();
}

} // namespace

void addScatter(Converters &table) {
  table.add("Scatter", scatterElements);
  table.add("ScatterElements", scatterElements);
  table.add("ScatterND", scatterNd);
  table.add("TopK", topK);
}

} // namespace mt::onnx
