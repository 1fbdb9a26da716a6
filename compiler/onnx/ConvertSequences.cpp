// Sequences and optional values. Which tensors they hold is known when compiling, so they are lists here and leave
// nothing behind.
#include "compiler/onnx/Converters.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

LogicalResult giveSequence(NodeContext &node, std::vector<NodeValue> parts) {
  NodeValue sequence;
  sequence.isSequence = true;
  sequence.sequence = std::move(parts);
  node.result(0, std::move(sequence));
  return success();
}

Value dropAxis(NodeContext &node, Value value, int64_t axis) {
  if (!value)
    return {};
  SmallVector<int64_t> shape(nn::shapeOf(value));
  shape.erase(shape.begin() + axis);
  return node.reshape(value, shape);
}

// Sizes of the parts of a dimension: ones, the given ones, or with a scalar equal ones and a smaller last one.
std::optional<Dims> partSizes(NodeContext &node, int64_t size) {
  if (!node.has(1))
    return Dims(static_cast<size_t>(std::min<int64_t>(size, kEvaluateResult)), 1);
  auto sizes = node.integers(1, "sizes");
  if (!sizes || sizes->empty() || node.known(1)->rank() > 0)
    return sizes;
  int64_t each = std::max<int64_t>(1, (*sizes)[0]);
  sizes->clear();
  for (int64_t start = 0; start < size; start += each)
    sizes->push_back(std::min(each, size - start));
  return sizes;
}

LogicalResult splitToSequence(NodeContext &node) {
  if (node.has(1) && !node.known(1) && !node.given(1).isGuess)
    return splitByData(node);
  Value value = node.input(0);
  if (!value)
    return failure();
  auto axis = node.axis("axis", 0, static_cast<int64_t>(nn::shapeOf(value).size()));
  if (!axis)
    return failure();
  int64_t size = nn::shapeOf(value)[static_cast<size_t>(*axis)], start = 0;
  auto sizes = partSizes(node, size);
  if (!sizes)
    return failure();
  if (std::accumulate(sizes->begin(), sizes->end(), int64_t(0)) != size ||
      llvm::any_of(*sizes, [](int64_t n) { return n < 0; }))
    return node.fail("the sizes of its parts do not add up to {}", size);
  std::vector<NodeValue> parts(sizes->size());
  for (size_t i = 0; i < parts.size(); start += (*sizes)[i++]) {
    parts[i].value = node.slice(value, *axis, start, (*sizes)[i]);
    if (!node.has(1) && !node.attributes.integer("keepdims", 1))
      parts[i].value = dropAxis(node, parts[i].value, *axis);
    if (!parts[i].value)
      return failure();
  }
  return giveSequence(node, std::move(parts));
}

/// Input `index` as a place in a sequence of `size`, which may also be its end; none, with a problem, where it is none.
std::optional<size_t> placeOf(NodeContext &node, size_t index, size_t size, bool alsoEnd) {
  auto position = node.integers(index, "position");
  if (!position || position->size() != 1)
    return std::nullopt;
  auto places = static_cast<int64_t>(size), at = (*position)[0];
  if (alsoEnd && at == places)
    return size;
  std::optional<int64_t> front = frontAxis(at, places);
  if (front)
    return static_cast<size_t>(*front);
  (void)node.fail("position {} is outside the sequence of {}", at, size);
  return std::nullopt;
}

LogicalResult sequenceAt(NodeContext &node) {
  const auto *sequence = node.sequence(0);
  auto place = sequence ? placeOf(node, 1, sequence->size(), false) : std::nullopt;
  if (!place)
    return failure();
  node.result(0, (*sequence)[*place]);
  return success();
}

LogicalResult sequenceConstruct(NodeContext &node) {
  std::vector<NodeValue> parts(node.inputCount());
  for (size_t i = 0; i < parts.size(); ++i)
    if (!(parts[i].value = node.input(i)))
      return failure();
  return giveSequence(node, std::move(parts));
}

LogicalResult sequenceEmpty(NodeContext &node) { return giveSequence(node, {}); }

LogicalResult sequenceLength(NodeContext &node) {
  const auto *sequence = node.sequence(0);
  if (!sequence)
    return failure();
  node.knownResult(0, HostTensor::integerScalar(static_cast<int64_t>(sequence->size())));
  return success();
}

LogicalResult sequenceInsert(NodeContext &node) {
  const auto *sequence = node.sequence(0);
  Value value = node.input(1);
  if (!sequence || !value)
    return failure();
  size_t size = sequence->size();
  auto place = node.has(2) ? placeOf(node, 2, size, true) : std::optional<size_t>(size);
  if (!place)
    return failure();
  std::vector<NodeValue> parts = *sequence;
  NodeValue inserted;
  inserted.value = value;
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(*place), std::move(inserted));
  return giveSequence(node, std::move(parts));
}

LogicalResult sequenceErase(NodeContext &node) {
  const auto *sequence = node.sequence(0);
  if (!sequence)
    return failure();
  if (sequence->empty())
    return node.fail("erases from an empty sequence");
  auto place = node.has(1) ? placeOf(node, 1, sequence->size(), false) : std::optional<size_t>(sequence->size() - 1);
  if (!place)
    return failure();
  std::vector<NodeValue> parts = *sequence;
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(*place));
  return giveSequence(node, std::move(parts));
}

LogicalResult concatFromSequence(NodeContext &node) {
  const auto *sequence = node.sequence(0);
  if (!sequence)
    return failure();
  if (sequence->empty())
    return node.fail("joins an empty sequence");
  bool stack = node.attributes.integer("new_axis", 0);
  auto rank = static_cast<int64_t>(nn::shapeOf(sequence->front().value).size()) + (stack ? 1 : 0);
  auto axis = node.axis("axis", 0, rank);
  if (!axis)
    return failure();
  SmallVector<Value> parts;
  for (const NodeValue &entry : *sequence) {
    SmallVector<int64_t> shape(nn::shapeOf(entry.value));
    if (stack)
      shape.insert(shape.begin() + *axis, 1);
    parts.push_back(node.reshape(entry.value, shape));
  }
  return node.result(node.concat(parts, *axis));
}

//===-- optional values -----------------------------------------------------------------------------------------===//

LogicalResult optional(NodeContext &node) {
  NodeValue value = node.has(0) ? node.given(0) : NodeValue();
  value.isAbsent = !node.has(0);
  node.result(0, std::move(value));
  return success();
}

LogicalResult optionalHasElement(NodeContext &node) {
  bool has = node.has(0) && !node.given(0).isAbsent;
  node.knownResult(0, HostTensor::splatInteger(DType::boolean, {}, has));
  return success();
}

LogicalResult optionalGetElement(NodeContext &node) {
  if (!node.has(0) || node.given(0).isAbsent)
    return node.fail("takes the element of an optional value that has none");
  node.result(0, node.given(0));
  return success();
}

} // namespace

void addSequences(Converters &table) {
  table.add("SplitToSequence", splitToSequence);
  table.add("SequenceAt", sequenceAt);
  table.add("SequenceConstruct", sequenceConstruct);
  table.add("SequenceEmpty", sequenceEmpty);
  table.add("SequenceLength", sequenceLength);
  table.add("SequenceInsert", sequenceInsert);
  table.add("SequenceErase", sequenceErase);
  table.add("ConcatFromSequence", concatFromSequence);
  table.add("Optional", optional);
  table.add("OptionalHasElement", optionalHasElement);
  table.add("OptionalGetElement", optionalGetElement);
}

} // namespace mt::onnx
