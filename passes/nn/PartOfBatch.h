// A model's function for a part of its batch, made out of the function for the whole: what the graph computes from the
// number of rows stays as it is for the whole.
#ifndef MT_PASSES_NN_PARTOFBATCH_H
#define MT_PASSES_NN_PARTOFBATCH_H
#include "passes/nn/BatchFlow.h"

namespace mt::passes {

/// Gives every value of `main` that has the rows of a batch of `flow.batch` (a multiple of `rows`) `rows` of them, the
/// arguments too. Rows must stay apart. Fails with a diagnostic where an operation does not take fewer of them.
llvm::LogicalResult takePart(mlir::func::FuncOp main, const BatchFlow &flow, int64_t rows);

} // namespace mt::passes
#endif
