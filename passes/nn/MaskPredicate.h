// What a mask lets through, found by symbolic evaluation: a tensor's element at (batch, head, query, key) as an
// expression over these indices. Masks are never evaluated by value, so nothing here grows with the sequence. What is
// found is equal to the mask for every query, key and input; anything else stays a tensor.
#ifndef MT_PASSES_NN_MASKPREDICATE_H
#define MT_PASSES_NN_MASKPREDICATE_H
#include "passes/nn/PositionRule.h"

namespace mt::passes {

/// The predicate of nn.attention (NnOps.td): which keys a query sees.
struct MaskPredicate {
  PositionRule position;
  mlir::Value keyMask;                  ///< [B, Sk] booleans, or null
  mlir::Value querySegment, keySegment; ///< [B, Sq], [B, Sk] integers, or null
};

/// Adds to `predicate` what the additive mask `bias` (zero where a key is seen, very negative elsewhere; it broadcasts
/// to the scores) says. False, with `predicate` as it was and the reason in `why`, if `bias` is not wholly such a mask
/// or says something that a predicate cannot. Operations that the predicate's operands need are built with `builder`.
bool addMask(mlir::OpBuilder &builder, mlir::Value bias, ScoreShape shape, MaskPredicate &predicate, std::string &why);
/// The same for a boolean tensor that tells where keys are seen, or hidden if `hides`.
bool addCondition(mlir::OpBuilder &builder, mlir::Value condition, bool hides, ScoreShape shape,
                  MaskPredicate &predicate, std::string &why);

} // namespace mt::passes
#endif
