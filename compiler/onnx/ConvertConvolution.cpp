// Convolutions. Windows that neither overlap nor leave gaps, as vision transformers cut images into patches, are a
// reshape and a matrix product.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"
#include "compiler/onnx/WindowParts.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

/// Nothing is added where the bias is known to be zero: as PyTorch's exporter writes conv3d without one, in a shape that
/// fits no convolution.
bool hasBias(NodeContext &node) {
  const HostTensor *known = node.known(2);
  return node.has(2) && !(known && !node.isSymbolic(2) && known->isSplat() && known->realAt(0) == 0);
}

constexpr int64_t kLargestSize = int64_t(1) << 31; ///< of a dimension that is computed or asked for: sums fit 64 bits

bool isOne(int64_t n) { return n == 1; }
bool isSize(int64_t n) { return n >= 0 && n <= kLargestSize; }

// [N, C, h, k, w, k] to [N, h w, C k k].
Value patches(NodeContext &node, Value image, const Window &window) {
  ArrayRef<int64_t> shape = nn::shapeOf(image);
  SmallVector<int64_t> fine{shape[0], shape[1]}, order{0};
  size_t rank = window.size.size();
  int64_t places = 1;
  for (size_t d = 0; d < rank; ++d) {
    image = node.slice(image, static_cast<int64_t>(d) + 2, 0, window.outputs[d] * window.size[d]);
    fine.append({window.outputs[d], window.size[d]});
    order.push_back(static_cast<int64_t>(2 + 2 * d));
    places *= window.outputs[d];
  }
  order.push_back(1);
  for (size_t d = 0; d < rank; ++d)
    order.push_back(static_cast<int64_t>(3 + 2 * d));
  Value moved = node.transpose(node.reshape(image, fine), order);
  return node.reshape(moved, {fine[0], places, fine[1] * window.places()});
}

Value byPatches(NodeContext &node, Value image, Value kernel, Value bias, const Window &window) {
  ArrayRef<int64_t> pixels = nn::shapeOf(image), weights = nn::shapeOf(kernel);
  Value matrix = node.reshape(kernel, {weights[0], weights[1] * window.places()});
  Value product = plainMatmul(node, patches(node, image, window), matrix, bias, false, true);
  SmallVector<int64_t> result{pixels[0], weights[0]};
  result.append(window.outputs.begin(), window.outputs.end());
  return node.reshape(node.transpose(product, {0, 2, 1}), result);
}

LogicalResult convolution(NodeContext &node) {
  Value image = node.input(0), kernel = node.input(1);
  if (!image || !kernel)
    return failure();
  ArrayRef<int64_t> pixels = nn::shapeOf(image), weights = nn::shapeOf(kernel);
  int64_t groups = node.attributes.integer("group", 1);
  if (pixels.size() < 3 || weights.size() != pixels.size() || groups < 1 || weights[1] > pixels[1] / groups ||
      weights[1] * groups != pixels[1])
    return node.fail("its kernel of shape {} in {} groups does not fit the image of shape {}", dimsText(Dims(weights)),
                     groups, dimsText(Dims(pixels)));
  auto window = windowOf(node, pixels.drop_front(2), weights.drop_front(2));
  if (!window)
    return failure();
  Value bias = hasBias(node) ? node.input(2) : Value();
  const bool arePatches =
      groups == 1 && !window->isPadded() && window->strides == window->size && llvm::all_of(window->dilations, isOne);
  if (arePatches && window->places() > 1) // of one place, nothing would be gained by moving it
    return node.result(byPatches(node, image, kernel, bias, *window));
  auto attributes = window->attributes(node);
  return node.result(node.emit<nn::ConvOp>(
      {image, kernel, bias ? Operand(bias) : Operand::absent()},
      {attributes[0], attributes[1], attributes[2], attributes[3], node.intAttr("groups", groups)}));
}

//===-- transposed ------------------------------------------------------------------------------------------===//

// What is cut off, or with a negative sign added, before and behind the whole result of every dimension.
struct Cropped {
  Dims sizes, before, behind;
};

