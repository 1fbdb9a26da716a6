#include "compiler/onnx/HostTensor.h"

#include <cmath>
#include <limits>

namespace mt::onnx {
namespace {

double rounded(DType type, double value) { return type == DType::f64 ? value : double(static_cast<float>(value)); }

int64_t truncated(double value) {
  if (std::isnan(value))
    return 0;
  if (value >= 9.2e18)
    return std::numeric_limits<int64_t>::max();
  if (value <= -9.2e18)
    return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

int64_t wrapped(DType type, int64_t value) {
  switch (type) {
  case DType::i32:
    return static_cast<int32_t>(value);
  case DType::i16:
    return static_cast<int16_t>(value);
  case DType::i8:
    return static_cast<int8_t>(value);
  case DType::u8:
    return static_cast<uint8_t>(value);
  case DType::boolean:
    return value != 0;
  default:
    return value;
  }
}

} // namespace

void HostTensor::finish() {
  count = elementCount(shape).value_or(0);
  for (double &value : reals)
    value = rounded(elementType, value);
  for (int64_t &value : ints)
    value = wrapped(elementType, value);
}

HostTensor HostTensor::integers(std::vector<int64_t> values) {
  auto size = static_cast<int64_t>(values.size());
  return ofIntegers(DType::i64, {size}, std::move(values));
}

HostTensor HostTensor::integerScalar(int64_t value) { return ofIntegers(DType::i64, {}, {value}); }

HostTensor HostTensor::ofIntegers(DType type, Dims dims, std::vector<int64_t> values) {
  HostTensor tensor;
  tensor.elementType = type;
  tensor.shape = std::move(dims);
  tensor.ints = std::move(values);
  tensor.finish();
  tensor.uniform = tensor.count == 1;
  return tensor;
}

HostTensor HostTensor::ofReals(DType type, Dims dims, std::vector<double> values) {
  HostTensor tensor;
  tensor.elementType = type;
  tensor.shape = std::move(dims);
  tensor.reals = std::move(values);
  tensor.finish();
  tensor.uniform = tensor.count == 1;
  return tensor;
}

HostTensor HostTensor::splat(DType type, Dims dims, double value) {
  HostTensor tensor = isFloat(type) ? ofReals(type, std::move(dims), {value})
                                    : ofIntegers(type, std::move(dims), {truncated(value)});
  tensor.uniform = true;
  return tensor;
}

HostTensor HostTensor::splatInteger(DType type, Dims dims, int64_t value) {
  HostTensor tensor = isFloat(type) ? ofReals(type, std::move(dims), {double(value)})
                                    : ofIntegers(type, std::move(dims), {value});
  tensor.uniform = true;
  return tensor;
}

double HostTensor::realAt(int64_t index) const {
  auto at = static_cast<size_t>(uniform ? 0 : index);
  return real() ? reals[at] : static_cast<double>(ints[at]);
}

int64_t HostTensor::intAt(int64_t index) const {
  auto at = static_cast<size_t>(uniform ? 0 : index);
  return real() ? truncated(reals[at]) : ints[at];
}

std::vector<int64_t> HostTensor::toIntegers() const {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(intAt(i));
  return values;
}

std::vector<double> HostTensor::toReals() const {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(realAt(i));
  return values;
}

HostTensor HostTensor::reshaped(Dims dims) const {
  HostTensor tensor = *this;
  tensor.shape = std::move(dims);
  return tensor;
}

HostTensor HostTensor::converted(DType type) const {
  HostTensor tensor;
  tensor.elementType = type;
  tensor.shape = shape;
  for (int64_t i = 0; i < stored(); ++i) {
    if (isFloat(type))
      tensor.reals.push_back(realAt(i));
    else
      tensor.ints.push_back(type == DType::boolean && real() ? realAt(i) != 0 : intAt(i));
  }
  tensor.finish();
  tensor.uniform = uniform;
  return tensor;
}

} // namespace mt::onnx
