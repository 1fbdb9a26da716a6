#include "compiler/onnx/TensorSource.h"

#include "kernels/Blocks.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace mt::onnx {
namespace {

using Proto = ::onnx::TensorProto;

// IEEE 754 binary16 to a double.
double fromHalf(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  int mantissa = bits & 1023;
  double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31)
    return mantissa ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}
double fromBfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

template <typename T> T load(const std::byte *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

double realFrom(DType type, const std::byte *at) {
  if (type == DType::f32)
    return load<float>(at);
  if (type == DType::f64)
    return load<double>(at);
  uint16_t bits = load<uint16_t>(at);
  return type == DType::f16 ? fromHalf(bits) : fromBfloat(bits);
}

int64_t integerFrom(DType type, const std::byte *at) {
  switch (type) {
  case DType::i64:
    return load<int64_t>(at);
  case DType::i32:
    return load<int32_t>(at);
  case DType::i16:
    return load<int16_t>(at);
  case DType::i8:
    return load<int8_t>(at);
  default:
    return load<uint8_t>(at);
  }
}

HostTensor fromBytes(const TensorSource &source, const std::byte *at) {
  uint64_t step = elementBytes(source.type);
  if (isFloat(source.type)) {
    std::vector<double> values;
    for (int64_t i = 0; i < source.elements; ++i)
      values.push_back(realFrom(source.type, at + i * step));
    return HostTensor::ofReals(source.type, source.dims, std::move(values));
  }
  std::vector<int64_t> values;
  for (int64_t i = 0; i < source.elements; ++i)
    values.push_back(integerFrom(source.type, at + i * step));
  return HostTensor::ofIntegers(source.type, source.dims, std::move(values));
}

// Elements that the message's typed lists hold (int32_data serves all narrow types).
int64_t listedElements(const Proto &tensor, DType type) {
  switch (type) {
  case DType::f32:
    return tensor.float_data_size();
  case DType::f64:
    return tensor.double_data_size();
  case DType::i64:
    return tensor.int64_data_size();
  default:
    return tensor.int32_data_size();
  }
}

HostTensor fromLists(const TensorSource &source) {
  const Proto &tensor = *source.proto;
  std::vector<double> reals;
  std::vector<int64_t> integers;
  for (int i = 0; i < source.elements; ++i) {
    if (source.type == DType::f32)
      reals.push_back(tensor.float_data(i));
    else if (source.type == DType::f64)
      reals.push_back(tensor.double_data(i));
    else if (source.type == DType::f16)
      reals.push_back(fromHalf(static_cast<uint16_t>(tensor.int32_data(i))));
    else if (source.type == DType::bf16)
      reals.push_back(fromBfloat(static_cast<uint16_t>(tensor.int32_data(i))));
    else
      integers.push_back(source.type == DType::i64 ? tensor.int64_data(i) : tensor.int32_data(i));
  }
  return isFloat(source.type) ? HostTensor::ofReals(source.type, source.dims, std::move(reals))
                              : HostTensor::ofIntegers(source.type, source.dims, std::move(integers));
}

Status locateInside(TensorSource &source, uint64_t bytes) {
  const Proto &tensor = *source.proto;
  if (tensor.has_segment()) {
    auto begin = static_cast<uint64_t>(tensor.segment().begin());
    uint64_t length = static_cast<uint64_t>(tensor.segment().end()) - begin;
    if (length != bytes)
      return fail("it has {} bytes of values where its shape {} needs {}", length, dimsText(source.dims), bytes);
    source.bytes = {source.file->path, begin, length};
    return {};
  }
  int64_t listed = listedElements(tensor, source.type);
  if (listed != source.elements)
    return fail("it has {} values where its shape {} needs {}", listed, dimsText(source.dims), source.elements);
  return {};
}

} // namespace

Result<TensorSource> locateTensor(const Proto &tensor, const ModelFile &file) {
  std::optional<DType> type = elementType(tensor.data_type());
  std::optional<PackedType> packed = packedType(tensor.data_type());
  if (packed)
    type = DType::u8;
  if (!type)
    return fail("element type {} is not supported: export with float32, float16, bfloat16, int or bool tensors",
                onnxTypeName(tensor.data_type()));
  TensorSource source;
  source.name = tensor.name();
  source.type = *type;
  source.dims.assign(tensor.dims().begin(), tensor.dims().end());
  source.proto = &tensor;
  source.file = &file;
  std::optional<int64_t> elements = elementCount(source.dims);
  if (!elements)
    return fail("its shape {} is negative or absurdly large", dimsText(source.dims));
  source.elements = *elements;
  if (packed) {
    source.packed = packed;
    source.packedDims = source.dims;
    source.elements = kernels::ceilDivide(source.elements * packed->bits, 8);
    source.dims = {source.elements};
  }
  uint64_t bytes = static_cast<uint64_t>(source.elements) * elementBytes(source.type);
  MT_ASSIGN(source.generator, generatorOf(tensor));
  if (!source.generator.kind.empty())
    return source;
  if (tensor.data_location() == Proto::EXTERNAL) {
    MT_ASSIGN(source.bytes, externalRange(tensor, file.folder, bytes));
  } else {
    MT_TRY(locateInside(source, bytes));
  }
  return source;
}

Result<HostTensor> readTensor(const TensorSource &source) {
  if (!source.generator.kind.empty()) {
    if (source.generator.kind == "normal")
      return fail("its values are generated when training starts and are not known when compiling");
    double value = source.generator.kind == "ones" ? 1 : source.generator.kind == "zeros" ? 0 : source.generator.value;
    return HostTensor::splat(source.type, source.dims, value);
  }
  if (source.bytes.path.empty())
    return fromLists(source);
  if (source.bytes.path == source.file->path) {
    MT_ASSIGN(auto view, source.file->file.view(source.bytes.offset, source.bytes.length));
    return fromBytes(source, view.data());
  }
  MT_ASSIGN(MappedFile external, MappedFile::open(source.bytes.path));
  MT_ASSIGN(auto view, external.view(source.bytes.offset, source.bytes.length));
  return fromBytes(source, view.data());
}

Result<HostTensor> readNumbers(const TensorSource &source) {
  MT_ASSIGN(HostTensor bytes, readTensor(source));
  const int bits = source.packed->bits, each = 8 / bits, low = source.packed->isSigned ? 1 << (bits - 1) : 0;
  std::vector<int64_t> numbers(static_cast<size_t>(*elementCount(source.packedDims)));
  for (size_t i = 0; i < numbers.size(); ++i) {
    int64_t byte = bytes.intAt(static_cast<int64_t>(i) / each);
    numbers[i] = ((byte >> (static_cast<int>(i) % each * bits) & ((1 << bits) - 1)) ^ low) - low;
  }
  return HostTensor::ofIntegers(source.packed->wide(), source.packedDims, std::move(numbers));
}

Result<std::vector<double>> readElements(const TensorSource &source, const std::vector<int64_t> &indices) {
  if (!source.generator.kind.empty() || source.bytes.path.empty() || !isFloat(source.type))
    return fail("its values cannot be read in place");
  MT_ASSIGN(MappedFile file, MappedFile::open(source.bytes.path));
  MT_ASSIGN(auto view, file.view(source.bytes.offset, source.bytes.length));
  std::vector<double> values;
  for (int64_t index : indices)
    values.push_back(realFrom(source.type, view.data() + static_cast<uint64_t>(index) * elementBytes(source.type)));
  return values;
}

} // namespace mt::onnx
