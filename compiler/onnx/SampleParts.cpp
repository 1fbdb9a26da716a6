#include "compiler/onnx/SampleParts.h"

using namespace mlir;

namespace mt::onnx {
namespace {

// The weight of a pixel, or nothing outside of the image.
Value weightWithin(NodeContext &node, Value place, Value weight, double last) {
  Value inside = node.emit<nn::AndOp>(
      {node.compare(place, node.scalar(place, 0), "ge"), node.compare(place, node.scalar(place, last), "le")});
  return node.emit<nn::SelectOp>({inside, weight ? weight : node.scalar(place, 1), node.scalar(place, 0)});
}

// c0 + x (c1 + x (c2 + x c3))
Value cubic(NodeContext &node, Value x, std::array<double, 4> c) {
  Value sum = node.mul(x, node.scalar(x, c[3]));
  for (size_t i = 2; i > 0; --i)
    sum = node.mul(node.add(sum, node.scalar(x, c[i])), x);
  return node.add(sum, node.scalar(x, c[0]));
}

} // namespace

Value exactly(NodeContext &node, Value like, double number) {
  return like ? node.iota({1}, getElementTypeOrSelf(like), 0, number, 0) : Value();
}

Value wholeBelow(NodeContext &node, Value value) {
  Value whole = node.cast(node.emit<nn::FloorOp>({value}), node.builder.getI64Type());
  return whole ? node.cast(whole, getElementTypeOrSelf(value)) : whole;
}

Value clipped(NodeContext &node, Value value, double low, double high) {
  value = node.emit<nn::MaximumOp>({value, node.scalar(value, low)});
  return node.emit<nn::MinimumOp>({value, node.scalar(value, high)});
}

PixelTaps tapsAt(NodeContext &node, ArrayRef<Value> places, ArrayRef<Value> weights, int64_t size, bool zeros) {
  PixelTaps taps{size, {}, {}};
  auto last = static_cast<double>(size - 1);
  for (auto [place, weight] : llvm::zip(places, weights)) {
    taps.places.push_back(node.cast(clipped(node, place, 0, last), node.builder.getI64Type()));
    taps.weights.push_back(zeros ? weightWithin(node, place, weight, last) : weight);
  }
  return taps;
}

PixelTaps linearTaps(NodeContext &node, Value coordinate, int64_t size, bool zeros) {
  Value low = wholeBelow(node, coordinate), rest = node.sub(coordinate, low), one = node.scalar(low, 1);
  return tapsAt(node, {low, node.add(low, one)}, {node.sub(one, rest), rest}, size, zeros);
}

PixelTaps cubicTaps(NodeContext &node, Value coordinate, int64_t size, bool zeros,
                    llvm::function_ref<Value(Value)> placed) {
  constexpr double a = -0.75;
  const std::array<double, 4> near{1, 0, -(a + 3), a + 2}, far{-4 * a, 8 * a, -5 * a, a}; // distances to 1, to 2
  Value low = wholeBelow(node, coordinate), rest = node.sub(coordinate, low);
  SmallVector<Value> places, weights;
  for (int tap = -1; tap <= 2; ++tap) {
    places.push_back(placed(node.add(low, node.scalar(low, tap))));
    Value distance = tap <= 0 ? node.sub(rest, node.scalar(rest, tap)) : node.sub(node.scalar(rest, tap), rest);
    weights.push_back(cubic(node, distance, tap == 0 || tap == 1 ? near : far));
  }
  return tapsAt(node, places, weights, size, zeros);
}

Value pixelsOf(NodeContext &node, Value image) {
  ArrayRef<int64_t> shape = nn::shapeOf(image);
  auto count = elementCount(Dims(shape.drop_front(2)));
  return node.transpose(node.reshape(image, {shape[0], shape[1], *count}), {0, 2, 1});
}

Value weightedPixels(NodeContext &node, Value pixels, ArrayRef<PixelTaps> dimensions) {
  SmallVector<std::pair<Value, Value>> taps{{}}; // places over all dimensions together, and weights
  for (const PixelTaps &dimension : dimensions) {
    SmallVector<std::pair<Value, Value>> next;
    for (auto [place, weight] : taps)
      for (auto [own, ownWeight] : llvm::zip(dimension.places, dimension.weights)) {
        Value outer = place ? node.mul(place, node.scalar(place, static_cast<double>(dimension.size))) : place;
        next.emplace_back(outer ? node.add(outer, own) : own, weight && ownWeight ? node.mul(weight, ownWeight)
                                                              : weight            ? weight
                                                                                  : ownWeight);
      }
    taps = std::move(next);
  }
  if (!pixels || !taps[0].first)
    return {};
  ArrayRef<int64_t> shape = nn::shapeOf(pixels);
  auto points = elementCount(Dims(nn::shapeOf(taps[0].first)));
  int64_t batch = shape[0], count = *points / batch, taken = static_cast<int64_t>(taps.size());
  auto together = [&](bool weights) {
    SmallVector<Value> parts;
    for (auto [place, weight] : taps)
      parts.push_back(node.reshape(weights ? weight : place, {batch, count, 1}));
    return node.reshape(node.concat(parts, 2), {batch, count, taken, 1});
  };
  Value picked = node.emit<nn::GatherNdOp>({pixels, together(false)}, {node.intAttr("batchDims", 1)});
  return taps[0].second ? node.mul(picked, node.cast(together(true), getElementTypeOrSelf(pixels))) : picked;
}

Value sampledPixels(NodeContext &node, Value pixels, ArrayRef<PixelTaps> dimensions) {
  return node.reduce(weightedPixels(node, pixels, dimensions), "sum", {2}, false);
}

} // namespace mt::onnx
