#include "compiler/onnx/EvaluateShapes.h"

#include <cmath>
#include <functional>
#include <numeric>

namespace mt::onnx {
namespace {

using Tensors = std::optional<std::vector<HostTensor>>;
using Tensor = std::optional<HostTensor>;
using Evaluator = Tensors (*)(const EvaluatedNode &);

Tensors one(Tensor tensor) {
  if (!tensor)
    return std::nullopt;
  return std::vector<HostTensor>{std::move(*tensor)};
}

const HostTensor *input(const EvaluatedNode &node, size_t index) {
  return index < node.inputs.size() ? node.inputs[index] : nullptr;
}

Dims stridesOf(const Dims &dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// A tensor of `dims` whose element at `index` is element pick(index) of `source`.
Tensor picked(const HostTensor &source, const Dims &dims, const std::function<int64_t(const Dims &)> &pick) {
  std::optional<int64_t> count = elementCount(dims);
  if (!count)
    return std::nullopt;
  if (source.isSplat())
    return source.real() ? HostTensor::splat(source.type(), dims, source.realAt(0))
                         : HostTensor::splatInteger(source.type(), dims, source.intAt(0));
  if (*count > kEvaluateResult)
    return std::nullopt;
  std::vector<int64_t> ints;
  std::vector<double> reals;
  Dims strides = stridesOf(dims), index(dims.size());
  for (int64_t i = 0; i < *count; ++i) {
    for (size_t d = 0; d < dims.size(); ++d)
      index[d] = i / strides[d] % dims[d];
    int64_t at = pick(index);
    if (source.real())
      reals.push_back(source.realAt(at));
    else
      ints.push_back(source.intAt(at));
  }
  return source.real() ? HostTensor::ofReals(source.type(), dims, std::move(reals))
                       : HostTensor::ofIntegers(source.type(), dims, std::move(ints));
}

Tensor broadcastTo(const HostTensor &source, const Dims &dims) {
  size_t lead = dims.size() - source.dims().size();
  Dims strides = stridesOf(source.dims());
  return picked(source, dims, [&](const Dims &index) {
    int64_t at = 0;
    for (size_t d = 0; d < source.dims().size(); ++d)
      at += source.dims()[d] == 1 ? 0 : index[lead + d] * strides[d];
    return at;
  });
}

//===-- elementwise -----------------------------------------------------------------------------------------===//

// Broadcasts all inputs and applies `combine` to each tuple of elements.
Tensor elementwise(const std::vector<const HostTensor *> &inputs, DType result,
                   const std::function<double(const std::vector<double> &)> &real,
                   const std::function<int64_t(const std::vector<int64_t> &)> &integer) {
  Dims dims = inputs[0]->dims();
  bool splat = true, reals = false;
  for (const HostTensor *tensor : inputs) {
    std::optional<Dims> both = broadcastDims(dims, tensor->dims());
    if (!both)
      return std::nullopt;
    dims = *both;
    splat = splat && tensor->isSplat();
    reals = reals || tensor->real();
  }
  std::vector<HostTensor> wide;
  for (const HostTensor *tensor : inputs) {
    Tensor same = broadcastTo(*tensor, dims);
    if (!same)
      return std::nullopt;
    wide.push_back(std::move(*same));
  }
  std::optional<int64_t> count = elementCount(dims);
  if (!count || (!splat && *count > kEvaluateResult))
    return std::nullopt;
  std::vector<double> realValues;
  std::vector<int64_t> intValues;
  for (int64_t i = 0; i < (splat ? 1 : *count); ++i) {
    std::vector<double> r;
    std::vector<int64_t> n;
    for (const HostTensor &tensor : wide) {
      r.push_back(tensor.realAt(i));
      n.push_back(tensor.intAt(i));
    }
    if (reals)
      realValues.push_back(real(r));
    else
      intValues.push_back(integer(n));
  }
  if (splat)
    return reals ? HostTensor::splat(result, dims, realValues[0]) : HostTensor::splatInteger(result, dims, intValues[0]);
  if (!isFloat(result) && reals) // what no integer holds becomes the nearest
    return HostTensor::ofReals(DType::f64, dims, std::move(realValues)).converted(result);
  if (isFloat(result) && !reals)
    realValues.assign(intValues.begin(), intValues.end());
  return isFloat(result) ? HostTensor::ofReals(result, dims, std::move(realValues))
                         : HostTensor::ofIntegers(result, dims, std::move(intValues));
}

bool allPresent(const EvaluatedNode &node, size_t count) {
  if (node.inputs.size() < count)
    return false;
  for (const HostTensor *tensor : node.inputs)
    if (!tensor)
      return false;
  return true;
}

template <auto Real, auto Integer> Tensors binary(const EvaluatedNode &node) {
  if (!allPresent(node, 2) || node.inputs[0]->type() != node.inputs[1]->type())
    return std::nullopt;
  return one(elementwise(
      {node.inputs[0], node.inputs[1]}, node.inputs[0]->type(), [](const auto &v) { return Real(v[0], v[1]); },
      [](const auto &v) { return Integer(v[0], v[1]); }));
}
template <auto Real, auto Integer> Tensors compare(const EvaluatedNode &node) {
  if (!allPresent(node, 2))
    return std::nullopt;
  return one(elementwise(
      {node.inputs[0], node.inputs[1]}, DType::boolean, [](const auto &v) { return double(Real(v[0], v[1])); },
      [](const auto &v) { return int64_t(Integer(v[0], v[1])); }));
}
template <auto Real> Tensors realUnary(const EvaluatedNode &node) {
  if (!allPresent(node, 1) || !node.inputs[0]->real())
    return std::nullopt;
  return one(elementwise({node.inputs[0]}, node.inputs[0]->type(), [](const auto &v) { return double(Real(v[0])); },
                         [](const auto &v) { return v[0]; }));
}
template <auto Real, auto Integer> Tensors unary(const EvaluatedNode &node) {
  if (!allPresent(node, 1))
    return std::nullopt;
  return one(elementwise({node.inputs[0]}, node.inputs[0]->type(), [](const auto &v) { return Real(v[0]); },
                         [](const auto &v) { return Integer(v[0]); }));
}
template <auto Real, auto Integer> Tensors variadic(const EvaluatedNode &node) {
  if (!allPresent(node, 1))
    return std::nullopt;
  return one(elementwise(
      node.inputs, node.inputs[0]->type(),
      [](const auto &v) { return std::accumulate(v.begin() + 1, v.end(), v[0], Real); },
      [](const auto &v) { return std::accumulate(v.begin() + 1, v.end(), v[0], Integer); }));
}

// Integer arithmetic wraps; done unsigned so that it may.
int64_t addInt(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
int64_t subInt(int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); }
int64_t mulInt(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
int64_t divInt(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? subInt(0, a) : a / b; }
int64_t modInt(int64_t a, int64_t b) {
  if (b == 0 || b == -1)
    return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
int64_t negateInt(int64_t a) { return subInt(0, a); }
int64_t absoluteInt(int64_t a) { return a < 0 ? negateInt(a) : a; }
/// a to the power of b; towards zero where that is a fraction.
int64_t powInt(int64_t a, int64_t b) {
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; b > 0; b /= 2, a = mulInt(a, a))
    if (b % 2)
      result = mulInt(result, a);
  return result;
}
double modReal(double a, double b) { return std::fmod(a, b); }
double addReal(double a, double b) { return a + b; }
double subReal(double a, double b) { return a - b; }
double mulReal(double a, double b) { return a * b; }
double divReal(double a, double b) { return a / b; }
double powReal(double a, double b) { return std::pow(a, b); }
template <typename T> T larger(T a, T b) { return a > b ? a : b; }
template <typename T> T smaller(T a, T b) { return a < b ? a : b; }
template <typename T> bool equal(T a, T b) { return a == b; }
template <typename T> bool less(T a, T b) { return a < b; }
template <typename T> bool lessOrEqual(T a, T b) { return a <= b; }
template <typename T> bool greater(T a, T b) { return a > b; }
template <typename T> bool greaterOrEqual(T a, T b) { return a >= b; }
template <typename T> bool both(T a, T b) { return a != 0 && b != 0; }
template <typename T> bool either(T a, T b) { return a != 0 || b != 0; }
template <typename T> bool notBoth(T a, T b) { return (a != 0) != (b != 0); }
template <typename T> T signOf(T a) { return T(a > 0) - T(a < 0); }
template <typename T> T logicalNot(T a) { return a == 0; }
double negateReal(double a) { return -a; }
double absoluteReal(double a) { return std::fabs(a); }
double squareRoot(double a) { return std::sqrt(a); }
double reciprocal(double a) { return 1 / a; }
double floorOf(double a) { return std::floor(a); }
double ceilOf(double a) { return std::ceil(a); }
double roundOf(double a) { return std::nearbyint(a); }
double expOf(double a) { return std::exp(a); }
double logOf(double a) { return std::log(a); }

Tensors power(const EvaluatedNode &node) {
  if (!allPresent(node, 2))
    return std::nullopt;
  return one(elementwise({node.inputs[0], node.inputs[1]}, node.inputs[0]->type(), [](const auto &v) { return powReal(v[0], v[1]); },
                         [](const auto &v) { return powInt(v[0], v[1]); }));
}

Tensors where(const EvaluatedNode &node) {
  if (!allPresent(node, 3) || node.inputs[1]->type() != node.inputs[2]->type())
    return std::nullopt;
  return one(elementwise(node.inputs, node.inputs[1]->type(), [](const auto &v) { return v[0] != 0 ? v[1] : v[2]; },
                         [](const auto &v) { return v[0] != 0 ? v[1] : v[2]; }));
}

Tensors identity(const EvaluatedNode &node) {
  return allPresent(node, 1) ? one(*node.inputs[0]) : std::nullopt;
}
Tensors cast(const EvaluatedNode &node) {
  std::optional<DType> type = elementType(static_cast<int>(node.attributes->integer("to", 0)));
  if (!allPresent(node, 1) || !type)
    return std::nullopt;
  return one(node.inputs[0]->converted(*type));
}
Tensors castLike(const EvaluatedNode &node) {
  return allPresent(node, 2) ? one(node.inputs[0]->converted(node.inputs[1]->type())) : std::nullopt;
}

//===-- structure -------------------------------------------------------------------------------------------===//

// Axes from the second input or the attribute (opsets differ); none if absent.
std::optional<std::vector<int64_t>> axesOf(const EvaluatedNode &node) {
  if (const HostTensor *axes = input(node, 1))
    return axes->toIntegers();
  return node.attributes->integers("axes");
}

Tensors squeeze(const EvaluatedNode &node) {
  const HostTensor *data = input(node, 0);
  if (!data)
    return std::nullopt;
  std::optional<std::vector<int64_t>> axes = axesOf(node);
  std::vector<bool> drop(data->dims().size());
  for (size_t d = 0; d < drop.size() && !axes; ++d)
    drop[d] = data->dims()[d] == 1;
  for (int64_t axis : axes.value_or(std::vector<int64_t>())) {
    std::optional<int64_t> at = frontAxis(axis, data->rank());
    if (!at || data->dims()[static_cast<size_t>(*at)] != 1)
      return std::nullopt;
    drop[static_cast<size_t>(*at)] = true;
  }
  Dims dims;
  for (size_t d = 0; d < drop.size(); ++d)
    if (!drop[d])
      dims.push_back(data->dims()[d]);
  return one(data->reshaped(dims));
}

Tensors unsqueeze(const EvaluatedNode &node) {
  const HostTensor *data = input(node, 0);
  std::optional<std::vector<int64_t>> axes = axesOf(node);
  if (!data || !axes)
    return std::nullopt;
  int64_t rank = data->rank() + static_cast<int64_t>(axes->size());
  Dims dims(static_cast<size_t>(rank), 0);
  for (int64_t axis : *axes) {
    std::optional<int64_t> at = frontAxis(axis, rank);
    if (!at || dims[static_cast<size_t>(*at)] == 1)
      return std::nullopt;
    dims[static_cast<size_t>(*at)] = 1;
  }
  size_t next = 0;
  for (int64_t &dim : dims)
    if (dim == 0)
      dim = data->dims()[next++];
  return one(data->reshaped(dims));
}

Tensors reshape(const EvaluatedNode &node) {
  if (!allPresent(node, 2))
    return std::nullopt;
  std::optional<Dims> dims = reshapeDims(node.inputs[0]->dims(), node.inputs[1]->toIntegers(),
                                         node.attributes->integer("allowzero", 0) != 0);
  if (!dims)
    return std::nullopt;
  return one(node.inputs[0]->reshaped(*dims));
}

Tensors expand(const EvaluatedNode &node) {
  if (!allPresent(node, 2))
    return std::nullopt;
  std::optional<Dims> dims = broadcastDims(node.inputs[0]->dims(), node.inputs[1]->toIntegers());
  return dims ? one(broadcastTo(*node.inputs[0], *dims)) : std::nullopt;
}

Tensors transpose(const EvaluatedNode &node) {
  const HostTensor *data = input(node, 0);
  if (!data)
    return std::nullopt;
  Dims reversed(data->dims().size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  Dims order = node.attributes->integers("perm").value_or(reversed);
  if (order.size() != data->dims().size())
    return std::nullopt;
  Dims dims, strides = stridesOf(data->dims());
  for (int64_t axis : order) {
    if (axis < 0 || axis >= data->rank())
      return std::nullopt;
    dims.push_back(data->dims()[static_cast<size_t>(axis)]);
  }
  return one(picked(*data, dims, [&](const Dims &index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += index[d] * strides[static_cast<size_t>(order[d])];
    return at;
  }));
}

Tensors concat(const EvaluatedNode &node) {
  if (!allPresent(node, 1) || node.inputs[0]->rank() != 1)
    return std::nullopt;
  std::vector<double> reals;
  std::vector<int64_t> ints;
  for (const HostTensor *tensor : node.inputs) {
    if (tensor->rank() != 1 || tensor->type() != node.inputs[0]->type() || tensor->elements() > kEvaluateResult)
      return std::nullopt;
    for (int64_t i = 0; i < tensor->elements(); ++i) {
      reals.push_back(tensor->realAt(i));
      ints.push_back(tensor->intAt(i));
    }
  }
  Dims dims{static_cast<int64_t>(ints.size())};
  DType type = node.inputs[0]->type();
  return one(isFloat(type) ? HostTensor::ofReals(type, dims, reals) : HostTensor::ofIntegers(type, dims, ints));
}

Tensors gather(const EvaluatedNode &node) {
  if (!allPresent(node, 2))
    return std::nullopt;
  const HostTensor &data = *node.inputs[0], &indices = *node.inputs[1];
  std::optional<int64_t> axis = frontAxis(node.attributes->integer("axis", 0), data.rank());
  if (!axis || data.rank() != 1)
    return std::nullopt;
  int64_t size = data.dims()[0];
  for (int64_t i = 0; i < indices.elements(); ++i)
    if (indices.intAt(i) < -size || indices.intAt(i) >= size)
      return std::nullopt;
  Dims strides = stridesOf(indices.dims());
  return one(picked(data, indices.dims(), [&](const Dims &index) {
    int64_t at = indices.intAt(std::inner_product(index.begin(), index.end(), strides.begin(), int64_t(0)));
    return at < 0 ? at + size : at;
  }));
}

/// How exporters write that an entry is repeated: one-hot places as factors of a Tile.
Tensors oneHot(const EvaluatedNode &node) {
  if (!allPresent(node, 3) || node.inputs[1]->elements() != 1 || node.inputs[2]->elements() != 2)
    return std::nullopt;
  const HostTensor &ids = *node.inputs[0], &values = *node.inputs[2];
  int64_t depth = node.inputs[1]->intAt(0);
  std::optional<int64_t> axis = frontAxis(node.attributes->integer("axis", -1), ids.rank() + 1);
  if (!axis || depth < 1)
    return std::nullopt;
  Dims dims = ids.dims(), strides = stridesOf(ids.dims());
  dims.insert(dims.begin() + *axis, depth);
  strides.insert(strides.begin() + *axis, 0);
  return one(picked(values, dims, [&](const Dims &index) -> int64_t {
    int64_t id = ids.intAt(std::inner_product(index.begin(), index.end(), strides.begin(), int64_t(0)));
    return index[static_cast<size_t>(*axis)] == (id < 0 ? id + depth : id) ? 1 : 0;
  }));
}

/// Input `index`, or in older operator sets the attribute, as a list; empty where there is neither.
Dims listOf(const EvaluatedNode &node, size_t index, const char *attribute) {
  if (const HostTensor *tensor = input(node, index))
    return tensor->toIntegers();
  return node.attributes->integers(attribute).value_or(Dims());
}
/// What an axis is cut to; all of it at first.
std::optional<std::vector<SliceBounds>> boundsOf(const EvaluatedNode &node, const Dims &dims) {
  Dims starts = listOf(node, 1, "starts"), ends = listOf(node, 2, "ends"), axes = listOf(node, 3, "axes"),
       steps = listOf(node, 4, "steps");
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  steps.resize(steps.empty() ? starts.size() : steps.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return std::nullopt;
  std::vector<SliceBounds> bounds;
  for (int64_t size : dims)
    bounds.push_back({0, size, 1});
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = frontAxis(axes[i], static_cast<int64_t>(dims.size()));
    if (!axis || steps[i] == 0)
      return std::nullopt;
    auto at = static_cast<size_t>(*axis);
    bounds[at] = sliceBounds(starts[i], ends[i], steps[i], dims[at]);
  }
  return bounds;
}
Tensors slice(const EvaluatedNode &node) {
  const HostTensor *data = input(node, 0);
  auto bounds = data ? boundsOf(node, data->dims()) : std::nullopt;
  if (!bounds)
    return std::nullopt;
  Dims dims, strides = stridesOf(data->dims());
  for (const SliceBounds &bound : *bounds)
    dims.push_back(bound.count);
  return one(picked(*data, dims, [&](const Dims &index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += ((*bounds)[d].start + index[d] * (*bounds)[d].step) * strides[d];
    return at;
  }));
}

Tensors split(const EvaluatedNode &node) {
  const HostTensor *data = input(node, 0);
  if (!data || data->rank() != 1)
    return std::nullopt;
  auto parts = static_cast<int64_t>(node.outputs);
  int64_t each = (data->dims()[0] + parts - 1) / parts;
  std::vector<int64_t> sizes(node.outputs, each);
  sizes.back() = data->dims()[0] - each * (parts - 1);
  if (const HostTensor *given = input(node, 1))
    sizes = given->toIntegers();
  else if (auto attribute = node.attributes->integers("split"))
    sizes = *attribute;
  if (sizes.size() != node.outputs || std::accumulate(sizes.begin(), sizes.end(), int64_t(0)) != data->dims()[0])
    return std::nullopt;
  std::vector<HostTensor> results;
  for (int64_t start = 0; int64_t size : sizes) {
    Tensor part = size < 0 ? std::nullopt
                           : picked(*data, {size}, [start](const Dims &index) { return start + index[0]; });
    if (!part)
      return std::nullopt;
    results.push_back(std::move(*part));
    start += size;
  }
  return results;
}

// Reductions of a vector to one element, along axis 0 or all axes.
template <auto Real, auto Integer> Tensors reduce(const EvaluatedNode &node) {
  const HostTensor *data = input(node, 0);
  if (!data || data->rank() > 1 || data->elements() == 0 || data->elements() > kEvaluateResult)
    return std::nullopt;
  std::optional<std::vector<int64_t>> axes = axesOf(node);
  if (axes && axes->empty())
    return std::nullopt;
  Dims dims = node.attributes->integer("keepdims", 1) && data->rank() == 1 ? Dims{1} : Dims{};
  if (data->real()) {
    std::vector<double> v = data->toReals();
    return one(HostTensor::ofReals(data->type(), dims, {std::accumulate(v.begin() + 1, v.end(), v[0], Real)}));
  }
  std::vector<int64_t> v = data->toIntegers();
  return one(HostTensor::ofIntegers(data->type(), dims, {std::accumulate(v.begin() + 1, v.end(), v[0], Integer)}));
}

const std::map<std::string, Evaluator> &evaluators() {
  static const std::map<std::string, Evaluator> table = {
      {"Identity", identity},
      {"Cast", cast},
      {"CastLike", castLike},
      {"Add", binary<addReal, addInt>},
      {"Sub", binary<subReal, subInt>},
      {"Mul", binary<mulReal, mulInt>},
      {"Div", binary<divReal, divInt>},
      {"Mod", binary<modReal, modInt>},
      {"Pow", power},
      {"Max", variadic<larger<double>, larger<int64_t>>},
      {"Min", variadic<smaller<double>, smaller<int64_t>>},
      {"Sum", variadic<addReal, addInt>},
      {"Neg", unary<negateReal, negateInt>},
      {"Abs", unary<absoluteReal, absoluteInt>},
      {"Sign", unary<signOf<double>, signOf<int64_t>>},
      {"Not", unary<logicalNot<double>, logicalNot<int64_t>>},
      {"Sqrt", realUnary<squareRoot>},
      {"Reciprocal", realUnary<reciprocal>},
      {"Floor", realUnary<floorOf>},
      {"Ceil", realUnary<ceilOf>},
      {"Round", realUnary<roundOf>},
      {"Exp", realUnary<expOf>},
      {"Log", realUnary<logOf>},
      {"Equal", compare<equal<double>, equal<int64_t>>},
      {"Less", compare<less<double>, less<int64_t>>},
      {"LessOrEqual", compare<lessOrEqual<double>, lessOrEqual<int64_t>>},
      {"Greater", compare<greater<double>, greater<int64_t>>},
      {"GreaterOrEqual", compare<greaterOrEqual<double>, greaterOrEqual<int64_t>>},
      {"And", compare<both<double>, both<int64_t>>},
      {"Or", compare<either<double>, either<int64_t>>},
      {"Xor", compare<notBoth<double>, notBoth<int64_t>>},
      {"Where", where},
      {"Squeeze", squeeze},
      {"Unsqueeze", unsqueeze},
      {"Reshape", reshape},
      {"Expand", expand},
      {"Transpose", transpose},
      {"Concat", concat},
      {"Gather", gather},
      {"OneHot", oneHot},
      {"Slice", slice},
      {"Split", split},
      {"ReduceSum", reduce<addReal, addInt>},
      {"ReduceProd", reduce<mulReal, mulInt>},
      {"ReduceMax", reduce<larger<double>, larger<int64_t>>},
      {"ReduceMin", reduce<smaller<double>, smaller<int64_t>>},
  };
  return table;
}

} // namespace

std::optional<std::vector<HostTensor>> evaluateShapes(const EvaluatedNode &node) {
  auto at = evaluators().find(node.op);
  if (at == evaluators().end())
    return std::nullopt;
  for (const HostTensor *tensor : node.inputs)
    if (tensor && !tensor->isSplat() && tensor->elements() > kEvaluateInput)
      return std::nullopt;
  return at->second(node);
}

std::optional<int64_t> frontAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return std::nullopt;
  return axis < 0 ? axis + rank : axis;
}

std::optional<Dims> broadcastDims(const Dims &a, const Dims &b) {
  Dims dims = a.size() >= b.size() ? a : b;
  const Dims &other = a.size() >= b.size() ? b : a;
  size_t lead = dims.size() - other.size();
  for (size_t d = 0; d < other.size(); ++d) {
    int64_t &dim = dims[lead + d];
    if (dim != other[d] && dim != 1 && other[d] != 1)
      return std::nullopt;
    dim = dim == 1 ? other[d] : dim;
  }
  for (int64_t dim : dims)
    if (dim < 0)
      return std::nullopt;
  return dims;
}

// ONNX Slice: bounds count from the end where negative, and are clamped to what exists.
SliceBounds sliceBounds(int64_t start, int64_t end, int64_t step, int64_t size) {
  auto clamp = [](int64_t value, int64_t low, int64_t high) { return value < low ? low : value > high ? high : value; };
  if (start < 0)
    start = start < -size ? -1 : start + size;
  if (end < 0)
    end = end < -size ? -1 : end + size;
  start = step > 0 ? clamp(start, 0, size) : clamp(start, 0, size - 1);
  end = step > 0 ? clamp(end, 0, size) : clamp(end, -1, size - 1);
  if (size == 0 || (step > 0 ? start >= end : start <= end))
    return {0, 0, step > 0 ? step : 1};
  uint64_t span = step > 0 ? uint64_t(end - start) : uint64_t(start - end);
  uint64_t stride = step > 0 ? uint64_t(step) : uint64_t(0) - uint64_t(step);
  return {start, int64_t((span + stride - 1) / stride), step};
}

std::optional<Dims> reshapeDims(const Dims &from, const std::vector<int64_t> &target, bool allowZero) {
  std::optional<int64_t> count = elementCount(from);
  Dims dims = target;
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0 && !allowZero) {
      if (d >= from.size())
        return std::nullopt;
      dims[d] = from[d];
    }
    if (dims[d] == -1) {
      if (open)
        return std::nullopt;
      open = d;
    } else if (dims[d] < 0 || __builtin_mul_overflow(known, dims[d], &known)) {
      return std::nullopt;
    }
  }
  if (!count)
    return std::nullopt;
  if (open) {
    if (known == 0 || *count % known != 0)
      return std::nullopt;
    dims[*open] = *count / known;
    known *= dims[*open];
  }
  return known == *count ? std::optional<Dims>(dims) : std::nullopt;
}

} // namespace mt::onnx
