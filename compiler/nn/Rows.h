// Where the rows of a batch are in a value: the domain of the analysis that tells whether rows see each other
// (passes/BatchFlow.h), in the sense of the operations (RowsOpInterface). Positions only: sizes are the types'.
#ifndef MT_COMPILER_NN_ROWS_H
#define MT_COMPILER_NN_ROWS_H
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"

namespace mt::nn {

/// How a value depends on the rows of the batch.
struct Rows {
  enum Kind : uint8_t {
    none,  ///< not at all: parameters, constants, and what is the same for every micro-batch of a step
    each,  ///< row i of the batch determines elements (o, i, k) of dimension `dim`, seen as [outer, rows, inner]
    total, ///< a sum over rows, or what is linear in such sums
    mixed  ///< in another way
  };
  Kind kind = none;
  int64_t dim = 0, outer = 1, inner = 1;
  const char *reason = ""; ///< of mixed: what the operation does, to follow its name

  static Rows at(int64_t dim) { return {each, dim, 1, 1, ""}; }
  static Rows sum() { return {total, 0, 1, 1, ""}; }
  static Rows mixing(const char *reason) { return {mixed, 0, 1, 1, reason}; }
  bool isNone() const { return kind == none; }
  bool isEach() const { return kind == each; }
  /// The same rows in dimension `to`.
  Rows moved(int64_t to) const { return {kind, to, outer, inner, ""}; }
  bool operator==(const Rows &other) const {
    return kind == other.kind && (kind != each || (dim == other.dim && outer == other.outer && inner == other.inner));
  }
};

/// Where the rows are in the results of any operation, given where they are in its operands: by its trait, by its
/// interface, or mixed.
Rows rowsOfResults(mlir::Operation *op, llvm::ArrayRef<Rows> operands);
/// Whether `value`, which does not depend on rows, is the same along dimension `dim` all the same: of size one,
/// repeated, a position along other dimensions.
bool isSameAlong(mlir::Value value, int64_t dim);

} // namespace mt::nn
#endif
