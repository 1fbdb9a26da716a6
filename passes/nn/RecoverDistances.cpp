// A bias of attention that depends on the distance of query and key alone - a table of relative positions, a slope
// times a distance - becomes one by distance, and one that depends on the difference of places in a window or a picture
// one by place: never a number for every pair.
#include "passes/nn/AlongLine.h"
#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
struct BiasAlongLine : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    int64_t queries = shapeOf(op.getQuery())[1], keys = shapeOf(op.getKey())[1];
    if (!op.getBias() || op.getKeyPlace() || queries == 1 || keys == 1 || shapeOf(op.getBias())[2] != queries ||
        shapeOf(op.getBias())[3] != keys)
      return failure();
    const Pairs pairs{2, 3, queries, keys};
    Value bias = op.getBias();
    ByPlace found;
    auto build = [&](auto make) {
      Block aside; // what is built in vain goes with it
      OpBuilder builder(op.getContext());
      builder.setInsertionPointToEnd(&aside);
      found = make(builder);
      if (found.line)
        op->getBlock()->getOperations().splice(op->getIterator(), aside.getOperations());
    };
    build([&](OpBuilder &builder) { return ByPlace{alongDistance(builder, bias, pairs), {}, {}}; });
    if (!found.line)
      build([&](OpBuilder &builder) { return alongPlace(builder, bias, pairs); });
    if (!found.line)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getBiasMutable().assign(found.line);
      if (found.queryPlace) {
        op.getQueryPlaceMutable().assign(found.queryPlace);
        op.getKeyPlaceMutable().assign(found.keyPlace);
      }
    });
    return success();
  }
};
} // namespace

void addDistancePatterns(RewritePatternSet &patterns) { patterns.add<BiasAlongLine>(patterns.getContext()); }

} // namespace mt::passes
