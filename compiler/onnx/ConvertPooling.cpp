// Pools: over windows, and over whole images.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/IndexParts.h"
#include "compiler/onnx/WindowParts.h"

#include <cmath>
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

//===-- the largest, and back to where it was -------------------------------------------------------------------===//

// How far apart neighbours along each dimension of an image are; the last dimension is the closest, or the first.
Dims distancesOf(ArrayRef<int64_t> image, bool firstIsClosest) {
  Dims distances(image.size());
  int64_t distance = 1;
  for (size_t i = 0; i < image.size(); ++i) {
    size_t d = firstIsClosest ? i : image.size() - 1 - i;
    distances[d] = std::exchange(distance, distance * image[d]);
  }
  return distances;
}

// `start` + `step` times the place along dimension `d`, for tensors of shape `like`.
Value counted(NodeContext &node, ArrayRef<int64_t> like, size_t d, int64_t start, int64_t step) {
  SmallVector<int64_t> shape(like.size(), 1);
  shape[d] = like[d];
  return node.iota(shape, node.builder.getI64Type(), static_cast<int64_t>(d), static_cast<double>(start),
                   static_cast<double>(step));
}

// For each place of the window, last to first: where its element is the largest, its distance from the window's start.
Value distancesToLargest(NodeContext &node, Value value, Value largest, const Window &window, const Dims &distances) {
  SmallVector<int64_t> low{0, 0}, high{0, 0}, interior(window.size.size() + 2, 0);
  low.append(window.low.begin(), window.low.end());
  high.append(window.high.begin(), window.high.end());
  if (window.isPadded())
    value = node.emit<nn::PadOp>({value}, {node.intsAttr("low", low), node.intsAttr("high", high),
                                           node.intsAttr("interior", interior), node.realAttr("value", -INFINITY)});
  Value found;
  for (int64_t place = window.places() - 1; place >= 0; --place) {
    Value part = value;
    int64_t rest = place, distance = 0;
    for (size_t d = window.size.size(); d-- > 0; rest /= window.size[d]) {
      int64_t offset = rest % window.size[d] * window.dilations[d];
      distance += offset * distances[d];
      part = node.slice(part, static_cast<int64_t>(d) + 2, offset, window.outputs[d], window.strides[d]);
    }
    Value own = node.constant(HostTensor::integers({distance}));
    found = found ? node.emit<nn::SelectOp>({node.compare(part, largest, "eq"), own, found}) : own;
  }
  return found;
}

// Where the largest element of each window stands, the first of equal ones, counted over the whole tensor: within its
// image, and from where that starts.
Value placesOfLargest(NodeContext &node, Value value, Value largest, const Window &window) {
  constexpr int64_t kPlaces = 1024;            // each becomes a slice and a choice
  constexpr int64_t kImage = int64_t(1) << 28; // times a stride, a dilation or pads it fits 64 bits
  if (!largest)
    return {};
  ArrayRef<int64_t> shape = nn::shapeOf(value), result = nn::shapeOf(largest), image = shape.drop_front(2);
  if (window.places() > kPlaces || *elementCount(Dims(image)) > kImage) {
    (void)node.fail("names places in windows of {} elements of images of {}; up to {} and {} are supported",
                    window.places(), *elementCount(Dims(image)), kPlaces, kImage);
    return {};
  }
  Dims distances = distancesOf(image, node.attributes.integer("storage_order", 0) != 0);
  int64_t size = *elementCount(Dims(image));
  Value place = distancesToLargest(node, value, largest, window, distances);
  for (size_t d = 0; d < image.size(); ++d)
    place =
        node.add(place, counted(node, result, d + 2, -window.low[d] * distances[d], window.strides[d] * distances[d]));
  place = node.emit<nn::MaximumOp>({place, node.scalar(place, 0)}); // where all are infinite, or none is a number
  place = node.emit<nn::MinimumOp>({place, node.scalar(place, static_cast<double>(size - 1))});
  Value start = node.add(counted(node, result, 0, 0, shape[1] * size), counted(node, result, 1, 0, size));
  return node.add(place, start);
}

