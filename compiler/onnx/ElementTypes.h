// ONNX element types as ours: the one table between TensorProto.DataType and kernels::DType. Free of MLIR.
#ifndef MT_COMPILER_ONNX_ELEMENTTYPES_H
#define MT_COMPILER_ONNX_ELEMENTTYPES_H

#include "kernels/Catalogue.h"

#include <optional>
#include <string>

namespace mt::onnx {

using kernels::Dims;
using kernels::DType;

/// None for types we have no kernels for (strings, complex numbers, unsigned and narrow types).
std::optional<DType> elementType(int onnxType);
/// Whole numbers that ONNX packs into bytes, as many as fit, low bits first (INT4, UINT4, INT2, UINT2).
struct PackedType {
  int bits;
  bool isSigned;
  /// The narrowest type of ours that holds them.
  DType wide() const { return isSigned ? DType::i8 : DType::u8; }
};
std::optional<PackedType> packedType(int onnxType);
/// "float16", "uint32", ...: ONNX's own name.
std::string onnxTypeName(int onnxType);
uint64_t elementBytes(DType type);
/// Elements of a tensor; none if a dimension is negative, or the dimensions that are not 0 make more than 2^56 together.
std::optional<int64_t> elementCount(const Dims &dims);
/// "2x8x64", or "scalar".
std::string dimsText(const Dims &dims);

} // namespace mt::onnx
#endif
