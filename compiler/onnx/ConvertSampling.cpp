// Operators that take images apart at computed places, between the pixels.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/IndexParts.h"
#include "compiler/onnx/ProductParts.h"
#include "compiler/onnx/SampleParts.h"
#include "compiler/onnx/WindowParts.h"

using namespace mlir;

namespace mt::onnx {
namespace {

// An image [N, C, ..] of one to three dimensions, none of them empty.
bool isImage(Value value) {
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  return nn::isReal(value) && shape.size() >= 3 && shape.size() <= 5 && !llvm::is_contained(shape, 0);
}

//===-- GridSample ----------------------------------------------------------------------------------------------===//

struct Grid {
  std::string mode, padding;
  bool corners; ///< -1 and 1 are the centers of the outermost pixels, not their outer edges
};

std::optional<Grid> gridOf(NodeContext &node) {
  Grid grid{node.attributes.text("mode", node.opset < 20 ? "bilinear" : "linear"),
            node.attributes.text("padding_mode", "zeros"), node.attributes.integer("align_corners", 0) != 0};
  if (grid.mode.starts_with("bi")) // as they were called before there were volumes
    grid.mode = grid.mode.substr(2);
  if (llvm::is_contained({"linear", "nearest", "cubic"}, grid.mode) &&
      llvm::is_contained({"zeros", "border", "reflection"}, grid.padding))
    return grid;
  (void)node.fail("mode '{}' with padding_mode '{}' is not supported; modes are linear, nearest and cubic, paddings "
                  "zeros, border and reflection",
                  grid.mode, grid.padding);
  return std::nullopt;
}

// Mirrored at the image's edges, or at the centers of its outermost pixels, as often as it takes.
Value mirrored(NodeContext &node, Value place, int64_t size, bool corners) {
  double low = corners ? 0 : -0.5, period = 2 * static_cast<double>(corners ? size - 1 : size);
  if (period == 0)
    return place;
  Value distance = node.emit<nn::AbsOp>({node.sub(place, node.scalar(place, low))});
  Value turns = wholeBelow(node, node.mul(distance, node.scalar(place, 1 / period)));
  Value rest = node.sub(distance, node.mul(turns, node.scalar(place, period)));
  Value nearest = node.emit<nn::MinimumOp>({rest, node.sub(node.scalar(place, period), rest)});
  return node.add(nearest, node.scalar(place, low));
}

// Of coordinates along one dimension, from -1 to 1. As in PyTorch, what lies outside is brought back before pixels are
// taken, but with cubic, where the pixels around are.
PixelTaps tapsOf(NodeContext &node, const Grid &grid, Value position, int64_t size) {
  auto whole = static_cast<double>(size);
  Value place = node.add(node.mul(position, exactly(node, position, (grid.corners ? whole - 1 : whole) / 2)),
                         exactly(node, position, (whole - 1) / 2));
  auto inside = [&](Value at) {
    Value folded = grid.padding == "reflection" ? mirrored(node, at, size, grid.corners) : at;
    if (grid.padding == "zeros")
      return at;
    // No gradient at the borders either, where PyTorch has none: a maximum would give half of it.
    Value kept = clipped(node, folded, 0, whole - 1);
    Value between = node.emit<nn::AndOp>({node.compare(folded, node.scalar(folded, 0), "gt"),
                                          node.compare(folded, node.scalar(folded, whole - 1), "lt")});
    return node.emit<nn::SelectOp>({between, folded, node.emit<nn::DetachOp>({kept})});
  };
  bool zeros = grid.padding == "zeros";
  constexpr double kFar = 0x1p40; // as whole numbers, whatever a grid says
  if (grid.mode == "cubic")
    return cubicTaps(node, clipped(node, place, -kFar, kFar), size, zeros, inside);
  if (grid.mode == "linear")
    return linearTaps(node, inside(place), size, zeros);
  return tapsAt(node, {node.emit<nn::RoundOp>({inside(place)})}, {Value()}, size, zeros);
}

LogicalResult gridSample(NodeContext &node) {
  Value image = node.input(0), positions = node.input(1);
  auto grid = image && positions ? gridOf(node) : std::nullopt;
  if (!grid)
    return failure();
  SmallVector<int64_t> shape(nn::shapeOf(image)), places(nn::shapeOf(positions));
  auto rank = static_cast<int64_t>(shape.size()) - 2;
  if (!isImage(image) || !nn::isReal(positions) || places.size() != shape.size() || places[0] != shape[0] ||
      places.back() != rank || llvm::is_contained(places, 0))
    return node.fail("a grid of shape {} does not fit an image of shape {}: one to three dimensions behind batch and "
                     "channels, with a coordinate for each",
                     dimsText(Dims(places.begin(), places.end())), dimsText(Dims(shape.begin(), shape.end())));
  auto points = elementCount(Dims(places.begin() + 1, places.end() - 1));
  Value lines = node.reshape(positions, {shape[0], *points, rank});
  SmallVector<PixelTaps> dimensions;
  for (int64_t d = 0; d < rank; ++d) { // the last dimension's coordinate stands first
    Value position = node.reshape(node.slice(lines, 2, rank - 1 - d, 1), {shape[0], *points});
    dimensions.push_back(tapsOf(node, *grid, position, shape[static_cast<size_t>(d) + 2]));
  }
  Value sampled = node.transpose(sampledPixels(node, pixelsOf(node, image), dimensions), {0, 2, 1});
  SmallVector<int64_t> result{shape[0], shape[1]};
  result.append(places.begin() + 1, places.end() - 1);
  return node.result(node.reshape(sampled, result));
}

//===-- RoiAlign ------------------------------------------------------------------------------------------------===//

struct Regions {
  int64_t count, height, width; ///< of the regions, and of what each of them becomes
  int64_t samples;              ///< along each dimension of an element of that
  double scale;
  bool halfPixel, largest;
};

std::optional<Regions> regionsOf(NodeContext &node, Value image, Value boxes, Value batches) {
  std::string mode = node.attributes.text("mode", "avg");
  std::string shift =
      node.attributes.text("coordinate_transformation_mode", node.opset < 16 ? "output_half_pixel" : "half_pixel");
  Regions regions{nn::shapeOf(batches).empty() ? 0 : nn::shapeOf(batches)[0],
                  node.attributes.integer("output_height", 1),
                  node.attributes.integer("output_width", 1),
                  node.attributes.integer("sampling_ratio", 0),
                  node.attributes.real("spatial_scale", 1),
                  shift == "half_pixel",
                  mode == "max"};
  if (!isImage(image) || nn::shapeOf(image).size() != 4 || !nn::isReal(boxes) || regions.count < 1 ||
      nn::shapeOf(boxes) != ArrayRef<int64_t>{regions.count, 4} || nn::shapeOf(batches).size() != 1) {
    (void)node.fail(
        "takes images [N, C, H, W], regions [R, 4] and the batch's place of each; it has those of shapes {}, "
        "{}, {}",
        dimsText(Dims(nn::shapeOf(image))), dimsText(Dims(nn::shapeOf(boxes))), dimsText(Dims(nn::shapeOf(batches))));
    return std::nullopt;
  }
  if ((mode != "avg" && mode != "max") || (shift != "half_pixel" && shift != "output_half_pixel")) {
    (void)node.fail("mode '{}' with '{}' is not supported", mode, shift);
    return std::nullopt;
  }
  constexpr int64_t kLargest = nn::kConstantLimit;
  auto within = [](int64_t size) { return size >= 1 && size <= kLargest; };
  if (within(regions.height) && within(regions.width) && within(regions.samples))
    return regions;
  (void)node.fail("makes {} x {} elements of {} x {} samples each; 1 to {} are supported, and a sampling_ratio of 0 "
                  "depends on the regions: export the model with a positive one",
                  regions.height, regions.width, regions.samples, regions.samples, kLargest);
  return std::nullopt;
}

// Of samples along one dimension of each region: [R, count * samples]. What lies more than a pixel outside is nothing.
PixelTaps samplesOf(NodeContext &node, const Regions &regions, Value boxes, int64_t axis, int64_t count, int64_t size) {
  auto edge = [&](int64_t column) {
    Value scaled = node.mul(node.slice(boxes, 1, column, 1), exactly(node, boxes, regions.scale));
    return regions.halfPixel ? node.sub(scaled, exactly(node, boxes, 0.5)) : scaled;
  };
  Value start = edge(axis), length = node.sub(edge(axis + 2), start);
  if (!regions.halfPixel)
    length = node.emit<nn::MaximumOp>({length, node.scalar(length, 1)});
  double step = 1 / static_cast<double>(count * regions.samples);
  Value parts = node.iota({1, count * regions.samples}, getElementTypeOrSelf(boxes), 1, step / 2, step);
  Value place = node.add(start, node.mul(length, parts));
  auto whole = static_cast<double>(size);
  Value inside = node.emit<nn::AndOp>(
      {node.compare(place, node.scalar(place, -1), "ge"), node.compare(place, node.scalar(place, whole), "le")});
  PixelTaps taps = linearTaps(node, clipped(node, place, 0, whole - 1), size, false);
  for (Value &weight : taps.weights)
    weight = node.emit<nn::SelectOp>({inside, weight, node.scalar(place, 0)});
  return taps;
}

PixelTaps reshaped(NodeContext &node, PixelTaps taps, ArrayRef<int64_t> shape) {
  for (auto *values : {&taps.places, &taps.weights})
    for (Value &value : *values)
      value = value ? node.reshape(value, shape) : value;
  return taps;
}

// Regions carry no gradient, as in torchvision.
LogicalResult roiAlign(NodeContext &node) {
  Value image = node.input(0), boxes = node.emit<nn::DetachOp>({node.input(1)}), batches = indicesOf(node, 2);
  auto regions = image && boxes && batches ? regionsOf(node, image, boxes, batches) : std::nullopt;
  if (!regions)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(image);
  int64_t samples = regions->samples, tall = regions->height * samples, wide = regions->width * samples;
  PixelTaps rows = samplesOf(node, *regions, boxes, 1, regions->height, shape[2]);
  PixelTaps columns = samplesOf(node, *regions, boxes, 0, regions->width, shape[3]);
  PixelTaps pictures{shape[0], {node.cast(batches, node.builder.getI64Type())}, {Value()}};
  Value pixels = node.reshape(pixelsOf(node, image), {1, shape[0] * shape[2] * shape[3], shape[1]});
  Value weighted =
      weightedPixels(node, pixels,
                     {reshaped(node, pictures, {regions->count, 1, 1}), reshaped(node, rows, {regions->count, tall, 1}),
                      reshaped(node, columns, {regions->count, 1, wide})});
  // The largest of an element is that of all weighted pixels, as the standard has it.
  Value points = node.reduce(weighted, regions->largest ? "max" : "sum", {2}, false);
  points = node.reshape(points, {regions->count, regions->height, samples, regions->width, samples, shape[1]});
  points = node.reduce(points, regions->largest ? "max" : "mean", {2, 4}, false);
  return node.result(node.transpose(points, {0, 3, 1, 2}));
}

//===-- DeformConv ----------------------------------------------------------------------------------------------===//

struct Deformed {
  int64_t batch, channels, outputs, groups, offsetGroups;
  Window window;
};

std::optional<Deformed> deformedOf(NodeContext &node, Value image, Value weight, Value offsets) {
  ArrayRef<int64_t> from = nn::shapeOf(image), kernel = nn::shapeOf(weight), moves = nn::shapeOf(offsets);
  int64_t groups = node.attributes.integer("group", 1), offsetGroups = node.attributes.integer("offset_group", 1);
  constexpr int64_t kMost = int64_t(1) << 31; // channels: times the places of a window they fit 64 bits
  bool fits = isImage(image) && from.size() == 4 && kernel.size() == 4 && moves.size() == 4 && groups >= 1 &&
              from[1] <= kMost && offsetGroups >= 1 && from[1] % groups == 0 && from[1] % offsetGroups == 0 &&
              kernel[0] % groups == 0 && kernel[0] > 0 && kernel[1] == from[1] / groups && nn::isReal(weight) &&
              nn::isReal(offsets);
  auto window = fits ? windowOf(node, from.drop_front(2), kernel.drop_front(2)) : std::nullopt;
  if (fits && !window)
    return std::nullopt;
  auto fit = [&](Value value, int64_t parts) {
    return nn::shapeOf(value) ==
           ArrayRef<int64_t>{from[0], offsetGroups * parts * window->places(), window->outputs[0], window->outputs[1]};
  };
  if (fits && fit(offsets, 2) && (!node.has(4) || !node.input(4) || fit(node.input(4), 1)))
    return Deformed{from[0], from[1], kernel[0], groups, offsetGroups, *window};
  (void)node.fail(
      "its image of shape {}, weight of shape {} and offsets of shape {} do not fit together, or its mask does "
      "not; images of two dimensions are supported",
      dimsText(Dims(from)), dimsText(Dims(kernel)), dimsText(Dims(moves)));
  return std::nullopt;
}

// Where each place of the window is moved to along dimension `d`: [batch and groups, window, outputs].
PixelTaps movedTaps(NodeContext &node, const Deformed &form, Value offsets, size_t d, int64_t size) {
  const Window &window = form.window;
  SmallVector<int64_t> shape{form.batch * form.offsetGroups, window.size[0], window.size[1], window.outputs[0],
                             window.outputs[1]};
  Value own = node.reshape(offsets, {shape[0], window.places(), 2, window.outputs[0] * window.outputs[1]});
  own = node.reshape(node.slice(own, 2, static_cast<int64_t>(d), 1), shape);
  auto counted = [&](size_t dimension, int64_t start, int64_t step) {
    SmallVector<int64_t> line(shape.size(), 1);
    line[dimension] = shape[dimension];
    return node.iota(line, getElementTypeOrSelf(offsets), static_cast<int64_t>(dimension), static_cast<double>(start),
                     static_cast<double>(step));
  };
  Value place = node.add(counted(1 + d, 0, window.dilations[d]), counted(3 + d, -window.low[d], window.strides[d]));
  return linearTaps(node, node.add(own, place), size, true);
}

// A convolution whose window takes its pixels wherever its offsets say.
LogicalResult deformConv(NodeContext &node) {
  Value image = node.input(0), weight = node.input(1), offsets = node.input(2);
  auto form = image && weight && offsets ? deformedOf(node, image, weight, offsets) : std::nullopt;
  if (!form)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(image);
  const Window &window = form->window;
  int64_t parts = form->offsetGroups, each = form->channels / parts, places = window.places(),
          outputs = window.outputs[0] * window.outputs[1];
  Value pixels = pixelsOf(node, node.reshape(image, {form->batch * parts, each, shape[2], shape[3]}));
  Value taken = sampledPixels(
      node, pixels, {movedTaps(node, *form, offsets, 0, shape[2]), movedTaps(node, *form, offsets, 1, shape[3])});
  if (node.has(4))
    taken = node.mul(taken, node.reshape(node.input(4), {form->batch * parts, places * outputs, 1}));
  taken = node.transpose(node.reshape(taken, {form->batch, parts, places, outputs, each}), {0, 1, 4, 2, 3});
  int64_t summed = form->channels / form->groups * places, made = form->outputs / form->groups;
  Value columns = node.reshape(taken, {form->batch, form->groups, summed, outputs});
  columns = node.reshape(node.transpose(columns, {1, 0, 3, 2}), {form->groups, form->batch * outputs, summed});
  Value kernel = node.reshape(weight, {form->groups, made, summed});
  Value product = plainMatmul(node, columns, kernel, {}, false, true);
  product = node.transpose(node.reshape(product, {form->groups, form->batch, outputs, made}), {1, 0, 3, 2});
  Value result = node.reshape(product, {form->batch, form->outputs, window.outputs[0], window.outputs[1]});
  if (node.has(3))
    result = node.add(result, node.reshape(node.input(3), {1, form->outputs, 1, 1}));
  return node.result(result);
}

} // namespace

void addSampling(Converters &table) {
  table.add("RoiAlign", roiAlign); // of a known number of samples
  table.add("GridSample", gridSample);
  table.add("DeformConv", deformConv); // of images
}

} // namespace mt::onnx
