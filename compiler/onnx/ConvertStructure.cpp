// Operators that move elements without looking at them: reshape, transpose, concatenation, repetition, padding.
#include "compiler/onnx/Converters.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

using Shape = SmallVector<int64_t>;

LogicalResult reshape(NodeContext &node) {
  Value value = node.input(0);
  auto target = node.integers(1, "target dimensions");
  if (!value || !target)
    return failure();
  Dims from(nn::shapeOf(value));
  std::optional<Dims> dims = reshapeDims(from, *target, node.attributes.integer("allowzero", 0) != 0);
  if (!dims)
    return node.fail("a tensor of shape {} cannot be reshaped to [{}]", dimsText(from), dimsText(*target));
  return node.result(node.reshape(value, *dims));
}

LogicalResult flatten(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = node.attributes.integer("axis", 1);
  if (axis < -rank || axis > rank)
    return node.fail("axis {} is out of range for rank {}", axis, rank);
  axis = axis < 0 ? axis + rank : axis;
  return node.result(node.reshape(value, {productOf(shape.take_front(axis)), productOf(shape.drop_front(axis))}));
}

LogicalResult squeeze(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  auto axes = node.axes(1, "axes", static_cast<int64_t>(shape.size()));
  if (!axes)
    return failure();
  bool all = !node.has(1) && !node.attributes.has("axes");
  Shape kept;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool named = all || llvm::is_contained(*axes, static_cast<int64_t>(d));
    if (!named ||
        shape[d] != 1) // named and of another size it stays, as in PyTorch, whose exporter writes the node all the same
      kept.push_back(shape[d]);
  }
  return node.result(node.reshape(value, kept));
}

LogicalResult unsqueeze(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  int64_t added = node.has(1) ? (node.known(1) ? node.known(1)->elements() : 0)
                              : static_cast<int64_t>(node.attributes.integers("axes").value_or(Dims()).size());
  auto rank = static_cast<int64_t>(shape.size()) + added;
  auto axes = node.axes(1, "axes", rank);
  if (!axes)
    return failure();
  Shape target;
  size_t next = 0;
  for (int64_t d = 0; d < rank; ++d) {
    if (!llvm::is_contained(*axes, d) && next == shape.size())
      return node.fail("names an axis twice");
    target.push_back(llvm::is_contained(*axes, d) ? 1 : shape[next++]);
  }
  return node.result(node.reshape(value, target));
}

// Both ways: dimensions of size one of the target take the input's.
LogicalResult expand(NodeContext &node) {
  if (node.has(1) && !node.known(1) && !node.given(1).isGuess)
    return repeatByData(node);
  Value value = node.input(0);
  auto target = node.integers(1, "dimensions");
  if (!value || !target)
    return failure();
  Dims from(nn::shapeOf(value));
  std::optional<Dims> dims = broadcastDims(from, *target);
  if (!dims)
    return node.fail("a tensor of shape {} does not broadcast to [{}]", dimsText(from), dimsText(*target));
  return node.result(node.broadcast(value, *dims));
}

// [a, b] repeated [m, n] times: [1, a, 1, b] broadcast to [m, a, n, b], reshaped to [m a, n b].
LogicalResult tile(NodeContext &node) {
  Value value = node.input(0);
  auto repeats = node.integers(1, "repeats");
  if (!value || !repeats)
    return failure();
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  if (repeats->size() != shape.size())
    return node.fail("has {} repeats for rank {}", repeats->size(), shape.size());
  Shape spread, wide, result;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t times = (*repeats)[d];
    if (times < 0 || !elementCount({times, shape[d]}))
      return node.fail("repeats dimension {} {} times", d, times);
    if (times != 1) {
      spread.push_back(1);
      wide.push_back(times);
    }
    spread.push_back(shape[d]);
    wide.push_back(shape[d]);
    result.push_back(times * shape[d]);
  }
  return node.result(node.reshape(node.broadcast(node.reshape(value, spread), wide), result));
}

