// Tensors over queries and keys whose elements depend on one number that both have together - their distance, or the
// difference of places in a window or a picture - as tensors over that number, a line: relative positions, and what is
// computed and looked up with them. What grows with the square of the sequence then grows with it.
#ifndef MT_PASSES_NN_ALONGLINE_H
#define MT_PASSES_NN_ALONGLINE_H
#include "compiler/nn/Nn.h"

namespace mt::passes {

/// Dimensions of a tensor that are queries and keys, and their numbers, both more than one. They may be one dimension,
/// which has the keys of a query together.
struct Pairs {
  int64_t queryDim, keyDim, queries, keys;
};

/// `value` with one element for its queries and queries + keys - 1 for its keys: what it has at (q, k) is at k - q +
/// queries - 1. Null where that is not known of it. Builds operations at `builder`.
mlir::Value alongDistance(mlir::OpBuilder &builder, mlir::Value value, const Pairs &pairs);

/// What it has at (q, k) is in `line` at keyPlace[k] - queryPlace[q], which are vectors of integers (PairPlaces.h).
struct ByPlace {
  mlir::Value line, queryPlace, keyPlace;
};
/// The same by tables of indices that are known when the model is compiled; null values where there are none.
ByPlace alongPlace(mlir::OpBuilder &builder, mlir::Value value, const Pairs &pairs);

} // namespace mt::passes
#endif
