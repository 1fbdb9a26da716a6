// Which inputs are the labels of a loss that is part of the model: those whose classes are picked out of predictions.
// What their values may be, which value does not count, and which places of a row are targets at all, where the model
// shifts or cuts them. mt-append-loss describes the inputs with it, mt-split-batch asks what does not count.
#ifndef MT_PASSES_NN_LOSSLABELS_H
#define MT_PASSES_NN_LOSSLABELS_H
#include "compiler/nn/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt::passes {

/// Gives every integer input of `main` that a loss picks classes by `nn.labels`, `nn.vocabulary` (the classes), and,
/// where they follow from the graph, `nn.ignored` (the value that does not count) and `nn.targets` ([begin, end) of the
/// targets in each dimension but the batch, where they are not all of it).
void describeLossLabels(mlir::func::FuncOp main);

/// Whether `value`, terms of a loss, is zero wherever labels do not count.
bool isZeroWhereIgnored(mlir::func::FuncOp main, mlir::Value value);

} // namespace mt::passes
#endif
