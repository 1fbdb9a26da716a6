// Where the rows of a batch are in a value: the domain of the analysis that tells whether rows see each other
// (passes/nn/BatchFlow.h), in the sense of the operations (RowsOpInterface). Positions only: sizes are the types'.
#ifndef MT_COMPILER_NN_ROWS_H
#define MT_COMPILER_NN_ROWS_H
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

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

/// Where the rows are in the operands of an operation. Its rule asks about them, and what it asks is noted: what has to
/// change where there are fewer rows.
class OperandRows {
public:
  OperandRows(mlir::Operation *op, llvm::ArrayRef<Rows> rows)
      : op(op), rows(rows), places(rows.size()), terms(rows.size(), false) {}

  const Rows &operator[](size_t i) const { return rows[i]; }
  size_t size() const { return rows.size(); }
  auto begin() const { return rows.begin(); }
  auto end() const { return rows.end(); }

  /// Whether operand `i`, which does not depend on rows, treats alike all those that it meets where `at` says (a
  /// negative dimension: it has none such).
  bool meets(size_t i, const Rows &at);
  /// Whether operand `i`, which does not depend on rows, can be added to a sum over them, once for all of them: a part
  /// of the batch adds a part of it, which whole numbers have not.
  bool adds(size_t i);

  /// Where operand `i` was said to meet rows, in a dimension of any size but one; kind none: nowhere.
  const Rows &met(size_t i) const { return places[i]; }
  /// Whether operand `i`, not zero, was said to be added to a sum.
  bool isAdded(size_t i) const { return terms[i]; }

private:
  mlir::Operation *op;
  llvm::ArrayRef<Rows> rows;
  llvm::SmallVector<Rows> places;
  llvm::SmallVector<bool> terms;
};

/// Where the rows are in the results of any operation, given where they are in its operands: by its trait, by its
/// interface, or mixed.
Rows rowsOfResults(mlir::Operation *op, OperandRows &operands);

/// Where operands have what an operation's result has at `at`, as (operand, place): it is the same for all rows there
/// if they are at theirs. None: not known to be; empty: it is.
using Followed = llvm::SmallVector<std::pair<unsigned, Rows>>;
std::optional<Followed> followedAlong(mlir::Operation *op, const Rows &at);
/// Whether `value`, which does not depend on rows, is the same for all rows that `at` would have all the same: of size
/// one, repeated, a position along other dimensions.
bool isSameAlong(mlir::Value value, const Rows &at);

} // namespace mt::nn
#endif
