// Stored tensors that follow a simple rule, as that rule: one value, positions, a triangle or band, numbers of
// relative positions. Static exports fold positions and masks into tensors of S x S elements; here they become iota and
// comparisons again, so that masks are recognized and nothing grows with the square of the sequence.
#ifndef MT_COMPILER_ONNX_RECOGNIZECONSTANTS_H
#define MT_COMPILER_ONNX_RECOGNIZECONSTANTS_H

#include "compiler/onnx/HostTensor.h"

#include "mlir/IR/Builders.h"

namespace mt::onnx {

/// Operations that compute `tensor`; null where it follows no rule that is known here.
mlir::Value recognizeConstant(mlir::OpBuilder &builder, mlir::Location location, const HostTensor &tensor);

} // namespace mt::onnx
#endif
