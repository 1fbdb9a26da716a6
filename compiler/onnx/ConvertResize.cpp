// Resize and Upsample, one dimension after another: each result is a few weighted elements, picked by known places.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/IndexParts.h"
#include "compiler/onnx/ResizeTaps.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr int kMostTaps = 64;

// A vector of reals along dimension `axis` of a tensor like `like`.
Value alongAxis(NodeContext &node, Value like, int64_t axis, const std::vector<double> &values) {
  Value vector = node.constant(
      HostTensor::ofReals(dtypeOf(getElementTypeOrSelf(like)), {static_cast<int64_t>(values.size())}, values));
  SmallVector<int64_t> shape(nn::shapeOf(like).size(), 1);
  shape[static_cast<size_t>(axis)] = static_cast<int64_t>(values.size());
  return node.reshape(vector, shape);
}

Value resized(NodeContext &node, Value value, int64_t axis, const ResizeLine &line, double extrapolated) {
  if (mostTaps(line) > kMostTaps) {
    (void)node.fail("makes one element of dimension {} out of {}; up to {} are supported", axis, mostTaps(line),
                    kMostTaps);
    return {};
  }
  ResizeTaps taps = tapsOf(line);
  Value sum;
  for (size_t t = 0; t < taps.places.size(); ++t) {
    const std::vector<double> &weights = taps.weights[t];
    if (llvm::all_of(weights, [](double weight) { return weight == 0; }))
      continue;
    Value term = pickedAt(node, value, axis, taps.places[t]);
    if (!llvm::all_of(weights, [](double weight) { return weight == 1; }))
      term = node.mul(term, alongAxis(node, term, axis, weights));
    sum = sum ? node.add(sum, term) : term;
  }
  if (!llvm::is_contained(taps.outside, true))
    return sum;
  std::vector<double> fill;
  for (bool outside : taps.outside)
    fill.push_back(outside ? extrapolated : 0);
  return node.add(sum ? sum : node.mul(pickedAt(node, value, axis, taps.places[0]), node.scalar(value, 0)),
                  alongAxis(node, value, axis, fill));
}

struct Sizes {
  Dims axes, to;
  std::vector<double> scales;
};

// A size that the model only implies; one that is beyond all limits stays so.
int64_t sizeIn(double elements) {
  return elements >= 0 ? static_cast<int64_t>(std::min(std::floor(elements), 1.0 + nn::kConstantLimit)) : 0;
}

// Sizes that the aspect ratio leaves of those that are wanted.
void keepRatio(Sizes &sizes, ArrayRef<int64_t> shape, bool larger) {
  double common = larger ? 0 : INFINITY;
  for (double scale : sizes.scales)
    common = larger ? std::max(common, scale) : std::min(common, scale);
  for (size_t i = 0; i < sizes.axes.size(); ++i) {
    sizes.scales[i] = common;
    sizes.to[i] = sizeIn(common * static_cast<double>(shape[static_cast<size_t>(sizes.axes[i])]) + 0.5);
  }
}

std::optional<Sizes> sizesOf(NodeContext &node, ArrayRef<int64_t> shape, size_t scaleInput, size_t sizeInput) {
  Sizes sizes;
  sizes.axes.resize(shape.size());
  std::iota(sizes.axes.begin(), sizes.axes.end(), 0);
  if (auto axes = node.attributes.integers("axes"))
    sizes.axes = *axes;
  for (int64_t &axis : sizes.axes) {
    auto front = frontAxis(axis, static_cast<int64_t>(shape.size()));
    if (!front) {
      (void)node.fail("axis {} is out of range", axis);
      return std::nullopt;
    }
    axis = *front;
  }
  const HostTensor *scales = node.known(scaleInput);
  bool bySize = node.has(sizeInput);
  auto wanted = bySize ? node.integers(sizeInput, "sizes") : std::optional<Dims>(Dims());
  if (!wanted)
    return std::nullopt;
  if (bySize ? wanted->size() != sizes.axes.size()
             : !scales || scales->elements() != static_cast<int64_t>(sizes.axes.size())) {
    (void)node.fail("its sizes, or scales, must be known when compiling, one for each dimension that they are for");
    return std::nullopt;
  }
  for (size_t i = 0; i < sizes.axes.size(); ++i) {
    auto from = static_cast<double>(shape[static_cast<size_t>(sizes.axes[i])]);
    sizes.scales.push_back(bySize ? static_cast<double>((*wanted)[i]) / from : scales->realAt(static_cast<int64_t>(i)));
    sizes.to.push_back(bySize ? (*wanted)[i] : sizeIn(from * sizes.scales[i]));
  }
  std::string policy = node.attributes.text("keep_aspect_ratio_policy", "stretch");
  if (bySize && policy != "stretch")
    keepRatio(sizes, shape, policy == "not_smaller");
  return sizes;
}