LogicalResult concat(NodeContext &node) {
  SmallVector<Value> parts;
  for (size_t i = 0; i < node.inputCount(); ++i) {
    Value part = node.input(i);
    if (!part)
      return failure();
    // Exporters concatenate with empty tensors of rank one (legacy semantics of torch.cat).
    if (llvm::is_contained(nn::shapeOf(part), 0) && node.inputCount() > 1 && nn::shapeOf(part).size() == 1)
      continue;
    parts.push_back(part);
  }
  if (parts.empty())
    return node.fail("concatenates nothing");
  auto axis = node.axis("axis", 0, static_cast<int64_t>(nn::shapeOf(parts[0]).size()));
  if (!axis)
    return failure();
  auto isEmpty = [&](Value part) {
    ArrayRef<int64_t> shape = nn::shapeOf(part);
    return static_cast<size_t>(*axis) < shape.size() && shape[static_cast<size_t>(*axis)] == 0;
  };
  if (!llvm::all_of(parts, isEmpty))
    llvm::erase_if(parts, isEmpty);
  node.toOneType(parts);
  return node.result(node.concat(parts, *axis));
}

LogicalResult transpose(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  Dims order(nn::shapeOf(value).size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = node.attributes.integers("perm").value_or(order);
  for (int64_t &axis : order) // some exporters count from the end, which the standard does not say
    axis = frontAxis(axis, static_cast<int64_t>(order.size())).value_or(axis);
  return node.result(node.transpose(value, order));
}

// Blocks of depth into space or back are transposes of a finer shape.
LogicalResult depthToSpace(NodeContext &node) {
  Value value = node.input(0);
  int64_t block = node.attributes.integer("blocksize", 0);
  if (!value)
    return failure();
  ArrayRef<int64_t> s = nn::shapeOf(value);
  if (s.size() != 4 || block <= 0 || s[1] % (block * block) != 0)
    return node.fail("needs a tensor of rank 4 whose channels the block size {} divides", block);
  int64_t depth = s[1] / (block * block);
  Value fine, moved;
  if (node.attributes.text("mode", "DCR") == "DCR") {
    fine = node.reshape(value, {s[0], block, block, depth, s[2], s[3]});
    moved = node.transpose(fine, {0, 3, 4, 1, 5, 2});
  } else {
    fine = node.reshape(value, {s[0], depth, block, block, s[2], s[3]});
    moved = node.transpose(fine, {0, 1, 4, 2, 5, 3});
  }
  return node.result(node.reshape(moved, {s[0], depth, s[2] * block, s[3] * block}));
}
LogicalResult spaceToDepth(NodeContext &node) {
  Value value = node.input(0);
  int64_t block = node.attributes.integer("blocksize", 0);
  if (!value)
    return failure();
  ArrayRef<int64_t> s = nn::shapeOf(value);
  if (s.size() != 4 || block <= 0 || s[2] % block != 0 || s[3] % block != 0)
    return node.fail("needs a tensor of rank 4 whose size the block size {} divides", block);
  Value fine = node.reshape(value, {s[0], s[1], s[2] / block, block, s[3] / block, block});
  bool depthFirst = node.attributes.text("mode", "DCR") == "DCR";
  Dims order = depthFirst ? Dims{0, 3, 5, 1, 2, 4} : Dims{0, 1, 3, 5, 2, 4};
  return node.result(
      node.reshape(node.transpose(fine, order), {s[0], s[1] * block * block, s[2] / block, s[3] / block}));
}

} // namespace

void addStructure(Converters &table) {
  table.add("Reshape", reshape);
  table.add("Flatten", flatten);
  table.add("Squeeze", squeeze);
  table.add("Unsqueeze", unsqueeze);
  table.add("Expand", expand);
  table.add("Tile", tile);
  table.add("Concat", concat);
  table.add("Transpose", transpose);
  table.add("DepthToSpace", depthToSpace);
  table.add("SpaceToDepth", spaceToDepth);
}

} // namespace mt::onnx
