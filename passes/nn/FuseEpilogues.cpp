// mt-fuse-epilogues: products and what stands beside them.
#include "compiler/nn/KernelCall.h"
#include "passes/nn/Match.h"
#include "passes/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "passes/Passes.h.inc"
using namespace nn;

namespace {

/// Whether one use leads to one use, through views.
bool usedOnce(Value value) {
  for (; value.hasOneUse(); value = value.getDefiningOp<ReshapeOp>().getOperand())
    if (!value.getDefiningOp<ReshapeOp>())
      return true;
  return false;
}

/// x + matmul, or matmul + x, of one shape and type, where nothing else uses the product: the right one of two. The sum
/// keeps its shape - layers are cut and compared at it - so that views of a product lie before it, as views of its
/// rows.
struct SumWithProduct : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    if (op.getLhs().getType() != op.getRhs().getType())
      return failure();
    for (bool right : {true, false}) {
      Value value = right ? op.getRhs() : op.getLhs(), other = right ? op.getLhs() : op.getRhs();
      auto product = viewedBy(value).getDefiningOp<MatmulOp>();
      if (!product || !usedOnce(value) || getElementTypeOrSelf(product) != getElementTypeOrSelf(other))
        continue;
      Value lhs = rowsFor(product, shapeOf(op.getResult()), rewriter);
      if (!lhs)
        continue;
      rewriter.replaceOp(op, MatmulAddOp::create(rewriter, FusedLoc::get({product.getLoc(), op.getLoc()}, {}, getContext()),
                                                 lhs, product.getRhs(), other, product.getBias(),
                                                 product.getTransposeLhs(), product.getTransposeRhs()));
      return success();
    }
    return failure();
  }

  /// The left side with which the product has that shape; null if no view of it gives that.
  static Value rowsFor(MatmulOp product, ArrayRef<int64_t> shape, PatternRewriter &rewriter) {
    if (shapeOf(product) == shape)
      return product.getLhs();
    if (product.getTransposeLhs() || shapeOf(product.getRhs()).size() != 2 || shape.size() < 2 ||
        shapeOf(product).back() != shape.back())
      return nullptr;
    SmallVector<int64_t> rows(shape);
    rows.back() = shapeOf(product.getLhs()).back();
    return reshapeTo(rewriter, product.getLhs(), rows);
  }
};

/// x + the operand's gradient of a norm, where nothing else uses that and x is there before.
template <typename NormGrad> struct SumWithNormGradient : OpRewritePattern<AddOp> {
  using OpRewritePattern<AddOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    for (bool right : {true, false}) {
      Value value = right ? op.getRhs() : op.getLhs(), other = right ? op.getLhs() : op.getRhs();
      auto norm = value.getDefiningOp<NormGrad>();
      if (!norm || value != norm.getDoperand() || !value.hasOneUse() || norm.getAddend() ||
          other.getType() != value.getType() || value.getType() != norm.getOperand().getType() ||
          !isBefore(other, norm))
        continue;
      rewriter.modifyOpInPlace(norm, [&] { norm.getAddendMutable().assign(other); });
      rewriter.replaceOp(op, value);
      return success();
    }
    return failure();
  }

  static bool isBefore(Value value, Operation *op) {
    Operation *from = value.getDefiningOp();
    return !from || (from->getBlock() == op->getBlock() && from->isBeforeInBlock(op));
  }
};

