// What mt-recover-ops does with the masks of attention whose probabilities are dropped: it stays written out, and so do
// they.
#ifndef MT_PASSES_NN_RESTATEMASKS_H
#define MT_PASSES_NN_RESTATEMASKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt::passes {

/// Masks that are a predicate of nn.attention become comparisons of positions, and of what rows of the batch bring.
void restateMasks(mlir::func::FuncOp function);

} // namespace mt::passes
#endif
