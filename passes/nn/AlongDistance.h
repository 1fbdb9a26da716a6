// Tensors over queries and keys whose elements depend on their distance alone - relative positions, and what is
// computed and looked up with them - as tensors over distances: what grows with the square of the sequence then grows
// with it.
#ifndef MT_PASSES_NN_ALONGDISTANCE_H
#define MT_PASSES_NN_ALONGDISTANCE_H
#include "compiler/nn/Nn.h"

namespace mt::passes {

/// Dimensions of a tensor that are queries and keys, and their numbers, both more than one.
struct Pairs {
  int64_t queryDim, keyDim, queries, keys;
  int64_t distances() const { return queries + keys - 1; }
};

/// `value` with one element for its queries and `distances()` for its keys: what it has at (q, k) is at k - q + queries
/// - 1. Null where that is not known of it. Builds operations at `builder`.
mlir::Value alongDistance(mlir::OpBuilder &builder, mlir::Value value, const Pairs &pairs);

} // namespace mt::passes
#endif
