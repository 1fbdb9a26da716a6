// Operators whose results are known when compiling: shapes, constants, ranges. Every dimension is bound at import, so
// a shape is just a list of numbers.
#include "compiler/onnx/Converters.h"

#include <cmath>

using namespace mlir;

namespace mt::onnx {
namespace {

// A known tensor that was never an operation keeps being none: only its dims are asked for.
std::optional<Dims> dimsOf(NodeContext &node, size_t index) {
  if (const HostTensor *known = node.known(index))
    return known->dims();
  Value value = node.input(index);
  if (!value)
    return std::nullopt;
  return Dims(nn::shapeOf(value).begin(), nn::shapeOf(value).end());
}

LogicalResult shape(NodeContext &node) {
  std::optional<Dims> dims = dimsOf(node, 0);
  if (!dims)
    return failure();
  auto rank = static_cast<int64_t>(dims->size());
  SliceBounds bounds = sliceBounds(node.attributes.integer("start", 0), node.attributes.integer("end", rank), 1, rank);
  node.knownResult(0, HostTensor::integers({dims->begin() + bounds.start, dims->begin() + bounds.start + bounds.count}));
  return success();
}

LogicalResult size(NodeContext &node) {
  std::optional<Dims> dims = dimsOf(node, 0);
  if (!dims)
    return failure();
  node.knownResult(0, HostTensor::integerScalar(elementCount(*dims).value_or(0)));
  return success();
}

std::optional<HostTensor> attributeTensor(NodeContext &node, const ::onnx::AttributeProto &attribute) {
  Result<TensorSource> source = locateTensor(attribute.t(), node.file);
  Result<HostTensor> tensor = source && source->elements <= nn::kConstantLimit
                                  ? readTensor(*source)
                                  : Result<HostTensor>(source ? mt::fail("it is too large") : source.status());
  if (tensor)
    return *tensor;
  (void)node.fail("attribute '{}': {}", attribute.name(), tensor.status().message());
  return std::nullopt;
}

LogicalResult constantOfShape(NodeContext &node) {
  auto dims = node.integers(0, "dimensions");
  if (!dims)
    return failure();
  if (!elementCount(*dims))
    return node.fail("its shape {} is negative or absurdly large", dimsText(*dims));
  HostTensor value = HostTensor::splat(DType::f32, {1}, 0);
  if (const auto *attribute = node.attributes.find("value")) {
    std::optional<HostTensor> given = attributeTensor(node, *attribute);
    if (!given)
      return failure();
    if (given->elements() != 1)
      return node.fail("its value must have one element");
    value = *given;
  }
  node.knownResult(0, value.real() ? HostTensor::splat(value.type(), *dims, value.realAt(0))
                                   : HostTensor::splatInteger(value.type(), *dims, value.intAt(0)));
  return success();
}

// The forms of Constant but `value`, which is handled where initializers are.
LogicalResult constant(NodeContext &node) {
  const NodeAttributes &attributes = node.attributes;
  if (const auto *value = attributes.find("value_int"))
    node.knownResult(0, HostTensor::integerScalar(value->i()));
  else if (const auto *values = attributes.find("value_ints"))
    node.knownResult(0, HostTensor::integers({values->ints().begin(), values->ints().end()}));
  else if (const auto *real = attributes.find("value_float"))
    node.knownResult(0, HostTensor::splat(DType::f32, {}, real->f()));
  else if (const auto *reals = attributes.find("value_floats"))
    node.knownResult(0, HostTensor::ofReals(DType::f32, {reals->floats_size()},
                                            {reals->floats().begin(), reals->floats().end()}));
  else
    return node.fail("only the dense numeric forms of Constant are supported");
  return success();
}

HostTensor realPositions(const HostTensor &start, double step, int64_t elements) {
  std::vector<double> values;
  for (int64_t i = 0; i < elements; ++i)
    values.push_back(start.realAt(0) + step * static_cast<double>(i));
  return HostTensor::ofReals(start.type(), {elements}, std::move(values));
}

HostTensor wholePositions(const HostTensor &start, const HostTensor &delta, int64_t elements) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < elements; ++i) // unsigned: what does not fit wraps
    values.push_back(static_cast<int64_t>(uint64_t(start.intAt(0)) + uint64_t(delta.intAt(0)) * uint64_t(i)));
  return HostTensor::ofIntegers(start.type(), {elements}, std::move(values));
}

// Positions stay an operation whatever their number, so that masks made of them are recognized for every size.
LogicalResult range(NodeContext &node) {
  const HostTensor *start = node.known(0), *limit = node.known(1), *delta = node.known(2);
  if (!start || !limit || !delta || start->elements() != 1 || limit->elements() != 1 || delta->elements() != 1)
    return node.fail("its start, limit and step must be known when compiling, but depend on the model's data");
  double step = delta->realAt(0);
  if (step == 0)
    return node.fail("its step is zero");
  double count = std::max(0.0, std::ceil((limit->realAt(0) - start->realAt(0)) / step));
  if (!(count < 1e15))
    return node.fail("it would have {} elements", count);
  auto elements = static_cast<int64_t>(count);
  Type element = mlirType(node.builder.getContext(), start->type());
  Value positions = node.iota({elements}, element, 0, start->realAt(0), step);
  if (!positions)
    return failure();
  NodeValue result;
  result.value = positions;
  if (elements <= kEvaluateInput) {
    result.known = isFloat(start->type()) ? realPositions(*start, step, elements) : wholePositions(*start, *delta, elements);
    result.symbolic = true;
  }
  node.result(0, std::move(result));
  return success();
}

} // namespace

void addShapes(Converters &table) {
  table.add("Shape", shape);
  table.add("Size", size);
  table.add("ConstantOfShape", constantOfShape);
  table.add("Constant", constant);
  table.add("Range", range);
}

} // namespace mt::onnx