std::optional<Cropped> croppedTo(NodeContext &node, const Window &window, ArrayRef<int64_t> image) {
  size_t rank = image.size();
  std::string automatic = node.attributes.text("auto_pad", "NOTSET");
  auto more = node.attributes.integers("output_padding").value_or(Dims(rank, 0));
  auto wanted = node.attributes.integers("output_shape");
  if (wanted && wanted->size() == rank + 2) // older models write batch and channels too
    wanted->erase(wanted->begin(), wanted->begin() + 2);
  if (more.size() != rank || (wanted && wanted->size() != rank)) {
    (void)node.fail("its output_padding or output_shape has not one number for each of {} dimensions", rank);
    return std::nullopt;
  }
  if (!llvm::all_of(more, isSize) || (wanted && !llvm::all_of(*wanted, isSize)) || !llvm::all_of(image, isSize)) {
    (void)node.fail("its image, output_padding and output_shape must not be negative, nor above {}", kLargestSize);
    return std::nullopt;
  }
  if (!wanted && (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")) {
    wanted.emplace();
    for (size_t d = 0; d < rank; ++d)
      wanted->push_back(image[d] * window.strides[d]);
  }
  Cropped cropped;
  for (size_t d = 0; d < rank; ++d) {
    int64_t whole = (image[d] - 1) * window.strides[d] + (window.size[d] - 1) * window.dilations[d] + 1;
    bool padded = automatic == "NOTSET" && !wanted;
    int64_t total = wanted ? whole + more[d] - (*wanted)[d] : padded ? window.low[d] + window.high[d] : 0;
    int64_t half = total < 0 ? (total - 1) / 2 : total / 2; // what is added instead of cut lies behind
    int64_t low = padded ? window.low[d] : automatic == "SAME_UPPER" ? total / 2 : total - half;
    cropped.sizes.push_back(whole + more[d] - total);
    cropped.before.push_back(low);
    cropped.behind.push_back(total - low - more[d]);
    if (cropped.sizes.back() < 1) {
      (void)node.fail("its result has no elements in dimension {}", d + 2);
      return std::nullopt;
    }
  }
  return cropped;
}

// The gradient of a convolution's image from that of its result: where the convolution's pads lie, elements are left
// out.
Value spread(NodeContext &node, Value image, Value kernel, Window window, const Cropped &cropped, int64_t groups) {
  ArrayRef<int64_t> pixels = nn::shapeOf(image);
  size_t rank = window.size.size();
  Dims before(rank, 0), behind(rank, 0);
  SmallVector<int64_t> shape{pixels[0], nn::shapeOf(kernel)[1] * groups};
  for (size_t d = 0; d < rank; ++d) {
    // Elements beyond all windows are zeros that are put there; so many that windows would fit behind are, too.
    window.low[d] = std::max<int64_t>(cropped.before[d], 0);
    window.high[d] = std::max<int64_t>(cropped.behind[d], 0);
    before[d] = window.low[d] - cropped.before[d];
    behind[d] = window.high[d] - cropped.behind[d];
    shape.push_back(cropped.sizes[d] - before[d] - behind[d]);
  }
  auto attributes = window.attributes(node);
  attributes.push_back(node.intAttr("groups", groups));
  Value result =
      node.emitAs<nn::ConvDataGradOp>(nn::tensorOf(shape, getElementTypeOrSelf(image)), {image, kernel}, attributes);
  return result ? padded(node, result, before, behind) : Value();
}

LogicalResult transposedConvolution(NodeContext &node) {
  Value image = node.input(0), kernel = node.input(1);
  if (!image || !kernel)
    return failure();
  ArrayRef<int64_t> pixels = nn::shapeOf(image), weights = nn::shapeOf(kernel);
  int64_t groups = node.attributes.integer("group", 1);
  if (pixels.size() < 3 || weights.size() != pixels.size() || groups < 1 || weights[0] != pixels[1] ||
      weights[0] % groups != 0)
    return node.fail("its kernel of shape {} in {} groups does not fit the image of shape {}", dimsText(Dims(weights)),
                     groups, dimsText(Dims(pixels)));
  if (getElementTypeOrSelf(image) != getElementTypeOrSelf(kernel))
    return node.fail("its image and kernel have different element types");
  auto window = writtenWindow(node, weights.drop_front(2));
  auto cropped = window ? croppedTo(node, *window, pixels.drop_front(2)) : std::nullopt;
  if (!cropped)
    return failure();
  Value result = spread(node, image, kernel, *window, *cropped, groups);
  if (!result || !hasBias(node))
    return node.result(result);
  Value bias = node.input(2);
  SmallVector<int64_t> line(pixels.size(), 1);
  line[1] = weights[1] * groups;
  return node.result(node.add(result, node.reshape(bias, line)));
}

} // namespace

void addConvolution(Converters &table) {
  table.add("Conv", convolution);
  table.add("ConvTranspose", transposedConvolution);
}

} // namespace mt::onnx
