#include "compiler/onnx/WindowParts.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr int64_t kPlaces = 1 << 20;           ///< of a window
constexpr int64_t kLargest = int64_t(1) << 31; ///< stride, dilation or pad: sums of them fit 64 bits
constexpr size_t kMostDimensions = 3;

int64_t spanOf(const Window &window, size_t d) { return (window.size[d] - 1) * window.dilations[d] + 1; }

// Padding that keeps ceil(size / stride) outputs, the odd one at the end (SAME_UPPER) or the start (SAME_LOWER).
void padSame(Window &window, size_t d, int64_t size, bool upper) {
  int64_t outputs = (size + window.strides[d] - 1) / window.strides[d];
  int64_t total = std::max<int64_t>(0, (outputs - 1) * window.strides[d] + spanOf(window, d) - size);
  window.low[d] = upper ? total / 2 : total - total / 2;
  window.high[d] = total - window.low[d];
}

// Outputs of dimension `d`, rounded up where the node says so; a last window that sees no more than the pads is left
// out.
void countOutputs(Window &window, size_t d, int64_t size, bool up) {
  int64_t stride = window.strides[d], room = size + window.low[d] + window.high[d] - spanOf(window, d);
  int64_t outputs = room / stride + 1;
  if (up && room % stride != 0 && outputs * stride < size + window.low[d])
    ++outputs;
  window.outputs.push_back(outputs);
  window.beyond.push_back(std::max<int64_t>(0, (outputs - 1) * stride - room));
  window.high[d] += window.beyond.back();
}

bool isOutside(int64_t value, int64_t least) { return value < least || value > kLargest; }

} // namespace

int64_t Window::places() const { return std::accumulate(size.begin(), size.end(), int64_t(1), std::multiplies<>()); }
bool Window::isPadded() const {
  return llvm::any_of(low, [](int64_t n) { return n != 0; }) || llvm::any_of(high, [](int64_t n) { return n != 0; });
}

SmallVector<NamedAttribute> Window::attributes(NodeContext &node) const {
  return {node.intsAttr("strides", strides), node.intsAttr("dilations", dilations), node.intsAttr("low", low),
          node.intsAttr("high", high)};
}

std::optional<Window> writtenWindow(NodeContext &node, ArrayRef<int64_t> size) {
  size_t rank = size.size();
  Window window;
  window.size.assign(size.begin(), size.end());
  window.strides = node.attributes.integers("strides").value_or(Dims(rank, 1));
  window.dilations = node.attributes.integers("dilations").value_or(Dims(rank, 1));
  Dims pads = node.attributes.integers("pads").value_or(Dims(2 * rank, 0));
  if (rank < 1 || rank > kMostDimensions) {
    (void)node.fail("its windows have {} dimensions; one to three are supported", rank);
    return std::nullopt;
  }
  bool sized = llvm::all_of(size, [](int64_t n) { return n >= 1 && n <= kPlaces; });
  if (window.strides.size() != rank || window.dilations.size() != rank || pads.size() != 2 * rank || !sized ||
      window.places() > kPlaces) {
    (void)node.fail("its kernel, strides, dilations and pads do not fit together");
    return std::nullopt;
  }
  window.low.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  window.high.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  for (size_t d = 0; d < rank; ++d)
    if (isOutside(window.strides[d], 1) || isOutside(window.dilations[d], 1) || isOutside(window.low[d], 0) ||
        isOutside(window.high[d], 0)) {
      (void)node.fail("its strides and dilations must be positive, its pads not negative, and none above {}", kLargest);
      return std::nullopt;
    }
  return window;
}

std::optional<Window> windowOf(NodeContext &node, ArrayRef<int64_t> image, ArrayRef<int64_t> size) {
  std::optional<Window> window = writtenWindow(node, size);
  std::string automatic = node.attributes.text("auto_pad", "NOTSET");
  bool up = node.attributes.integer("ceil_mode", 0) != 0;
  if (!window)
    return std::nullopt;
  for (size_t d = 0; d < size.size(); ++d) {
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
      padSame(*window, d, image[d], automatic == "SAME_UPPER");
    if (automatic == "VALID")
      window->low[d] = window->high[d] = 0;
    if (image[d] + window->low[d] + window->high[d] < spanOf(*window, d)) {
      (void)node.fail("its kernel is larger than the padded image");
      return std::nullopt;
    }
    countOutputs(*window, d, image[d], up);
  }
  return window;
}

Value padded(NodeContext &node, Value image, ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
  if (llvm::all_of(low, [](int64_t n) { return n == 0; }) && llvm::all_of(high, [](int64_t n) { return n == 0; }))
    return image;
  SmallVector<int64_t> before{0, 0}, after{0, 0}, interior(low.size() + 2, 0);
  before.append(low.begin(), low.end());
  after.append(high.begin(), high.end());
  return node.emit<nn::PadOp>({image}, {node.intsAttr("low", before), node.intsAttr("high", after),
                                        node.intsAttr("interior", interior), node.realAttr("value", 0)});
}

} // namespace mt::onnx