bool isKnownMode(NodeContext &node, const ResizeLine &line) {
  bool known = (line.mode == "nearest" || line.mode == "linear" || line.mode == "cubic") &&
               llvm::is_contained({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                   "asymmetric", "tf_crop_and_resize"},
                                  line.transformation) &&
               llvm::is_contained({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}, line.nearest);
  if (!known)
    (void)node.fail("mode '{}' with '{}' and '{}' is not supported", line.mode, line.transformation, line.nearest);
  return known;
}

LogicalResult resizeTo(NodeContext &node, Value value, const Sizes &sizes, ResizeLine line, const HostTensor *regions) {
  auto count = static_cast<int64_t>(sizes.axes.size());
  for (int64_t i = 0; i < count; ++i) {
    auto at = static_cast<size_t>(i);
    line.from = nn::shapeOf(value)[static_cast<size_t>(sizes.axes[at])];
    line.to = sizes.to[at];
    line.scale = sizes.scales[at];
    if (line.to < 1 || line.to > nn::kConstantLimit || line.from < 1 || !(line.scale > 0))
      return node.fail("resizes dimension {} of {} elements to {}; 1 to {} are supported", sizes.axes[at], line.from,
                       line.to, nn::kConstantLimit);
    if (regions) {
      line.start = regions->realAt(i);
      line.end = regions->realAt(i + count);
    }
    if (line.from == line.to && line.scale == 1 && !regions)
      continue;
    value = resized(node, value, sizes.axes[at], line, node.attributes.real("extrapolation_value", 0));
    if (!value)
      return failure();
  }
  return node.result(value);
}

LogicalResult resize(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  ResizeLine line;
  line.mode = node.attributes.text("mode", "nearest");
  line.transformation = node.attributes.text("coordinate_transformation_mode", "half_pixel");
  line.nearest = node.attributes.text("nearest_mode", "round_prefer_floor");
  line.cubic = node.attributes.real("cubic_coeff_a", -0.75);
  line.excludesOutside = node.attributes.integer("exclude_outside", 0) != 0;
  line.antialias = node.attributes.integer("antialias", 0) != 0;
  auto sizes = isKnownMode(node, line) ? sizesOf(node, nn::shapeOf(value), 2, 3) : std::nullopt;
  if (!sizes)
    return failure();
  bool crops = line.transformation == "tf_crop_and_resize";
  const HostTensor *regions = crops ? node.known(1) : nullptr;
  if (crops && (!regions || regions->elements() != static_cast<int64_t>(2 * sizes->axes.size())))
    return node.fail("its regions must be known when compiling, two numbers for each dimension");
  return resizeTo(node, value, *sizes, line, regions);
}

// What Resize was called before it knew other ways than this one.
LogicalResult upsample(NodeContext &node) {
  Value value = node.input(0);
  ResizeLine line;
  line.mode = node.attributes.text("mode", "nearest");
  line.transformation = "asymmetric";
  line.nearest = "floor";
  auto sizes = value && isKnownMode(node, line) ? sizesOf(node, nn::shapeOf(value), 1, 99) : std::nullopt;
  return sizes ? resizeTo(node, value, *sizes, line, nullptr) : failure();
}

} // namespace

void addResize(Converters &table) {
  table.add("Resize", resize); // up to 64 elements make one
  table.add("Upsample", upsample);
}

} // namespace mt::onnx
