// Lookups that are simpler operations: gather_nd by one index is a gather, and a gather of one fixed entry is a slice.
#include "passes/nn/IndexExpression.h"
#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// gather_nd(data, indices [.., 1]) -> gather(data, indices [..]) along dimension 0.
struct GatherNdByOneIndex : OpRewritePattern<GatherNdOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherNdOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> indices = shapeOf(op.getIndices());
    if (op.getBatchDims() != 0 || indices.empty() || indices.back() != 1)
      return failure();
    Value places = reshapeTo(rewriter, op.getIndices(), indices.drop_back());
    rewriter.replaceOpWithNewOp<GatherOp>(op, op.getData(), places, 0);
    return success();
  }
};

/// gather_nd(data, [row, place ..]) of each row's own number -> gather_nd(data, [place ..]) row by row.
struct GatherNdByRows : OpRewritePattern<GatherNdOp> {
  using OpRewritePattern::OpRewritePattern;
  /// Whether entry i along the first dimension is i.
  static bool countsRows(Value value) {
    IndexEvaluator evaluator(shapeOf(value));
    ExpressionRef element = evaluator.element(value, evaluator.indicesFor(value));
    return element && element->kind == Expression::affine && element->number.coordinate() == 0;
  }
  LogicalResult matchAndRewrite(GatherNdOp op, PatternRewriter &rewriter) const override {
    auto concat = op.getIndices().getDefiningOp<ConcatOp>();
    ArrayRef<int64_t> indices = shapeOf(op.getIndices());
    if (op.getBatchDims() != 0 || !concat || indices.size() < 2 || concat.getAxis() + 1 != indices.size() ||
        indices[0] != shapeOf(op.getData())[0] || concat.getInputs().size() < 2)
      return failure();
    Value rows = concat.getInputs().front();
    if (shapeOf(rows).back() != 1 || !countsRows(rows))
      return failure();
    SmallVector<Value> rest(concat.getInputs().drop_front());
    Value places =
        rest.size() == 1 ? rest[0] : ConcatOp::create(rewriter, concat.getLoc(), rest, concat.getAxis()).getResult();
    rewriter.replaceOpWithNewOp<GatherNdOp>(op, op.getData(), places, 1);
    return success();
  }
};

/// gather(data, one constant) -> a slice of size one. Backwards a slice is a pad, where a gather is a scatter.
struct GatherOfOneEntry : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    auto place = splatValue(op.getIndices());
    if (!place || cast<ShapedType>(op.getIndices().getType()).getNumElements() != 1)
      return failure();
    SmallVector<int64_t> sizes(shapeOf(op.getData())), starts(sizes.size(), 0), strides(sizes.size(), 1);
    int64_t axis = op.getAxis(), start = int64_t(*place) + (*place < 0 ? sizes[axis] : 0);
    if (start < 0 || start >= sizes[axis])
      return failure();
    sizes[axis] = 1;
    starts[axis] = start;
    Value slice = SliceOp::create(rewriter, op.getLoc(), op.getData(), starts, sizes, strides);
    rewriter.replaceOp(op, reshapeTo(rewriter, slice, shapeOf(op.getResult())));
    return success();
  }
};
} // namespace

void addLookupPatterns(RewritePatternSet &patterns) {
  patterns.add<GatherNdByOneIndex, GatherNdByRows, GatherOfOneEntry>(patterns.getContext());
}

} // namespace mt::passes
