#include "compiler/onnx/RecognizeConstants.h"

#include "compiler/onnx/NodeContext.h"

#include <cmath>

using namespace mlir;

namespace mt::onnx {
namespace {

std::optional<double> uniform(const HostTensor &tensor) {
  for (int64_t i = 1; i < tensor.elements(); ++i)
    if (tensor.realAt(i) != tensor.realAt(0))
      return std::nullopt;
  return tensor.elements() ? std::optional<double>(tensor.realAt(0)) : std::nullopt;
}

struct Progression {
  int64_t dimension = 0;
  double start = 0, step = 0;
};

// start + step * index along one dimension, the same along all others; integers of at least three positions.
std::optional<Progression> progression(const HostTensor &tensor) {
  if (tensor.type() != DType::i64 && tensor.type() != DType::i32)
    return std::nullopt;
  int64_t inner = 1;
  for (int64_t d = tensor.rank(); d-- > 0; inner *= tensor.dims()[static_cast<size_t>(d)]) {
    int64_t size = tensor.dims()[static_cast<size_t>(d)];
    if (size < 3)
      continue;
    int64_t start = tensor.intAt(0), step = tensor.intAt(inner) - start;
    bool fits = step != 0;
    for (int64_t i = 0; fits && i < tensor.elements(); ++i)
      fits = tensor.intAt(i) == start + step * (i / inner % size);
    if (fits)
      return Progression{d, static_cast<double>(start), static_cast<double>(step)};
  }
  return std::nullopt;
}

struct Triangle {
  bool lower = true; ///< the first value where column - row <= k; else where >= k
  int64_t k = 0;
  double inside = 0, outside = 0;
};

// A matrix (under leading ones) of two values split along a diagonal.
std::optional<Triangle> triangle(const HostTensor &tensor) {
  if (tensor.rank() < 2)
    return std::nullopt;
  int64_t rows = tensor.dims()[static_cast<size_t>(tensor.rank() - 2)], columns = tensor.dims().back();
  if (rows * columns != tensor.elements() || rows < 2 || columns < 2)
    return std::nullopt;
  for (bool lower : {true, false}) {
    int64_t corner = lower ? (rows - 1) * columns : columns - 1;
    Triangle found{lower, lower ? -rows : columns, tensor.realAt(corner), 0};
    bool other = false;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      int64_t offset = i % columns - i / columns;
      if (tensor.realAt(i) == found.inside)
        found.k = lower ? std::max(found.k, offset) : std::min(found.k, offset);
      else if (!other)
        other = true, found.outside = tensor.realAt(i);
    }
    bool fits = other;
    for (int64_t i = 0; fits && i < tensor.elements(); ++i) {
      int64_t offset = i % columns - i / columns;
      bool inside = lower ? offset <= found.k : offset >= found.k;
      fits = tensor.realAt(i) == (inside ? found.inside : found.outside);
    }
    if (fits)
      return found;
  }
  return std::nullopt;
}

Value iota(OpBuilder &builder, Location location, ArrayRef<int64_t> shape, Type element, int64_t dimension,
           double start, double step) {
  return nn::IotaOp::create(builder, location, nn::tensorOf(shape, element),
                            static_cast<uint64_t>(dimension), APFloat(start), APFloat(step));
}

Value emitTriangle(OpBuilder &builder, Location location, const HostTensor &tensor, const Triangle &triangle) {
  Dims row(tensor.dims().size(), 1), column(tensor.dims().size(), 1);
  size_t last = row.size() - 1;
  row[last - 1] = tensor.dims()[last - 1];
  column[last] = tensor.dims()[last];
  Type integer = builder.getI64Type();
  Value rows = iota(builder, location, row, integer, static_cast<int64_t>(last) - 1, static_cast<double>(triangle.k), 1);
  Value columns = iota(builder, location, column, integer, static_cast<int64_t>(last), 0, 1);
  Value inside = nn::CompareOp::create(builder, location, columns, rows, triangle.lower ? "le" : "ge");
  if (tensor.type() == DType::boolean)
    return triangle.inside != 0 ? inside : nn::NotOp::create(builder, location, inside.getType(), inside).getResult();
  Value a = makeConstant(builder, location, HostTensor::splat(tensor.type(), {}, triangle.inside));
  Value b = makeConstant(builder, location, HostTensor::splat(tensor.type(), {}, triangle.outside));
  return nn::SelectOp::create(builder, location, inside, a, b);
}

} // namespace

Value recognizeConstant(OpBuilder &builder, Location location, const HostTensor &tensor) {
  if (std::optional<double> value = uniform(tensor))
    return makeConstant(builder, location, HostTensor::splat(tensor.type(), tensor.dims(), *value));
  if (std::optional<Progression> found = progression(tensor)) {
    Dims line(tensor.dims().size(), 1);
    line[static_cast<size_t>(found->dimension)] = tensor.dims()[static_cast<size_t>(found->dimension)];
    Type element = mlirType(builder.getContext(), tensor.type());
    Value positions = iota(builder, location, line, element, found->dimension, found->start, found->step);
    if (line == tensor.dims())
      return positions;
    return nn::BroadcastOp::create(builder, location, nn::tensorOf(tensor.dims(), element), positions);
  }
  if (std::optional<Triangle> found = triangle(tensor))
    return emitTriangle(builder, location, tensor, *found);
  return {};
}

} // namespace mt::onnx
