// Products with experts: exporters look up a matrix for every row and multiply a batch of them; as one operation no
// matrix is copied, and each expert multiplies its own rows.
#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// Matrices [E, a, b] looked up by one number for each of a batch.
GatherOp lookedUp(Value value) {
  auto gather = value.getDefiningOp<GatherOp>();
  bool matrices = gather && gather.getAxis() == 0 && shapeOf(gather.getData()).size() == 3 &&
                  shapeOf(gather.getIndices()).size() == 1;
  return matrices ? gather : nullptr;
}

/// matmul(gather(w, experts), x [R, K, 1]) and matmul(x [R, 1, K], gather(w, experts)) -> expert_matmul(x [R, K], w,
/// experts)
struct LookedUpMatrices : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    GatherOp left = lookedUp(op.getLhs()), right = lookedUp(op.getRhs());
    if (op.getBias() || !left == !right)
      return failure();
    GatherOp matrices = left ? left : right;
    Value rows = left ? op.getRhs() : op.getLhs();
    ArrayRef<int64_t> result = shapeOf(op.getResult());
    if (result.size() != 3 || shapeOf(rows).size() != 3 || result[left ? 2 : 1] != 1)
      return failure();
    int64_t count = result[0], depth = cast<ShapedType>(rows.getType()).getNumElements() / count;
    // On the left a matrix is [N, K], on the right [K, N], unless it is transposed.
    bool transposed = left ? !op.getTransposeLhs() : op.getTransposeRhs();
    Value product = ExpertMatmulOp::create(rewriter, op.getLoc(), reshapeTo(rewriter, rows, {count, depth}),
                                           matrices.getData(), matrices.getIndices(), transposed);
    rewriter.replaceOp(op, reshapeTo(rewriter, product, result));
    return success();
  }
};
} // namespace

void addExpertPatterns(RewritePatternSet &patterns) { patterns.add<LookedUpMatrices>(patterns.getContext()); }

} // namespace mt::passes
