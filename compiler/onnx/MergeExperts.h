// Mixtures of experts that are written as a loop over the experts, each for the rows that chose it.
#ifndef MT_COMPILER_ONNX_MERGEEXPERTS_H
#define MT_COMPILER_ONNX_MERGEEXPERTS_H

#include "compiler/onnx/NodeContext.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt::onnx {

/// Notes at the operation of a value that its rows are selected by a mask; `masks` counts those. mergeExperts finds them
/// by these notes, whatever has been erased in between.
void noteRows(mlir::Value value, const Selection &rows, int64_t &masks);

/// Notes that a value is another one, its first choice, wherever rows count.
void noteGuard(mlir::Value value);

/// Notes that a guarded value is gathered as coordinates of the mask point to it, so many views above what it is
/// gathered from.
void noteTaken(mlir::Value value, const Selection &rows, int64_t views);
/// Notes that a value is one to which rows were added or chosen as coordinates point, these so many views above what
/// was given, from so many layers of places that share one: those along dimension `layer` of the mask, -1 where it is
/// not one of what the mask compares.
void notePut(mlir::Value value, const Selection &rows, int64_t views = 0, int64_t layers = 1, int64_t layer = -1);

/// Element `at` of a constant of whole numbers; none where a value is something else, or has no such element.
std::optional<int64_t> wholeNumberAt(mlir::Value value, int64_t at);

/// The attributes of an operation without these notes.
mlir::DictionaryAttr withoutNotes(mlir::Operation *op);

/// Computes once, each row by the expert that it chose (nn.expert_matmul), what is computed for every expert from the
/// rows of its own: where masks compare one tensor of choices with one number after another, and all experts do the
/// same with parameters of their own. What their rows are put into, one expert after another, is put at once. Removes
/// the notes.
void mergeExperts(mlir::func::FuncOp function);

} // namespace mt::onnx
#endif
