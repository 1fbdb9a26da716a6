#include "compiler/onnx/RecognizeConstants.h"

#include "compiler/nn/PairPlaces.h"
#include "compiler/onnx/NodeContext.h"

#include <cmath>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr int64_t kExact = int64_t{1} << 53; // whole numbers that a double holds

bool isWhole(const HostTensor &tensor) { return tensor.type() == DType::i64 || tensor.type() == DType::i32; }

std::optional<double> uniform(const HostTensor &tensor) {
  for (int64_t i = 1; i < tensor.elements(); ++i)
    if (isWhole(tensor) ? tensor.intAt(i) != tensor.intAt(0) : tensor.realAt(i) != tensor.realAt(0))
      return std::nullopt;
  if (tensor.elements() && isWhole(tensor) && (tensor.intAt(0) > kExact || tensor.intAt(0) < -kExact))
    return std::nullopt;
  return tensor.elements() ? std::optional<double>(tensor.realAt(0)) : std::nullopt;
}

struct Progression {
  int64_t dimension = 0;
  double start = 0, step = 0;
};

// start + step * index along one dimension, the same along all others; integers of at least three positions.
std::optional<Progression> progression(const HostTensor &tensor) {
  if (!isWhole(tensor))
    return std::nullopt;
  for (int64_t i = 0; i < tensor.elements(); ++i)
    if (tensor.intAt(i) > kExact || tensor.intAt(i) < -kExact)
      return std::nullopt;
  int64_t inner = 1;
  for (int64_t d = tensor.rank(); d-- > 0; inner *= tensor.dims()[static_cast<size_t>(d)]) {
    int64_t size = tensor.dims()[static_cast<size_t>(d)];
    if (size < 3)
      continue;
    int64_t start = tensor.intAt(0), step = tensor.intAt(inner) - start;
    bool fits = step != 0 && std::abs(step) <= 2 * kExact / size; // as the last one does, and no product overflows
    for (int64_t i = 0; fits && i < tensor.elements(); ++i)
      fits = tensor.intAt(i) == start + step * (i / inner % size);
    if (fits)
      return Progression{d, static_cast<double>(start), static_cast<double>(step)};
  }
  return std::nullopt;
}

// A matrix of two values: `inside` where low <= column - row <= high.
struct Band {
  int64_t low = 0, high = 0;
  double inside = 0, outside = 0;
};

// The value on every diagonal of the last two dimensions, by column - row + rows - 1; none if a diagonal varies.
std::optional<std::vector<double>> diagonals(const HostTensor &tensor, int64_t rows, int64_t columns) {
  std::vector<std::optional<double>> found(static_cast<size_t>(rows + columns - 1));
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    auto &value = found[static_cast<size_t>(i % columns - i / columns % rows + rows - 1)];
    if (value && *value != tensor.realAt(i))
      return std::nullopt;
    value = tensor.realAt(i);
  }
  std::vector<double> values;
  for (const auto &value : found)
    values.push_back(*value);
  return values;
}

// The run of equal values around diagonal `at`, if everything else has one other value.
std::optional<Band> bandAround(const std::vector<double> &values, size_t at, int64_t rows) {
  size_t low = at, high = at;
  while (low > 0 && values[low - 1] == values[at])
    --low;
  while (high + 1 < values.size() && values[high + 1] == values[at])
    ++high;
  std::optional<double> other;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i >= low && i <= high)
      continue;
    if (other && *other != values[i])
      return std::nullopt;
    other = values[i];
  }
  if (!other || *other == values[at])
    return std::nullopt;
  return Band{int64_t(low) - rows + 1, int64_t(high) - rows + 1, values[at], *other};
}

// The same in every matrix of the tensor.
std::optional<Band> band(const HostTensor &tensor) {
  if (tensor.rank() < 2)
    return std::nullopt;
  int64_t rows = tensor.dims()[static_cast<size_t>(tensor.rank() - 2)], columns = tensor.dims().back();
  if (rows < 2 || columns < 2)
    return std::nullopt;
  auto values = diagonals(tensor, rows, columns);
  return values ? bandAround(*values, static_cast<size_t>(rows - 1), rows) : std::nullopt;
}

