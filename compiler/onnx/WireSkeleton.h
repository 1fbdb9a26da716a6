// A model file without its weights: walks the protobuf wire format of an ONNX file, drops the bytes of large tensors,
// and notes in every tensor where in the file its bytes are. What remains is small and can be parsed as usual, however
// large the file is. Knows only which fields nest; everything else is copied as it stands.
#ifndef MT_COMPILER_ONNX_WIRESKELETON_H
#define MT_COMPILER_ONNX_WIRESKELETON_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mt::onnx {

/// Payloads of more bytes than this are left in the file.
inline constexpr uint64_t kInlinePayload = 64 * 1024;

/// A serialized ModelProto in which TensorProto.segment of every tensor with contiguous payload (raw_data, float_data
/// or double_data) holds that payload's first and last-plus-one byte in the file, and payloads above kInlinePayload
/// are gone. Errors: bytes that are no protobuf message, or end too early; nesting that is too deep; tensors that
/// carry a segment of their own.
Result<std::string> wireSkeleton(std::span<const std::byte> file);

} // namespace mt::onnx
#endif
