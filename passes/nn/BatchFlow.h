// Where the rows of the batch are in every value of a model's function, found by walking it once: whether a loss is a
// sum over rows, and what has to change where a micro-batch computes a part of it. mt-split-batch acts on it.
#ifndef MT_PASSES_NN_BATCHFLOW_H
#define MT_PASSES_NN_BATCHFLOW_H
#include "compiler/nn/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt::passes {

/// One change that makes micro-batches add up.
struct BatchEdit {
  enum Kind { scaleResult, scaleOperand, sumResult } kind; ///< by the share of the batch; over the step
  mlir::Operation *op;
  unsigned index = 0; ///< of the operand
  bool isMean = false; ///< of sumResult: the result is scaled before it is summed
};

/// An operand that does not depend on rows and meets them somewhere.
struct Meeting {
  mlir::Operation *op;
  unsigned index; ///< of the operand
  nn::Rows at;
};

struct BatchFlow {
  int64_t batch = 0; ///< rows that the function takes
  /// One, and the loss was added to the graph: nothing in it mixes rows, and all is of that one.
  bool isOneRow = false;
  mlir::Operation *alone =
      nullptr;         ///< of one row: the first operation that would let several see each other, as far as it tells
  std::string aloneBy; ///< what it does
  llvm::DenseMap<mlir::Value, nn::Rows> rows;
  std::vector<Meeting> meetings; ///< what there is as many times as there are rows
  std::vector<BatchEdit> edits;
  std::vector<mlir::Operation *> sums; ///< reductions over the rows
  mlir::Operation *culprit = nullptr; ///< the first operation in which rows see each other
  std::string reason;                 ///< what it does; empty: rows stay apart
};

/// Follows the rows, dimension 0 of every input and of the labels, through `main`, whose one result is the loss.
BatchFlow followRows(mlir::func::FuncOp main);
/// Where they are in `value`, of `main` before it has a loss; none: they see each other in what it is computed from, or
/// it does not depend on them.
std::optional<nn::Rows> rowsIn(mlir::Value value, mlir::func::FuncOp main);

} // namespace mt::passes
#endif
