// Inputs that are indices. Shared by the converters that pick elements or put them.
#ifndef MT_COMPILER_ONNX_INDEXPARTS_H
#define MT_COMPILER_ONNX_INDEXPARTS_H

#include "compiler/onnx/NodeContext.h"

namespace mt::onnx {

/// Input `index` as indices that a kernel takes, of 64 or 32 bits; null, with a problem, where they are no integers.
mlir::Value indicesOf(NodeContext &node, size_t index);
/// Entries of `value` along `axis` at known indices: a slice where they are a progression, else a gather.
mlir::Value pickedAt(NodeContext &node, mlir::Value value, int64_t axis, const std::vector<int64_t> &indices);

} // namespace mt::onnx
#endif