/// gelu(matmul), with views between them: the product's other uses take it from the fused operation.
struct GeluOfProduct : OpRewritePattern<GeluOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GeluOp op, PatternRewriter &rewriter) const override {
    auto product = viewedBy(op.getOperand()).getDefiningOp<MatmulOp>();
    if (!product || op.getForm() != "tanh" || getElementTypeOrSelf(product) != getElementTypeOrSelf(product.getLhs()) ||
        product->getBlock() != op->getBlock())
      return failure();
    rewriter.setInsertionPoint(product);
    auto fused = MatmulGeluOp::create(rewriter, FusedLoc::get({product.getLoc(), op.getLoc()}, {}, getContext()),
                                      product.getLhs(), product.getRhs(), product.getBias(), product.getTransposeLhs(),
                                      product.getTransposeRhs());
    rewriter.replaceOp(product, fused.getInput());
    rewriter.setInsertionPoint(op);
    rewriter.replaceOp(op, reshapeTo(rewriter, fused.getResult(), shapeOf(op.getResult())));
    return success();
  }
};

/// activation_grad(input, matmul) where nothing else uses the product.
struct SlopeOfProduct : OpRewritePattern<ActivationGradOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ActivationGradOp op, PatternRewriter &rewriter) const override {
    Value gradient = op.getGradient();
    auto product = viewedBy(gradient).getDefiningOp<MatmulOp>();
    if (!product || op.getActivation() != "gelu_tanh" || product.getBias() || !usedOnce(gradient) ||
        getElementTypeOrSelf(product) != getElementTypeOrSelf(product.getLhs()))
      return failure();
    Value input = reshapeTo(rewriter, op.getOperand(), shapeOf(product));
    Value fused = MatmulGeluGradOp::create(rewriter, op.getLoc(), product.getType(), product.getLhs(), product.getRhs(),
                                           input, product.getTransposeLhs(), product.getTransposeRhs());
    rewriter.replaceOp(op, reshapeTo(rewriter, fused, shapeOf(op.getResult())));
    return success();
  }
};

/// matmul(a', b) and the sum over the rows of one of them.
struct SumsBesideProduct : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Whether the sum is over all dimensions but the last.
  static bool sumsRows(ReduceOp op) {
    int64_t rank = shapeOf(op.getOperand()).size();
    return op.getKind() == "sum" && rank >= 2 && llvm::equal(op.getAxes(), llvm::seq<int64_t>(0, rank - 1));
  }

  /// Whether a product sums over the rows of `rows`, seen as a matrix, on its left (or right) side.
  static bool sumsOver(MatmulOp product, Value rows, bool left) {
    Value side = left ? product.getLhs() : product.getRhs();
    bool isRows = viewedBy(side) == viewedBy(rows) && shapeOf(side).size() == 2 &&
                  shapeOf(side).back() == shapeOf(rows).back();
    return isRows && shapeOf(product.getLhs()).size() == 2 && shapeOf(product.getRhs()).size() == 2 &&
           !product.getBias() && (left ? product.getTransposeLhs() : !product.getTransposeRhs());
  }

  /// A product through a view of `rows`, whose uses all come after `op` if it stands before it.
  static MatmulOp productBeside(ReduceOp op, Value rows, bool &left) {
    SmallVector<Value> views = {viewedBy(rows)};
    for (size_t i = 0; i < views.size(); ++i)
      for (Operation *user : views[i].getUsers()) {
        if (auto view = dyn_cast<ReshapeOp>(user))
          views.push_back(view);
        auto product = dyn_cast<MatmulOp>(user);
        if (!product || product->getBlock() != op->getBlock())
          continue;
        left = sumsOver(product, rows, true);
        if ((left || sumsOver(product, rows, false)) && canMeet(product, op))
          return product;
      }
    return nullptr;
  }

  /// Whether the earlier of both can move to the later.
  static bool canMeet(Operation *one, Operation *other) {
    Operation *early = one->isBeforeInBlock(other) ? one : other, *late = early == one ? other : one;
    return llvm::all_of(early->getUsers(), [&](Operation *user) {
      return user->getBlock() == late->getBlock() && late->isBeforeInBlock(user);
    });
  }

  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    bool left = false;
    MatmulOp product = sumsRows(op) ? productBeside(op, op.getOperand(), left) : nullptr;
    if (!product)
      return failure();
    rewriter.setInsertionPointAfter(op->isBeforeInBlock(product) ? product.getOperation() : op.getOperation());
    auto sums = tensorOf(shapeOf(op.getOperand()).take_back(), getElementTypeOrSelf(op.getResult()));
    auto fused = MatmulSumsOp::create(rewriter, op.getLoc(), product.getType(), sums, product.getLhs(), product.getRhs(),
                                      left, product.getTransposeLhs(), product.getTransposeRhs());
    rewriter.replaceOp(product, fused.getResult());
    rewriter.replaceOp(op, reshapeTo(rewriter, fused.getSums(), shapeOf(op.getResult())));
    return success();
  }
};

