// A bias of attention that depends on the distance of query and key alone - a table of relative positions, a slope
// times a distance - becomes one by distance: never a number for every pair.
#include "passes/nn/AlongDistance.h"
#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
struct BiasByDistance : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    int64_t queries = shapeOf(op.getQuery())[1], keys = shapeOf(op.getKey())[1];
    if (!op.getBias() || queries == 1 || keys == 1 || shapeOf(op.getBias())[2] != queries ||
        shapeOf(op.getBias())[3] != keys)
      return failure();
    Block aside; // what is built in vain goes with it
    OpBuilder builder(op.getContext());
    builder.setInsertionPointToEnd(&aside);
    Value bias = alongDistance(builder, op.getBias(), {2, 3, queries, keys});
    if (!bias)
      return failure();
    op->getBlock()->getOperations().splice(op->getIterator(), aside.getOperations());
    rewriter.modifyOpInPlace(op, [&] { op.getBiasMutable().assign(bias); });
    return success();
  }
};
} // namespace

void addDistancePatterns(RewritePatternSet &patterns) { patterns.add<BiasByDistance>(patterns.getContext()); }

} // namespace mt::passes
