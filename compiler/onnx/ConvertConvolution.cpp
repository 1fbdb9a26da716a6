// Convolution as a matrix product: the pixels that each place of the kernel sees are slices, joined along the channels
// (im2col: Chellapilla, Puri, Simard 2006), times the kernel as a matrix.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr int64_t kPlaces = 1024; ///< of a kernel; each becomes a slice
constexpr int64_t kLargest = int64_t(1) << 31; ///< stride, dilation or pad: sums of them fit 64 bits

struct Window {
  Dims kernel, strides, dilations, low, high, outputs;
  int64_t places() const { return std::accumulate(kernel.begin(), kernel.end(), int64_t(1), std::multiplies<>()); }
};

// Padding that keeps ceil(size / stride) outputs, the odd one at the end (SAME_UPPER) or the start (SAME_LOWER).
void padSame(Window &window, size_t d, int64_t size, bool upper) {
  int64_t outputs = (size + window.strides[d] - 1) / window.strides[d];
  int64_t span = (window.kernel[d] - 1) * window.dilations[d] + 1;
  int64_t total = std::max<int64_t>(0, (outputs - 1) * window.strides[d] + span - size);
  window.low[d] = upper ? total / 2 : total - total / 2;
  window.high[d] = total - window.low[d];
}

std::optional<Window> windowOf(NodeContext &node, ArrayRef<int64_t> image, ArrayRef<int64_t> kernel) {
  size_t rank = kernel.size();
  Window window;
  window.kernel.assign(kernel.begin(), kernel.end());
  window.strides = node.attributes.integers("strides").value_or(Dims(rank, 1));
  window.dilations = node.attributes.integers("dilations").value_or(Dims(rank, 1));
  Dims pads = node.attributes.integers("pads").value_or(Dims(2 * rank, 0));
  std::string automatic = node.attributes.text("auto_pad", "NOTSET");
  if (window.strides.size() != rank || window.dilations.size() != rank || pads.size() != 2 * rank ||
      window.places() > kPlaces || window.places() < 1) {
    (void)node.fail("its kernel, strides, dilations and pads do not fit together");
    return std::nullopt;
  }
  window.low.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  window.high.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  for (size_t d = 0; d < rank; ++d) {
    auto isOutside = [](int64_t value, int64_t least) { return value < least || value > kLargest; };
    if (isOutside(window.strides[d], 1) || isOutside(window.dilations[d], 1) || isOutside(window.low[d], 0) ||
        isOutside(window.high[d], 0)) {
      (void)node.fail("its strides and dilations must be positive, its pads not negative, and none above {}", kLargest);
      return std::nullopt;
    }
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
      padSame(window, d, image[d], automatic == "SAME_UPPER");
    int64_t span = (window.kernel[d] - 1) * window.dilations[d] + 1;
    int64_t room = image[d] + window.low[d] + window.high[d] - span;
    if (room < 0) {
      (void)node.fail("its kernel is larger than the padded image");
      return std::nullopt;
    }
    window.outputs.push_back(room / window.strides[d] + 1);
  }
  return window;
}

Value padded(NodeContext &node, Value image, const Window &window) {
  if (llvm::all_of(window.low, [](int64_t n) { return n == 0; }) &&
      llvm::all_of(window.high, [](int64_t n) { return n == 0; }))
    return image;
  SmallVector<int64_t> low{0, 0}, high{0, 0}, interior(window.low.size() + 2, 0);
  low.append(window.low.begin(), window.low.end());
  high.append(window.high.begin(), window.high.end());
  return node.emit<nn::PadOp>({image}, {node.intsAttr("low", low), node.intsAttr("high", high),
                                        node.intsAttr("interior", interior), node.realAttr("value", 0)});
}

