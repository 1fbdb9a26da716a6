// Gradients that leave a backward template in 32 bits although the values they belong to are bf16: of parameters, and
// of values that several layers add to. The kernel that makes such a gradient writes its 32-bit sum where the
// catalogue says it can; only gradient operations are changed, so that recomputed activations keep their bits.
#ifndef MT_PASSES_LAYERS_WIDENGRADIENTS_H
#define MT_PASSES_LAYERS_WIDENGRADIENTS_H
#include "compiler/nn/Nn.h"

namespace mt::passes {

/// Whether the gradient of a value of this type is widened where it leaves a template: it is bf16.
bool isWidened(mlir::Type type);
/// The type of a gradient that leaves a template widened: that of its value, bf16 in 32 bits.
mlir::RankedTensorType widened(mlir::Type type);

/// The value of one use of a gradient, in 32 bits. Operations from `first` to the end of its block are gradient
/// operations and may be changed; `builder` stands where casts can go.
mlir::Value widenGradient(mlir::OpBuilder &builder, mlir::Operation *first, mlir::OpOperand &use);

} // namespace mt::passes
#endif
