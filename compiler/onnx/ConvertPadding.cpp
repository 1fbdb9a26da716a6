// Pad: a constant around a tensor, or its own elements mirrored, repeated or continued from the other side.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/IndexParts.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr int64_t kLargestPad = int64_t(1) << 40; ///< sums of them and of sizes fit 64 bits

/// Elements before and behind along each axis; negative ones crop.
struct Pads {
  Dims axes, before, behind;
};

// Pads of the named axes (all by default), begins then ends.
std::optional<Pads> padsOf(NodeContext &node, int64_t rank) {
  auto given = node.has(1) ? node.integers(1, "pads") : node.attributes.integers("pads");
  if (!given) {
    (void)node.fail("its pads must be known when compiling");
    return std::nullopt;
  }
  Pads pads;
  pads.axes.resize(static_cast<size_t>(rank));
  std::iota(pads.axes.begin(), pads.axes.end(), 0);
  if (node.has(3)) {
    auto axes = node.axes(3, "", rank);
    if (!axes)
      return std::nullopt;
    pads.axes = *axes;
  }
  if (given->size() != 2 * pads.axes.size()) {
    (void)node.fail("has {} pads for {} dimensions", given->size(), pads.axes.size());
    return std::nullopt;
  }
  if (llvm::any_of(*given, [](int64_t n) { return n < -kLargestPad || n > kLargestPad; })) {
    (void)node.fail("its pads must lie between -{} and {}", kLargestPad, kLargestPad);
    return std::nullopt;
  }
  auto middle = given->begin() + static_cast<std::ptrdiff_t>(pads.axes.size());
  pads.before.assign(given->begin(), middle);
  pads.behind.assign(middle, given->end());
  return pads;
}

LogicalResult byConstant(NodeContext &node, Value value, const Pads &pads) {
  const HostTensor *fill = node.known(2);
  if (node.has(2) && (!fill || fill->elements() != 1))
    return node.fail("its padding value must be known when compiling");
  size_t rank = nn::shapeOf(value).size();
  SmallVector<int64_t> low(rank, 0), high(rank, 0), interior(rank, 0);
  for (auto [axis, before, behind] : llvm::zip(pads.axes, pads.before, pads.behind)) {
    int64_t size =
        nn::shapeOf(value)[static_cast<size_t>(axis)] + std::min<int64_t>(before, 0) + std::min<int64_t>(behind, 0);
    if (size < 0)
      return node.fail("crops more of dimension {} than there is", axis);
    value = node.slice(value, axis, std::max<int64_t>(-before, 0), size);
    low[static_cast<size_t>(axis)] = std::max<int64_t>(before, 0);
    high[static_cast<size_t>(axis)] = std::max<int64_t>(behind, 0);
  }
  if (llvm::all_of(low, [](int64_t n) { return n == 0; }) && llvm::all_of(high, [](int64_t n) { return n == 0; }))
    return node.result(value);
  double filler = fill ? fill->realAt(0) : node.attributes.real("value", 0);
  return node.result(
      node.emit<nn::PadOp>({value}, {node.intsAttr("low", low), node.intsAttr("high", high),
                                     node.intsAttr("interior", interior), node.realAttr("value", filler)}));
}

// The element of `size` that stands at `place`, which may lie outside.
int64_t elementAt(int64_t place, int64_t size, StringRef mode) {
  auto wrapped = [&](int64_t period) { return (place % period + period) % period; };
  if (mode == "wrap")
    return wrapped(size);
  if (mode == "edge" || size == 1)
    return std::clamp<int64_t>(place, 0, size - 1);
  int64_t mirrored = wrapped(2 * (size - 1));
  return std::min(mirrored, 2 * (size - 1) - mirrored);
}

LogicalResult byElements(NodeContext &node, Value value, const Pads &pads, StringRef mode) {
  for (auto [axis, before, behind] : llvm::zip(pads.axes, pads.before, pads.behind)) {
    int64_t size = nn::shapeOf(value)[static_cast<size_t>(axis)], total = size + before + behind;
    if (size < 1 || total < 1 || total > nn::kConstantLimit)
      return node.fail("pads dimension {} of {} elements to {}; 1 to {} are supported", axis, size, total,
                       nn::kConstantLimit);
    std::vector<int64_t> elements;
    for (int64_t place = -before; place < size + behind; ++place)
      elements.push_back(elementAt(place, size, mode));
    value = pickedAt(node, value, axis, elements);
    if (!value)
      return failure();
  }
  return node.result(value);
}

LogicalResult pad(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  std::string mode = node.attributes.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return node.fail("mode '{}' is none of constant, reflect, edge, wrap", mode);
  auto pads = padsOf(node, static_cast<int64_t>(nn::shapeOf(value).size()));
  if (!pads)
    return failure();
  return mode == "constant" ? byConstant(node, value, *pads) : byElements(node, value, *pads, mode);
}

} // namespace

void addPadding(Converters &table) { table.add("Pad", pad); }

} // namespace mt::onnx