// What place `place` of the kernel sees: [N, C, outputs..].
Value seenFrom(NodeContext &node, Value image, const Window &window, int64_t place) {
  ArrayRef<int64_t> shape = nn::shapeOf(image);
  SmallVector<int64_t> starts{0, 0}, sizes{shape[0], shape[1]}, strides{1, 1};
  SmallVector<int64_t> offsets(window.kernel.size());
  for (size_t d = window.kernel.size(); d-- > 0; place /= window.kernel[d])
    offsets[d] = place % window.kernel[d] * window.dilations[d];
  starts.append(offsets);
  sizes.append(window.outputs.begin(), window.outputs.end());
  strides.append(window.strides.begin(), window.strides.end());
  return node.emit<nn::SliceOp>(
      {image}, {node.intsAttr("starts", starts), node.intsAttr("sizes", sizes), node.intsAttr("strides", strides)});
}

// Windows that neither overlap nor leave gaps are a reshape: [N, C, h, k, w, k] to [N, h w, C k k].
Value patches(NodeContext &node, Value image, const Window &window) {
  ArrayRef<int64_t> shape = nn::shapeOf(image);
  SmallVector<int64_t> fine{shape[0], shape[1]}, order{0};
  size_t rank = window.kernel.size();
  int64_t places = 1;
  for (size_t d = 0; d < rank; ++d) {
    image = node.slice(image, static_cast<int64_t>(d) + 2, 0, window.outputs[d] * window.kernel[d]);
    fine.append({window.outputs[d], window.kernel[d]});
    order.push_back(static_cast<int64_t>(2 + 2 * d));
    places *= window.outputs[d];
  }
  order.push_back(1);
  for (size_t d = 0; d < rank; ++d)
    order.push_back(static_cast<int64_t>(3 + 2 * d));
  Value moved = node.transpose(node.reshape(image, fine), order);
  return node.reshape(moved, {fine[0], places, fine[1] * window.places()});
}

// [N, outputs, C * places], channels before places, as the kernel has them.
Value columns(NodeContext &node, Value image, const Window &window) {
  SmallVector<Value> parts;
  int64_t outputs = std::accumulate(window.outputs.begin(), window.outputs.end(), int64_t(1), std::multiplies<>());
  int64_t batch = nn::shapeOf(image)[0], channels = nn::shapeOf(image)[1];
  for (int64_t place = 0; place < window.places(); ++place)
    parts.push_back(node.reshape(seenFrom(node, image, window, place), {batch, channels, 1, outputs}));
  Value joined = node.reshape(node.concat(parts, 2), {batch, channels * window.places(), outputs});
  return node.transpose(joined, {0, 2, 1});
}

LogicalResult convolution(NodeContext &node) {
  Value image = node.input(0), kernel = node.input(1);
  if (!image || !kernel)
    return failure();
  ArrayRef<int64_t> pixels = nn::shapeOf(image), weights = nn::shapeOf(kernel);
  if (node.attributes.integer("group", 1) != 1)
    return node.fail("grouped convolutions are not supported");
  if (pixels.size() < 3 || weights.size() != pixels.size() || weights[1] != pixels[1])
    return node.fail("its kernel of shape {} does not fit the image of shape {}", dimsText(Dims(weights)),
                     dimsText(Dims(pixels)));
  auto window = windowOf(node, pixels.drop_front(2), weights.drop_front(2));
  if (!window)
    return failure();
  image = padded(node, image, *window);
  if (!image)
    return failure();
  bool apart = window->strides == window->kernel && llvm::all_of(window->dilations, [](int64_t n) { return n == 1; });
  Value seen = apart ? patches(node, image, *window) : columns(node, image, *window);
  Value matrix = node.reshape(kernel, {weights[0], weights[1] * window->places()});
  Value bias = node.has(2) ? node.input(2) : Value();
  Value product = plainMatmul(node, seen, matrix, bias, false, true);
  SmallVector<int64_t> result{pixels[0], weights[0]};
  result.append(window->outputs.begin(), window->outputs.end());
  return node.result(node.reshape(node.transpose(product, {0, 2, 1}), result));
}

} // namespace

void addConvolution(Converters &table) {
  table.add("Conv", convolution); // one group
}

} // namespace mt::onnx