LogicalResult maxPool(NodeContext &node) {
  Value value = node.input(0);
  auto window = poolWindow(node, value);
  if (!window)
    return failure();
  Type element = getElementTypeOrSelf(value);
  if (!isa<FloatType>(element) && element.getIntOrFloatBitWidth() > 16)
    return node.fail("pools whole numbers of more than 16 bits, which the reals it computes with do not hold");
  if (!isa<FloatType>(element))
    value = node.cast(value, node.builder.getF32Type());
  Value largest = pooled(node, value, "max", *window);
  if (node.wantsOutput(1) && failed(node.result(1, placesOfLargest(node, value, largest, *window))))
    return failure();
  return node.result(largest ? node.cast(largest, element) : largest);
}

// What a MaxPool with this window was given, or with a known shape a larger image with that in its corner.
std::optional<Dims> unpooledShape(NodeContext &node, ArrayRef<int64_t> pooledShape) {
  auto size = node.attributes.integers("kernel_shape");
  auto window = size && size->size() + 2 == pooledShape.size() ? writtenWindow(node, *size) : std::nullopt;
  if (!window) {
    (void)node.fail("its kernel_shape does not fit an image of shape {}", dimsText(Dims(pooledShape)));
    return std::nullopt;
  }
  Dims shape(pooledShape);
  constexpr int64_t kLongest = int64_t(1) << 31; // times a stride it fits 64 bits
  for (size_t d = 0; d < size->size(); ++d)
    shape[d + 2] = shape[d + 2] > kLongest
                       ? -1
                       : (shape[d + 2] - 1) * window->strides[d] - window->low[d] - window->high[d] + window->size[d];
  if (elementCount(shape).value_or(0) > 0)
    return shape;
  (void)node.fail("makes an image of shape {}", dimsText(shape));
  return std::nullopt;
}

// Zeros, but what was the largest of each window where it was.
LogicalResult maxUnpool(NodeContext &node) {
  Value value = node.input(0), places = indicesOf(node, 1);
  if (!value || !places)
    return failure();
  Dims given(nn::shapeOf(value));
  if (Dims(nn::shapeOf(places)) != given || !nn::isReal(value))
    return node.fail("takes reals and a place for each of them; it has those of shape {} for shape {}",
                     dimsText(Dims(nn::shapeOf(places))), dimsText(given));
  auto shape = unpooledShape(node, given);
  auto wanted = node.has(2) ? node.integers(2, "output shape") : shape;
  if (!shape || !wanted)
    return failure();
  SmallVector<int64_t> high;
  for (size_t d = 0; d < wanted->size() && wanted->size() == shape->size(); ++d)
    high.push_back((*wanted)[d] - (*shape)[d]);
  if (high.size() != shape->size() || llvm::any_of(high, [](int64_t n) { return n < 0; }))
    return node.fail("its output shape {} does not hold an image of shape {}", dimsText(*wanted), dimsText(*shape));
  int64_t elements = *elementCount(*shape), count = *elementCount(given);
  Value zeros = node.constant(HostTensor::splat(dtypeOf(getElementTypeOrSelf(value)), {elements}, 0));
  Value whole = node.emit<nn::ScatterOp>({zeros, node.reshape(places, {count}), node.reshape(value, {count})},
                                         {node.intAttr("axis", 0), node.textAttr("kind", "none")});
  SmallVector<int64_t> none(high.size(), 0);
  whole = node.reshape(whole, *shape);
  if (*wanted == *shape)
    return node.result(whole);
  return node.result(node.emit<nn::PadOp>({whole}, {node.intsAttr("low", none), node.intsAttr("high", high),
                                                    node.intsAttr("interior", none), node.realAttr("value", 0)}));
}

//===-- means, norms, whole images ------------------------------------------------------------------------------===//

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
  table.add("MaxPool", maxPool);
  table.add("MaxUnpool", maxUnpool);
  table.add("AveragePool", averagePool);
  table.add("LpPool", lpPool);
  table.add("GlobalAveragePool", globalAveragePool);
  table.add("GlobalMaxPool", globalMaxPool);
  table.add("GlobalLpPool", globalLpPool);
}

} // namespace mt::onnx
