// Operators on images whose geometry is known when compiling: grids of positions, crops, patches put back.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

using Shape = SmallVector<int64_t>;

Value padded(NodeContext &node, Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
             ArrayRef<int64_t> interior) {
  return node.emit<nn::PadOp>({value}, {node.intsAttr("low", low), node.intsAttr("high", high),
                                        node.intsAttr("interior", interior), node.realAttr("value", 0)});
}

//===-- AffineGrid ----------------------------------------------------------------------------------------------===//

// Positions along dimension `d` of the image, in [-1, 1]: of the centers of corner pixels, or of their outer edges.
Value positions(NodeContext &node, ArrayRef<int64_t> image, size_t d, Type element, bool corners) {
  Shape line(image);
  line.push_back(1);
  auto size = static_cast<double>(image[d]);
  double step = corners ? 2 / std::max(1.0, size - 1) : 2 / size;
  return node.iota(line, element, static_cast<int64_t>(d), corners ? -1 : -1 + step / 2, step);
}

// theta [N, 2, 3] times (x, y, 1) of every pixel, or [N, 3, 4] times (x, y, z, 1).
LogicalResult affineGrid(NodeContext &node) {
  Value theta = node.input(0);
  auto size = node.integers(1, "size");
  if (!theta || !size)
    return failure();
  Dims image(size->begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(size->size())), size->end());
  auto rank = static_cast<int64_t>(image.size());
  if (rank < 2 || rank > 3 || !elementCount(image) ||
      nn::shapeOf(theta) != ArrayRef<int64_t>{(*size)[0], rank, rank + 1})
    return node.fail("its matrices of shape {} do not fit the size {}", dimsText(Dims(nn::shapeOf(theta))),
                     dimsText(*size));
  Type element = getElementTypeOrSelf(theta);
  bool corners = node.attributes.integer("align_corners", 0);
  SmallVector<Value> coordinates;
  for (size_t d = image.size(); d-- > 0;)
    coordinates.push_back(positions(node, image, d, element, corners));
  Shape whole(image.begin(), image.end());
  whole.push_back(1);
  for (Value &coordinate : coordinates)
    coordinate = node.broadcast(coordinate, whole);
  coordinates.push_back(node.constant(HostTensor::splat(dtypeOf(element), Dims(whole.begin(), whole.end()), 1)));
  Value points = node.reshape(node.concat(coordinates, rank), {productOf(image), rank + 1});
  if (!points)
    return failure();
  Value moved = matmulOf(node, theta, node.transpose(points, {1, 0})); // [N, rank, pixels]
  Shape result{(*size)[0]};
  result.append(image.begin(), image.end());
  result.push_back(rank);
  return node.result(node.reshape(node.transpose(moved, {0, 2, 1}), result));
}

//===-- CenterCropPad -------------------------------------------------------------------------------------------===//

LogicalResult centerCropPad(NodeContext &node) {
  Value value = node.input(0);
  auto target = node.integers(1, "shape");
  if (!value || !target)
    return failure();
  auto rank = nn::shapeOf(value).size();
  Dims axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.attributes.has("axes")) {
    auto given = node.axes(node.inputCount(), "axes", static_cast<int64_t>(rank));
    if (!given)
      return failure();
    axes = *given;
  }
  if (target->size() != axes.size())
    return node.fail("gives {} sizes for {} dimensions", target->size(), axes.size());
  Shape low(rank, 0), high(rank, 0), none(rank, 0);
  bool pads = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    auto at = static_cast<size_t>(axes[i]);
    int64_t size = nn::shapeOf(value)[at], wanted = (*target)[i];
    if (wanted < 0)
      return node.fail("size {} is negative", wanted);
    if (wanted < size)
      value = node.slice(value, axes[i], (size - wanted) / 2, wanted);
    low[at] = std::max<int64_t>(0, wanted - size) / 2;
    high[at] = std::max<int64_t>(0, wanted - size) - low[at];
    pads |= wanted > size;
  }
  return node.result(pads ? padded(node, value, low, high, none) : value);
}

//===-- Col2Im --------------------------------------------------------------------------------------------------===//

struct Patches {
  Dims image, block, strides, dilations, low, high;
  Dims counts; ///< of patches along each dimension
};

