// Small matchers that patterns of mt-recover-ops share: commuted operands, constants, products and sums as lists.
#ifndef MT_PASSES_NN_MATCH_H
#define MT_PASSES_NN_MATCH_H
#include "compiler/nn/Nn.h"
#include "mlir/IR/PatternMatch.h"

namespace mt::passes {

/// Whether `a` and `b` are equal to about 32-bit rounding.
inline bool isAbout(double a, double b) { return std::abs(a - b) <= 1e-3 * std::max(std::abs(b), 1e-6); }

/// A product as a constant and its other factors: what mul, div by a constant, neg and pow with a small whole exponent
/// are made of. Goes through multiplications with one use only, `value` itself excepted.
struct Product {
  double scale = 1;
  llvm::SmallVector<mlir::Value> factors;
};
Product flattenProduct(mlir::Value value);
/// A sum as a constant and its other terms; subtracted terms are not looked into.
struct Sum {
  double constant = 0;
  llvm::SmallVector<mlir::Value> terms;
};
Sum flattenSum(mlir::Value value);
/// The other operand of a two-operand operation whose one operand is `one`; null if neither is.
template <typename Op> mlir::Value otherOperand(Op op, mlir::Value one) {
  return op.getLhs() == one ? op.getRhs() : op.getRhs() == one ? op.getLhs() : mlir::Value();
}
/// x and f where `value` is x * f or x / f with a splat f and x has its type.
std::optional<std::pair<mlir::Value, double>> scaledBy(mlir::Value value);
/// Operand of x * x or x^2; null if `value` is no square.
mlir::Value squareOf(mlir::Value value);
/// Whether `axes` is the last dimension of `value`, kept or not.
bool reducesLast(nn::ReduceOp op, llvm::StringRef kind);
/// `value` as a row [D] where it is one, possibly under leading ones; null otherwise.
mlir::Value asRow(mlir::PatternRewriter &rewriter, mlir::Value value, int64_t width);

void addLookupPatterns(mlir::RewritePatternSet &patterns);
void addPlacePatterns(mlir::RewritePatternSet &patterns);
void addProductPatterns(mlir::RewritePatternSet &patterns);
void addExpertPatterns(mlir::RewritePatternSet &patterns);
void addNormPatterns(mlir::RewritePatternSet &patterns);
void addActivationPatterns(mlir::RewritePatternSet &patterns);
void addRotaryPatterns(mlir::RewritePatternSet &patterns);
void addDistancePatterns(mlir::RewritePatternSet &patterns);
void addAttentionPatterns(mlir::RewritePatternSet &patterns);
void addSegmentPatterns(mlir::RewritePatternSet &patterns);

} // namespace mt::passes
#endif
