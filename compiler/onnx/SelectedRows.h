// Values with an entry for each place of a mask, of which only those count where the mask holds (Selection::rows): where
// that dimension goes through an operator.
#ifndef MT_COMPILER_ONNX_SELECTEDROWS_H
#define MT_COMPILER_ONNX_SELECTEDROWS_H

#include "compiler/onnx/NodeContext.h"

namespace mt::onnx {

/// The selection of input `index` where it is one of this kind; else null.
const Selection *selectionAt(const NodeContext &node, size_t index, Selection::Kind kind);

/// Whether input `index` is absent, or the one number, whatever is selected.
bool isNumber(const NodeContext &node, size_t index, int64_t number);

/// How many times the number of places where the mask holds element `at` of such sizes is; 0 for a plain number.
int64_t timesCount(const Selection &sizes, int64_t at);

/// What a mask selects, without columns.
Selection selectionBy(mlir::Value mask);
/// Whether two selections have the same number of entries, for the same places.
bool sameRows(const Selection &a, const Selection &b);
/// The mask along dimension `dim` of rows of this shape, which it broadcasts to.
mlir::Value maskAlong(NodeContext &node, const Selection &rows, size_t dim, llvm::ArrayRef<int64_t> shape);
/// `value`, whose dimension `dim` are such rows, with `number` in those that do not count.
mlir::Value countedOr(NodeContext &node, const Selection &rows, size_t dim, mlir::Value value, double number);

/// Where rows of coordinates point to, each of their columns a place along one of `sizes`, if to every one of these: the
/// dimensions of the mask behind each column, one after another.
struct Pointed {
  std::vector<size_t> dims;  ///< of the mask, in the order of columns
  std::vector<size_t> order; ///< the same, ascending
  std::vector<size_t> others; ///< dimensions that no column follows
};
std::optional<Pointed> pointedAt(const Selection &rows, llvm::ArrayRef<int64_t> sizes);

/// 0, 1, ... for rows that count: how many of them are before each. [entries of dimension 0]
mlir::Value numbersOf(NodeContext &node, const Selection &rows, mlir::Type integer);
/// `value`, whose dimension 0 are such rows, with those that count in front; behind them is nothing to use.
mlir::Value movedToFront(NodeContext &node, const Selection &rows, mlir::Value value);

/// Converts a node that takes rows, or sizes of such, by the converter of its operator, and says where its results have
/// them. Fails, without a message of its own, where the operator is none that lets rows be.
llvm::LogicalResult convertRows(NodeContext &node);

} // namespace mt::onnx
#endif
