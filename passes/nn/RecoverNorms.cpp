// Patterns for normalization written out: RMS norm (arXiv 1910.07467) and layer norm (arXiv 1607.06450).
#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// mean(square(x)) + epsilon over the last dimension.
struct Variance {
  Value operand;
  double epsilon;
};

std::optional<Variance> matchVariance(Value value) {
  Sum sum = flattenSum(value);
  if (sum.terms.size() != 1 || sum.constant < 0)
    return std::nullopt;
  Value mean = sum.terms[0];
  auto reduce = mean.getDefiningOp<ReduceOp>();
  if (!reduce) { // sum / n
    Product product = flattenProduct(mean);
    reduce = product.factors.size() == 1 ? product.factors[0].getDefiningOp<ReduceOp>() : nullptr;
    if (!reduce || !reducesLast(reduce, "sum") || !isAbout(product.scale * shapeOf(reduce.getOperand()).back(), 1))
      return std::nullopt;
  } else if (!reducesLast(reduce, "mean")) {
    return std::nullopt;
  }
  Value operand = reduce.getKeepDims() ? squareOf(reduce.getOperand()) : Value();
  return operand ? std::optional(Variance{operand, sum.constant}) : std::nullopt;
}

/// v where `value` is v^(1/2).
Value rootOf(Value value) {
  if (auto sqrt = value.getDefiningOp<SqrtOp>())
    return sqrt.getOperand();
  if (auto pow = value.getDefiningOp<PowOp>())
    if (auto exponent = splatValue(pow.getRhs()); exponent && *exponent == 0.5)
      return pow.getLhs();
  return {};
}
/// v where `value` is v^(-1/2).
Value inverseRootOf(Value value) {
  if (auto rsqrt = value.getDefiningOp<RsqrtOp>())
    return rsqrt.getOperand();
  if (auto reciprocal = value.getDefiningOp<ReciprocalOp>())
    return rootOf(reciprocal.getOperand());
  if (auto div = value.getDefiningOp<DivOp>())
    if (auto one = splatValue(div.getLhs()); one && *one == 1)
      return rootOf(div.getRhs());
  if (auto pow = value.getDefiningOp<PowOp>())
    if (auto exponent = splatValue(pow.getRhs()); exponent && *exponent == -0.5)
      return pow.getLhs();
  return {};
}

/// x and (mean(y^2) + epsilon) of x * (..)^(-1/2) or x / (..)^(1/2).
std::optional<std::pair<Value, Variance>> matchScaled(Operation *op) {
  auto with = [](Value x, Value variance) -> std::optional<std::pair<Value, Variance>> {
    if (!variance)
      return std::nullopt;
    auto matched = matchVariance(variance);
    return matched ? std::optional(std::pair(x, *matched)) : std::nullopt;
  };
  if (auto mul = dyn_cast<MulOp>(op)) {
    if (auto found = with(mul.getLhs(), inverseRootOf(mul.getRhs())))
      return found;
    return with(mul.getRhs(), inverseRootOf(mul.getLhs()));
  }
  if (auto div = dyn_cast<DivOp>(op))
    return with(div.getLhs(), rootOf(div.getRhs()));
  return std::nullopt;
}

/// x where `value` is x - mean(x) over the last dimension.
Value centeredOf(Value value) {
  auto sub = value.getDefiningOp<SubOp>();
  auto mean = sub ? sub.getRhs().getDefiningOp<ReduceOp>() : nullptr;
  return mean && mean.getKeepDims() && reducesLast(mean, "mean") && mean.getOperand() == sub.getLhs() ? sub.getLhs() : Value();
}

template <typename Op> struct NormOf : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    auto matched = matchScaled(op);
    if (!matched || matched->first.getType() != op.getType() || !isa<FloatType>(getElementTypeOrSelf(op.getType())))
      return failure();
    auto [x, variance] = *matched;
    auto epsilon = rewriter.getF64FloatAttr(variance.epsilon);
    if (Value centered = centeredOf(x); centered && (variance.operand == x || centeredOf(variance.operand) == centered)) {
      auto norm = LayerNormOp::create(rewriter, op.getLoc(), centered, Value(), Value(), epsilon);
      rewriter.replaceOp(op, norm.getResult());
      return success();
    }
    if (variance.operand != x)
      return failure();
    auto norm = RmsNormOp::create(rewriter, op.getLoc(), x, Value(), epsilon);
    rewriter.replaceOp(op, norm.getResult());
    return success();
  }
};

/// norm(x) * row -> norm(x, gain = row)
struct GainOf : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    for (auto [norm, other] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      if (!norm.hasOneUse() || norm.getType() != op.getType() || splatValue(other))
        continue;
      auto rms = norm.getDefiningOp<RmsNormOp>();
      auto layer = norm.getDefiningOp<LayerNormOp>();
      if ((!rms || rms.getGain()) && (!layer || layer.getGain() || layer.getBias()))
        continue;
      Value row = asRow(rewriter, other, shapeOf(norm).back());
      if (!row)
        continue;
      Operation *scaled = rms ? RmsNormOp::create(rewriter, op.getLoc(), rms.getOperand(), row, rms.getEpsilonAttr()).getOperation()
                              : LayerNormOp::create(rewriter, op.getLoc(), layer.getOperand(), row, Value(), layer.getEpsilonAttr());
      rewriter.replaceOp(op, scaled->getResult(0));
      return success();
    }
    return failure();
  }
};

/// layer_norm(x, gain) + row -> layer_norm(x, gain, bias = row)
struct BiasOf : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    for (auto [norm, other] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto layer = norm.getDefiningOp<LayerNormOp>();
      if (!layer || layer.getBias() || !norm.hasOneUse() || norm != layer.getResult() || norm.getType() != op.getType() || splatValue(other))
        continue;
      Value row = asRow(rewriter, other, shapeOf(norm).back());
      if (!row)
        continue;
      auto biased = LayerNormOp::create(rewriter, op.getLoc(), layer.getOperand(), layer.getGain(), row, layer.getEpsilonAttr());
      rewriter.replaceOp(op, biased.getResult());
      return success();
    }
    return failure();
  }
};

/// softmax(x - max(x)) -> softmax(x), which takes its largest element out by itself.
struct ShiftedSoftmax : OpRewritePattern<SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SoftmaxOp op, PatternRewriter &rewriter) const override {
    auto shifted = op.getOperand().getDefiningOp<SubOp>();
    auto largest = shifted ? shifted.getRhs().getDefiningOp<ReduceOp>() : nullptr;
    if (!largest || largest.getOperand() != shifted.getLhs() || !largest.getKeepDims() || !reducesLast(largest, "max"))
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getOperandMutable().assign(shifted.getLhs()); });
    return success();
  }
};
} // namespace

void addNormPatterns(RewritePatternSet &patterns) {
  patterns.add<NormOf<MulOp>, NormOf<DivOp>, GainOf, BiasOf, ShiftedSoftmax>(patterns.getContext());
}

} // namespace mt::passes