Value iota(OpBuilder &builder, Location location, ArrayRef<int64_t> shape, Type element, int64_t dimension,
           double start, double step) {
  return nn::IotaOp::create(builder, location, nn::tensorOf(shape, element),
                            static_cast<uint64_t>(dimension), APFloat(start), APFloat(step));
}

// low <= column - row <= high, as comparisons of indices.
Value emitInside(OpBuilder &builder, Location location, const Dims &dims, const Band &band) {
  Dims row(dims.size(), 1), column(dims.size(), 1);
  size_t last = dims.size() - 1;
  row[last - 1] = dims[last - 1];
  column[last] = dims[last];
  Type integer = builder.getI64Type();
  auto dimension = static_cast<int64_t>(last);
  Value columns = iota(builder, location, column, integer, dimension, 0, 1);
  auto bound = [&](int64_t offset, StringRef predicate) -> Value {
    Value rows = iota(builder, location, row, integer, dimension - 1, static_cast<double>(offset), 1);
    return nn::CompareOp::create(builder, location, columns, rows, predicate);
  };
  Value above = band.high < dims[last] - 1 ? bound(band.high, "le") : Value();
  Value below = band.low > 1 - dims[last - 1] ? bound(band.low, "ge") : Value();
  if (above && below)
    return nn::AndOp::create(builder, location, above, below);
  return above ? above : below;
}

Value emitBand(OpBuilder &builder, Location location, const HostTensor &tensor, const Band &band) {
  Value result = emitInside(builder, location, tensor.dims(), band);
  if (tensor.type() != DType::boolean) {
    Value a = makeConstant(builder, location, HostTensor::splat(tensor.type(), {}, band.inside));
    Value b = makeConstant(builder, location, HostTensor::splat(tensor.type(), {}, band.outside));
    result = nn::SelectOp::create(builder, location, result, a, b);
  } else if (band.inside == 0) {
    result = nn::NotOp::create(builder, location, result.getType(), result);
  }
  auto type = nn::tensorOf(tensor.dims(), mlirType(builder.getContext(), tensor.type()));
  return result.getType() == type ? result : nn::BroadcastOp::create(builder, location, type, result).getResult();
}

// A table of relative positions [.., S, S] or [.., S * S], too large to be a constant, as what it is at the difference
// of two places.
Value emitPlaces(OpBuilder &builder, Location location, const HostTensor &tensor) {
  const int64_t elements = tensor.elements();
  const auto size = static_cast<int64_t>(std::sqrt(static_cast<double>(elements)));
  bool isSquare = tensor.type() == DType::i64 && tensor.rank() > 0 && size * size == elements &&
                  (tensor.dims().back() == size || tensor.dims().back() == elements);
  if (!isSquare || elements <= nn::kConstantLimit)
    return {};
  std::vector<int64_t> table;
  for (int64_t i = 0; i < elements; ++i)
    table.push_back(tensor.intAt(i));
  std::optional<nn::PairPlaces> places = nn::findPairPlaces(table, size, size);
  if (!places || places->entries > nn::kConstantLimit)
    return {};
  auto constant = [&](const std::vector<int64_t> &values, ArrayRef<int64_t> shape) -> Value {
    auto type = RankedTensorType::get(shape, builder.getI64Type());
    return nn::ConstantOp::create(builder, location, DenseIntElementsAttr::get(type, ArrayRef<int64_t>(values)));
  };
  Value line = constant(*nn::alongPlaces(table, *places), {places->entries});
  Value entries =
      nn::SubOp::create(builder, location, constant(places->key, {1, size}), constant(places->query, {size, 1}));
  return nn::reshapeTo(builder, nn::GatherOp::create(builder, location, line, entries, 0), tensor.dims());
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
  if (std::optional<Band> found = band(tensor))
    return emitBand(builder, location, tensor, *found);
  return emitPlaces(builder, location, tensor);
}

} // namespace mt::onnx
