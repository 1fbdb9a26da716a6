// The windows of convolutions and pools as ONNX describes them - strides, dilations, pads given or automatic, sizes
// rounded up - as numbers that nn operations take.
#ifndef MT_COMPILER_ONNX_WINDOWPARTS_H
#define MT_COMPILER_ONNX_WINDOWPARTS_H

#include "compiler/onnx/NodeContext.h"

namespace mt::onnx {

/// One entry a dimension behind batch and channels. `high` may reach beyond the pads where sizes are rounded up.
struct Window {
  Dims size, strides, dilations, low, high, outputs;
  Dims beyond; ///< how far the last window reaches beyond the padded image

  int64_t places() const;
  bool isPadded() const;
  /// strides, dilations, low, high.
  llvm::SmallVector<mlir::NamedAttribute> attributes(NodeContext &node) const;
};

/// Strides, dilations and pads of the node as lists of `rank` numbers in their bounds, `low` and `high` being the pads
/// as they are written; none, with a problem, where they are wrong.
std::optional<Window> writtenWindow(NodeContext &node, llvm::ArrayRef<int64_t> size);

/// Windows of `size` over an image of these sizes; none, with a problem, where they do not fit.
std::optional<Window> windowOf(NodeContext &node, llvm::ArrayRef<int64_t> image, llvm::ArrayRef<int64_t> size);

/// `image` [N, C, ..] with so many zeros around it.
mlir::Value padded(NodeContext &node, mlir::Value image, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high);

} // namespace mt::onnx
#endif