std::optional<Patches> patchesOf(NodeContext &node) {
  auto image = node.integers(1, "image's dimensions"), block = node.integers(2, "block's dimensions");
  if (!image || !block)
    return std::nullopt;
  size_t rank = image->size();
  Patches patches{*image, *block, {}, {}, {}, {}, {}};
  patches.strides = node.attributes.integers("strides").value_or(Dims(rank, 1));
  patches.dilations = node.attributes.integers("dilations").value_or(Dims(rank, 1));
  Dims pads = node.attributes.integers("pads").value_or(Dims(2 * rank, 0));
  constexpr int64_t kLargest = int64_t(1) << 31; // sums of them fit 64 bits
  auto within = [](const Dims &values, int64_t least) {
    return llvm::all_of(values, [=](int64_t value) { return value >= least && value <= kLargest; });
  };
  bool fits = block->size() == rank && patches.strides.size() == rank && patches.dilations.size() == rank &&
              pads.size() == 2 * rank;
  if (!fits || !within(*image, 1) || !within(*block, 1) || !within(patches.strides, 1) ||
      !within(patches.dilations, 1) || !within(pads, 0)) {
    (void)node.fail("its image, block, strides, dilations and pads do not fit together");
    return std::nullopt;
  }
  patches.low.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  patches.high.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  for (size_t d = 0; d < rank; ++d) {
    int64_t room =
        patches.image[d] + patches.low[d] + patches.high[d] - (patches.block[d] - 1) * patches.dilations[d] - 1;
    if (room < 0) {
      (void)node.fail("its block is larger than the padded image");
      return std::nullopt;
    }
    patches.counts.push_back(room / patches.strides[d] + 1);
  }
  return patches;
}

// What place `place` of the block adds to the padded image, from [N, C, places, patches].
Value spreadPlace(NodeContext &node, Value columns, const Patches &patches, int64_t place) {
  ArrayRef<int64_t> shape = nn::shapeOf(columns);
  Shape fine{shape[0], shape[1]}, low{0, 0}, high{0, 0}, interior{0, 0};
  fine.append(patches.counts.begin(), patches.counts.end());
  Value part = node.reshape(node.slice(columns, 2, place, 1), fine);
  Dims offsets(patches.block.size());
  for (size_t d = offsets.size(); d-- > 0; place /= patches.block[d])
    offsets[d] = place % patches.block[d] * patches.dilations[d];
  for (size_t d = 0; d < offsets.size(); ++d) {
    int64_t whole = patches.image[d] + patches.low[d] + patches.high[d];
    low.push_back(offsets[d]);
    high.push_back(whole - offsets[d] - (patches.counts[d] - 1) * patches.strides[d] - 1);
    interior.push_back(patches.strides[d] - 1);
  }
  return padded(node, part, low, high, interior);
}

// Patches [N, C places, L] added up where they were taken from: the reverse of what convolution does first.
LogicalResult columnsToImage(NodeContext &node) {
  Value value = node.input(0);
  auto patches = value ? patchesOf(node) : std::nullopt;
  if (!patches)
    return failure();
  constexpr int64_t kPlaces = 1024; // each becomes a pad and a sum
  auto places = elementCount(patches->block), count = elementCount(patches->counts);
  Dims shape(nn::shapeOf(value));
  if (!places || !count || *places > kPlaces || shape.size() != 3 || shape[1] % *places != 0 || shape[2] != *count)
    return node.fail("its columns of shape {} do not fit blocks of {} (of at most {} places)", dimsText(shape),
                     dimsText(patches->block), kPlaces);
  Value columns = node.reshape(value, {shape[0], shape[1] / *places, *places, *count}), image;
  for (int64_t place = 0; place < *places; ++place) {
    Value part = spreadPlace(node, columns, *patches, place);
    image = image ? node.add(image, part) : part;
  }
  for (size_t d = 0; d < patches->image.size(); ++d)
    image = node.slice(image, static_cast<int64_t>(d) + 2, patches->low[d], patches->image[d]);
  return node.result(image);
}

} // namespace

void addGeometry(Converters &table) {
  table.add("AffineGrid", affineGrid);
  table.add("CenterCropPad", centerCropPad);
  table.add("Col2Im", columnsToImage);
}

} // namespace mt::onnx
