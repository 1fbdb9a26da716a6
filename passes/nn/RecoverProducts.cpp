// Patterns around matrix products: transposes become flags, added rows become biases, and the detours that exporters
// make through other shapes go.
#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
bool swapsLastTwo(ArrayRef<int64_t> order) {
  int64_t rank = order.size();
  if (rank < 2 || order[rank - 1] != rank - 2 || order[rank - 2] != rank - 1)
    return false;
  return llvm::equal(order.drop_back(2), llvm::seq<int64_t>(0, rank - 2));
}
TransposeOp swapOf(Value value) {
  auto transpose = value.getDefiningOp<TransposeOp>();
  return transpose && swapsLastTwo(transpose.getPermutation()) ? transpose : nullptr;
}

/// matmul(x, transpose(w)) -> matmul(x, w) {transposeRhs}, and the same on the left.
struct TransposeToFlag : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    auto left = swapOf(op.getLhs()), right = swapOf(op.getRhs());
    if (!left && !right)
      return failure();
    Value lhs = left ? left.getOperand() : op.getLhs(), rhs = right ? right.getOperand() : op.getRhs();
    rewriter.replaceOpWithNewOp<MatmulOp>(op, lhs, rhs, op.getBias(), op.getTransposeLhs() != bool(left),
                                          op.getTransposeRhs() != bool(right));
    return success();
  }
};

/// add(matmul(x, w), row) -> matmul(x, w, row), also with a view that keeps rows between them.
struct RowToBias : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    for (auto [sum, other] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      if (!sum.hasOneUse() || sum.getType() != op.getType() || shapeOf(other).size() > shapeOf(sum).size())
        continue;
      auto view = sum.getDefiningOp<ReshapeOp>();
      auto matmul = (view ? view.getOperand() : sum).getDefiningOp<MatmulOp>();
      if (!matmul || matmul.getBias() || !matmul->hasOneUse() || shapeOf(matmul).back() != shapeOf(sum).back())
        continue;
      if (view)
        rewriter.setInsertionPoint(op);
      Value row = asRow(rewriter, other, shapeOf(sum).back());
      if (!row)
        continue;
      Value biased = MatmulOp::create(rewriter, matmul.getLoc(), matmul.getLhs(), matmul.getRhs(), row,
                                      matmul.getTransposeLhs(), matmul.getTransposeRhs());
      rewriter.replaceOp(op, reshapeTo(rewriter, biased, shapeOf(sum)));
      return success();
    }
    return failure();
  }
};

/// reshape(transpose(x [N, a, b], [0, 2, 1]), [.., b, a]) -> transpose of the last two dimensions of reshape(x, [.., a, b]):
/// the detour that exporters take to transpose keys.
struct TransposeAfterView : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto transpose = swapOf(op.getOperand());
    ArrayRef<int64_t> y = shapeOf(op.getResult());
    if (!transpose || !transpose->hasOneUse() || y.size() <= shapeOf(transpose).size() || y.take_back(2) != shapeOf(transpose).take_back(2))
      return failure();
    SmallVector<int64_t> shape(y), order = llvm::to_vector(llvm::seq<int64_t>(0, y.size()));
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, reshapeTo(rewriter, transpose.getOperand(), shape), order);
    return success();
  }
};

/// A transpose that only moves dimensions of size one is a view.
struct TransposeToView : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> shape = shapeOf(op.getOperand());
    int64_t last = -1;
    for (int64_t i : op.getPermutation()) {
      if (shape[i] == 1)
        continue;
      if (i < last)
        return failure();
      last = i;
    }
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getOperand());
    return success();
  }
};
} // namespace

void addProductPatterns(RewritePatternSet &patterns) {
  patterns.add<TransposeToFlag, RowToBias, TransposeAfterView, TransposeToView>(patterns.getContext());
}

} // namespace mt::passes
