// Matrix products as ONNX means them - vectors, any batch dimensions, broadcast - on top of nn.matmul, which wants
// equal batch dimensions or none on its right. Shared by the converters that contain products.
#ifndef MT_COMPILER_ONNX_PRODUCTPARTS_H
#define MT_COMPILER_ONNX_PRODUCTPARTS_H

#include "compiler/onnx/NodeContext.h"

namespace mt::onnx {

/// numpy.matmul(lhs, rhs).
mlir::Value matmulOf(NodeContext &node, mlir::Value lhs, mlir::Value rhs);
/// One nn.matmul; `bias` may be null. Batch dimensions must already fit.
mlir::Value plainMatmul(NodeContext &node, mlir::Value lhs, mlir::Value rhs, mlir::Value bias = {},
                        bool transposeLhs = false, bool transposeRhs = false);

} // namespace mt::onnx
#endif
