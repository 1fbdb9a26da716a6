// Patterns for activations written out: GELU in its forms (arXiv 1606.08415), SiLU, gated products (arXiv 2002.05202).
#include "passes/nn/Match.h"

#include <numbers>

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// u where `value` is 1 + f(u) for f one of Ops.
template <typename Op> Value insideOnePlus(Value value) {
  Sum sum = flattenSum(value);
  auto inner = sum.terms.size() == 1 && sum.constant == 1 ? sum.terms[0].getDefiningOp<Op>() : nullptr;
  return inner ? inner.getOperand() : Value();
}

/// Whether u = sqrt(2/pi) (x + 0.044715 x^3), in either of its groupings.
bool isTanhArgument(Value u, Value x) {
  constexpr double kCubic = 0.044715;
  const double outer = std::sqrt(2 / std::numbers::pi);
  Product product = flattenProduct(u);
  if (!isAbout(product.scale, outer))
    return false;
  if (product.factors.size() == 1) { // x + c x^3
    Sum sum = flattenSum(product.factors[0]);
    if (sum.constant != 0 || sum.terms.size() != 2 || !llvm::is_contained(sum.terms, x))
      return false;
    Product cubic = flattenProduct(sum.terms[0] == x ? sum.terms[1] : sum.terms[0]);
    for (Value &factor : cubic.factors) // x * (x * x), the square having other uses
      if (Value inner = squareOf(factor); inner == x && cubic.factors.size() == 2)
        return isAbout(cubic.scale, kCubic) && llvm::is_contained(cubic.factors, x);
    return isAbout(cubic.scale, kCubic) && cubic.factors.size() == 3 && llvm::all_equal(cubic.factors) && cubic.factors[0] == x;
  }
  if (product.factors.size() != 2 || !llvm::is_contained(product.factors, x))
    return false;
  Sum sum = flattenSum(product.factors[0] == x ? product.factors[1] : product.factors[0]); // x (1 + c x^2)
  if (sum.constant != 1 || sum.terms.size() != 1)
    return false;
  Product square = flattenProduct(sum.terms[0]);
  return isAbout(square.scale, kCubic) && square.factors.size() == 2 && square.factors[0] == x && square.factors[1] == x;
}

/// x * 0.5 * (1 + erf(x / sqrt 2)) and x * 0.5 * (1 + tanh(..)) -> gelu; x * sigmoid(x) -> silu; x * sigmoid(1.702 x).
struct ActivationOf : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult replaceGelu(MulOp op, Value x, StringRef form, PatternRewriter &rewriter) const {
    if (x.getType() != op.getType())
      return failure();
    rewriter.replaceOpWithNewOp<GeluOp>(op, x, rewriter.getStringAttr(form));
    return success();
  }

  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    Product product = flattenProduct(op);
    if (product.factors.size() != 2)
      return failure();
    for (auto [x, other] : {std::pair(product.factors[0], product.factors[1]), std::pair(product.factors[1], product.factors[0])}) {
      if (auto sigmoid = other.getDefiningOp<SigmoidOp>(); sigmoid && product.scale == 1) {
        if (sigmoid.getOperand() == x && x.getType() == op.getType()) {
          rewriter.replaceOpWithNewOp<SiluOp>(op, x);
          return success();
        }
        Product inner = flattenProduct(sigmoid.getOperand());
        if (inner.factors.size() == 1 && inner.factors[0] == x && isAbout(inner.scale, 1.702))
          return replaceGelu(op, x, "sigmoid", rewriter);
      }
      if (!isAbout(product.scale, 0.5))
        continue;
      if (Value u = insideOnePlus<ErfOp>(other)) {
        Product inner = flattenProduct(u);
        if (inner.factors.size() == 1 && inner.factors[0] == x && isAbout(inner.scale, std::numbers::sqrt2 / 2))
          return replaceGelu(op, x, "erf", rewriter);
      }
      if (Value u = insideOnePlus<TanhOp>(other); u && isTanhArgument(u, x))
        return replaceGelu(op, x, "tanh", rewriter);
    }
    return failure();
  }
};

/// activation(gate) * up -> gated_product
struct GatedProductFrom : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  static std::pair<Value, std::string> activationOf(Value value) {
    if (auto silu = value.getDefiningOp<SiluOp>())
      return {silu.getOperand(), "silu"};
    if (auto gelu = value.getDefiningOp<GeluOp>())
      return {gelu.getOperand(), "gelu_" + gelu.getForm().str()};
    if (auto relu = value.getDefiningOp<ReluOp>())
      return {relu.getOperand(), "relu"};
    return {};
  }
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    for (auto [active, up] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto [gate, name] = activationOf(active);
      if (!gate || !active.hasOneUse() || gate.getType() != up.getType() || up == active)
        continue;
      rewriter.replaceOpWithNewOp<GatedProductOp>(op, gate, up, name);
      return success();
    }
    return failure();
  }
};

/// log(1 + exp(x)) -> softplus
struct SoftplusOf : OpRewritePattern<LogOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LogOp op, PatternRewriter &rewriter) const override {
    Value x = insideOnePlus<ExpOp>(op.getOperand());
    if (!x || x.getType() != op.getType())
      return failure();
    rewriter.replaceOpWithNewOp<SoftplusOp>(op, x);
    return success();
  }
};
} // namespace

void addActivationPatterns(RewritePatternSet &patterns) {
  patterns.add<ActivationOf>(patterns.getContext(), /*benefit=*/2);
  patterns.add<GatedProductFrom, SoftplusOf>(patterns.getContext());
}

} // namespace mt::passes
