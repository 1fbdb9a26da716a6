// Which keys a query sees by position alone, as nn.attention can say it, and whether a formula over positions is such a
// rule. Decided on the cells that the formula's thresholds cut the scores into, so nothing grows with the sequence and
// the order of the formula's parts plays no role.
#ifndef MT_PASSES_NN_POSITIONRULE_H
#define MT_PASSES_NN_POSITIONRULE_H
#include "passes/nn/IndexExpression.h"

namespace mt::passes {

/// Coordinates of attention scores, and their sizes.
enum Coordinate : int64_t { kBatch, kHead, kQuery, kKey };
struct ScoreShape {
  int64_t batch, heads, queries, keys;
};

/// A key is seen where low <= query - key <= high, a multiple of `dilation`, or key < prefix.
struct PositionRule {
  int64_t low = INT64_MIN, high = INT64_MAX, prefix = 0, dilation = 1;
};

/// The rule that holds for exactly the queries and keys of `shape` for which `rule` and all `formulas` (over the
/// coordinates of scores, without loads) hold; `rule` says nothing of a dilation, nor does what is found. None if no
/// rule does, if a query would see no key (what softmax makes of a row that is hidden as a whole is for the mask to
/// say), or if there are too many thresholds.
std::optional<PositionRule> conjunctionOf(const PositionRule &rule, llvm::ArrayRef<ExpressionRef> formulas,
                                          ScoreShape shape);

} // namespace mt::passes
#endif