/// A sum of zero-padded parts that together are the whole, side by side along one dimension, as the gradients of slices
/// are: their concatenation.
struct SumOfPads : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  static bool hasOneSum(Value value) { return value.hasOneUse() && isa<AddOp>(*value.user_begin()); }

  /// The pads of a tree of sums; empty if it has something else.
  static SmallVector<PadOp> padsOf(AddOp root) {
    SmallVector<PadOp> pads;
    SmallVector<Value> ways = {root.getLhs(), root.getRhs()};
    while (!ways.empty()) {
      Value value = ways.pop_back_val();
      auto sum = value.getDefiningOp<AddOp>();
      auto pad = value.getDefiningOp<PadOp>();
      if (value.getType() != root.getType() || !value.hasOneUse() || (!sum && !pad))
        return {};
      if (sum)
        ways.append({sum.getLhs(), sum.getRhs()});
      else
        pads.push_back(pad);
    }
    return pads;
  }

  /// The one dimension that a pad makes longer, by zeros around it; -1 if it does something else.
  static int64_t dimensionOf(PadOp pad) {
    int64_t found = -1;
    for (auto [d, low, high, interior] : llvm::enumerate(pad.getLow(), pad.getHigh(), pad.getInterior())) {
      if (low < 0 || high < 0 || interior != 0 || ((low > 0 || high > 0) && found != -1))
        return -1;
      found = low > 0 || high > 0 ? static_cast<int64_t>(d) : found;
    }
    return pad.getValue().isZero() ? found : -1;
  }

  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    if (hasOneSum(op)) // a part of a larger tree
      return failure();
    SmallVector<PadOp> pads = padsOf(op);
    const int64_t axis = pads.empty() ? -1 : dimensionOf(pads.front());
    if (axis < 0 || llvm::any_of(pads, [&](PadOp pad) { return dimensionOf(pad) != axis; }))
      return failure();
    llvm::sort(pads, [&](PadOp a, PadOp b) { return a.getLow()[axis] < b.getLow()[axis]; });
    int64_t at = 0;
    SmallVector<Value> parts;
    for (PadOp pad : pads) {
      if (pad.getLow()[axis] != at)
        return failure();
      at += shapeOf(pad.getOperand())[axis];
      parts.push_back(pad.getOperand());
    }
    if (at != shapeOf(op.getResult())[axis])
      return failure();
    rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), parts, axis);
    return success();
  }
};

struct FuseEpilogues : impl::FuseEpiloguesBase<FuseEpilogues> {
  using FuseEpiloguesBase::FuseEpiloguesBase;

  void runOnOperation() override {
    RewritePatternSet whole(&getContext()), templates(&getContext());
    whole.add<GeluOfProduct, SumWithProduct>(&getContext());
    templates.add<SumOfPads, SlopeOfProduct, SumsBesideProduct, SumWithProduct, SumWithNormGradient<LayerNormGradOp>,
                  SumWithNormGradient<RmsNormGradOp>>(&getContext());
    FrozenRewritePatternSet ofModel(std::move(whole)), ofTemplates(std::move(templates));
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(applyPatternsGreedily(function, function.getName() == kMainName ? ofModel : ofTemplates)))
        return signalPassFailure();
  }
};
} // namespace
} // namespace mt
