// Pools: over windows, and over whole images.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/WindowParts.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

Value pooled(NodeContext &node, Value value, StringRef kind, const Window &window) {
  auto attributes = window.attributes(node);
  return node.emit<nn::PoolOp>({value}, {node.textAttr("kind", kind), node.intsAttr("size", window.size), attributes[0],
                                         attributes[1], attributes[2], attributes[3]});
}

// Where the last window may reach beyond, so may the only one: of an image without pads it sees all.
void shrink(NodeContext &node, ArrayRef<int64_t> image, Dims &size) {
  std::optional<Window> window = node.attributes.integer("ceil_mode", 0) ? writtenWindow(node, size) : std::nullopt;
  for (size_t d = 0; window && !window->isPadded() && d < size.size(); ++d)
    if (window->dilations[d] == 1 && image[d] < size[d] && size[d] - image[d] < window->strides[d])
      size[d] = image[d];
}

std::optional<Window> poolWindow(NodeContext &node, Value value) {
  auto size = node.attributes.integers("kernel_shape");
  if (!value)
    return std::nullopt;
  ArrayRef<int64_t> image = nn::shapeOf(value);
  if (!size || image.size() != size->size() + 2) {
    (void)node.fail("its kernel_shape does not fit an image of shape {}", dimsText(Dims(image)));
    return std::nullopt;
  }
  shrink(node, image.drop_front(2), *size);
  return windowOf(node, image.drop_front(2), *size);
}

LogicalResult maxPool(NodeContext &node) {
  Value value = node.input(0);
  auto window = poolWindow(node, value);
  if (!window)
    return failure();
  if (node.wantsOutput(1))
    return node.fail("its second output, the places of the largest elements, is not supported");
  Type element = getElementTypeOrSelf(value);
  if (isa<FloatType>(element))
    return node.result(pooled(node, value, "max", *window));
  if (element.getIntOrFloatBitWidth() > 16)
    return node.fail("pools whole numbers of more than 16 bits, which the reals it computes with do not hold");
  Value largest = pooled(node, node.cast(value, node.builder.getF32Type()), "max", *window);
  return node.result(largest ? node.cast(largest, element) : largest);
}

// Where padding counts, it is part of the image; what a rounded-up size reaches beyond it never counts.
LogicalResult averagePool(NodeContext &node) {
  Value value = node.input(0);
  auto window = poolWindow(node, value);
  if (!window)
    return failure();
  if (node.attributes.integer("count_include_pad", 0) && window->isPadded()) {
    Dims high = window->high;
    for (size_t d = 0; d < high.size(); ++d)
      high[d] -= window->beyond[d];
    value = padded(node, value, window->low, high);
    window->low.assign(window->low.size(), 0);
    window->high = window->beyond;
  }
  return node.result(pooled(node, value, "mean", *window));
}

// The p-th root of a sum of p-th powers of magnitudes.
template <typename Sum> Value lpNorm(NodeContext &node, Value value, Sum sum) {
  double p = static_cast<double>(node.attributes.integer("p", 2));
  Value magnitude = node.emit<nn::AbsOp>({value});
  if (p == 1)
    return sum(magnitude);
  if (p == 2)
    return node.emit<nn::SqrtOp>({sum(node.mul(value, value))});
  Value powers = node.emit<nn::PowOp>({magnitude, node.scalar(value, p)});
  return node.emit<nn::PowOp>({sum(powers), node.scalar(value, 1 / p)});
}

LogicalResult lpPool(NodeContext &node) {
  Value value = node.input(0);
  auto window = poolWindow(node, value);
  if (!window)
    return failure();
  return node.result(lpNorm(node, value, [&](Value powers) { return pooled(node, powers, "sum", *window); }));
}

// Over everything behind batch and channels.
Value overImage(NodeContext &node, Value value, StringRef kind) {
  if (!value)
    return {};
  Dims axes(nn::shapeOf(value).size() - std::min<size_t>(2, nn::shapeOf(value).size()));
  std::iota(axes.begin(), axes.end(), 2);
  return axes.empty() ? value : node.reduce(value, kind, axes, true);
}
LogicalResult globalAveragePool(NodeContext &node) { return node.result(overImage(node, node.input(0), "mean")); }
LogicalResult globalMaxPool(NodeContext &node) { return node.result(overImage(node, node.input(0), "max")); }
LogicalResult globalLpPool(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  return node.result(lpNorm(node, value, [&](Value powers) { return overImage(node, powers, "sum"); }));
}

} // namespace

void addPooling(Converters &table) {
  table.add("MaxPool", maxPool); // without places
  table.add("AveragePool", averagePool);
  table.add("LpPool", lpPool);
  table.add("GlobalAveragePool", globalAveragePool);
  table.add("GlobalMaxPool", globalMaxPool);
  table.add("GlobalLpPool", globalLpPool);
}

} // namespace mt::onnx
