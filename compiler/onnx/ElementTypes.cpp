#include "compiler/onnx/ElementTypes.h"

#include "third_party/onnx/onnx-ml.pb.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mt::onnx {

std::optional<DType> elementType(int onnxType) {
  switch (onnxType) {
  case ::onnx::TensorProto::FLOAT:
    return DType::f32;
  case ::onnx::TensorProto::BFLOAT16:
    return DType::bf16;
  case ::onnx::TensorProto::FLOAT16:
    return DType::f16;
  case ::onnx::TensorProto::DOUBLE:
    return DType::f64;
  case ::onnx::TensorProto::INT64:
    return DType::i64;
  case ::onnx::TensorProto::INT32:
    return DType::i32;
  case ::onnx::TensorProto::INT16:
    return DType::i16;
  case ::onnx::TensorProto::INT8:
    return DType::i8;
  case ::onnx::TensorProto::UINT8:
    return DType::u8;
  case ::onnx::TensorProto::BOOL:
    return DType::boolean;
  default:
    return std::nullopt;
  }
}

std::optional<PackedType> packedType(int onnxType) {
  switch (onnxType) {
  case ::onnx::TensorProto::INT4:
    return PackedType{4, true};
  case ::onnx::TensorProto::UINT4:
    return PackedType{4, false};
  case ::onnx::TensorProto::INT2:
    return PackedType{2, true};
  case ::onnx::TensorProto::UINT2:
    return PackedType{2, false};
  default:
    return std::nullopt;
  }
}

std::string onnxTypeName(int onnxType) {
  if (!::onnx::TensorProto::DataType_IsValid(onnxType))
    return fmt::format("type {}", onnxType);
  std::string name = ::onnx::TensorProto::DataType_Name(static_cast<::onnx::TensorProto::DataType>(onnxType));
  for (char &letter : name)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return name;
}

uint64_t elementBytes(DType type) {
  switch (type) {
  case DType::f64:
  case DType::i64:
    return 8;
  case DType::f32:
  case DType::i32:
    return 4;
  case DType::bf16:
  case DType::f16:
  case DType::i16:
    return 2;
  case DType::i8:
  case DType::u8:
  case DType::boolean:
    return 1;
  }
  return 1;
}

std::optional<int64_t> elementCount(const Dims &dims) {
  constexpr int64_t limit = int64_t(1) << 56;
  int64_t count = 1; // of those that are not zero: strides must fit too
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0 || dim > limit || (dim != 0 && count > limit / dim))
      return std::nullopt;
    count *= dim == 0 ? 1 : dim;
    empty |= dim == 0;
  }
  return empty ? 0 : count;
}

std::string dimsText(const Dims &dims) { return dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, "x")); }

} // namespace mt::onnx
