// Elements of index tensors as expressions over coordinates: the symbolic evaluator behind MaskPredicate.h. An
// expression is an affine function of the coordinates, an element of an opaque tensor, or a combination of comparisons.
// What it says holds for every element and every value that the function may be fed, or it says less: a load.
#ifndef MT_PASSES_NN_INDEXEXPRESSION_H
#define MT_PASSES_NN_INDEXEXPRESSION_H
#include "compiler/nn/Nn.h"

#include <memory>

namespace mt::passes {

/// constant + sum of coefficients times coordinates. Coordinates of extent one are dropped: they are zero.
struct Affine {
  llvm::SmallVector<int64_t, 4> coefficients;
  int64_t constant = 0;
  bool isConstant() const {
    return llvm::all_of(coefficients, [](int64_t c) { return c == 0; });
  }
  /// Index of the only coordinate that this is exactly; -1 if there is none.
  int64_t coordinate() const;
  bool operator==(const Affine &) const = default;
};

struct Expression;
using ExpressionRef = std::shared_ptr<const Expression>;
/// A number (affine, magnitude, or a load), or a truth value (the others, or a load of a boolean).
struct Expression {
  enum Kind { affine, magnitude, load, compare, conjunction, disjunction, negation } kind = affine;
  Affine number;      ///< affine; its size: magnitude; of a compare with null `left`: number <predicate> 0
  mlir::Value tensor; ///< load
  llvm::SmallVector<Affine, 4> indices; ///< load
  std::string predicate;                ///< compare: eq, ne, lt, le, gt, ge
  ExpressionRef left, right;            ///< compare of what is not affine, conjunction, disjunction; negation: left
  bool isConstant(int64_t value) const { return kind == affine && number.isConstant() && number.constant == value; }
  bool isTruth() const;
};

/// Whether a type of reals has a number as it is.
bool isNumberOf(mlir::Type real, double number);
/// What a predicate says with its sides exchanged.
llvm::StringRef mirrored(llvm::StringRef predicate);
/// Whether a difference of two numbers compares as `predicate` says.
bool holds(llvm::StringRef predicate, int64_t difference);

class IndexEvaluator {
public:
  static constexpr int64_t kExact = int64_t{1} << 53; ///< no number beyond is reasoned about
  static constexpr double kLimit = kExact;            ///< constants, read as doubles, may be rounded from here on
  static constexpr int64_t kDeepest = 200;            ///< operations above one another that are looked through

  /// `extents` are the sizes of the coordinates.
  explicit IndexEvaluator(llvm::ArrayRef<int64_t> extents) : extents(extents) {}

  using Indices = llvm::SmallVector<Affine, 4>;
  /// The coordinates themselves, as indices of a tensor that broadcasts to the extents.
  Indices indicesFor(mlir::Value tensor) const;
  /// The element of an integer, boolean or integer-valued float tensor; never null: what cannot be looked into is a
  /// load.
  ExpressionRef element(mlir::Value tensor, const Indices &indices) const;
  /// Where an additive mask is zero rather than very negative; null if it is not such a mask. Integers that are
  /// multiplied with a very negative number, as in (1 - mask) * -1e9, are taken to be zeros and ones.
  ExpressionRef visible(mlir::Value mask, const Indices &indices) const;

  /// Smallest and largest value over all coordinates.
  std::pair<int64_t, int64_t> rangeOf(const Affine &a) const;

  ExpressionRef truth(bool value) const;
  ExpressionRef both(ExpressionRef a, ExpressionRef b) const;
  ExpressionRef either(ExpressionRef a, ExpressionRef b) const;
  ExpressionRef negate(ExpressionRef a) const;
  /// `a` as a truth value: numbers are true where they are not zero.
  ExpressionRef asBoolean(ExpressionRef a) const;

private:
  llvm::SmallVector<int64_t, 4> extents;
  mutable int64_t budget = 4096, depth = 0; ///< graphs share operands; what is beyond is not looked into
  mutable double scale = 1;                 ///< by which a mask is multiplied before it is added
  mutable bool finite = false;              ///< whether zero times what hides has to be zero

  /// The tensor and indices behind operations that only move elements; none if `tensor` is not such.
  std::optional<std::pair<mlir::Value, Indices>> moved(mlir::Value tensor, const Indices &indices) const;
  std::optional<std::pair<Affine, Affine>> divided(const Affine &a, int64_t by) const;
  std::optional<Indices> reshapedIndices(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to,
                                         const Indices &indices) const;
  Affine constantAffine(int64_t value) const;
  Affine combine(const Affine &a, int64_t factor, const Affine &b) const;
  ExpressionRef number(Affine value) const;
  ExpressionRef magnitude(Affine value) const;
  ExpressionRef join(Expression::Kind kind, ExpressionRef a, ExpressionRef b) const;
  using Parts = llvm::SmallVector<ExpressionRef, 4>;
  void partsOf(Expression::Kind kind, const ExpressionRef &e, bool negated, Parts &parts) const;
  ExpressionRef simplified(Expression::Kind kind, const ExpressionRef &a, const ExpressionRef &b) const;
  ExpressionRef given(Expression::Kind kind, const ExpressionRef &a, const ExpressionRef &others) const;
  ExpressionRef choose(ExpressionRef condition, ExpressionRef yes, ExpressionRef no) const;
  ExpressionRef compare(llvm::StringRef predicate, ExpressionRef a, ExpressionRef b) const;
  ExpressionRef compareTruth(llvm::StringRef predicate, ExpressionRef a, ExpressionRef b) const;
  bool isExact(const Expression &e, mlir::Type element) const;
  ExpressionRef lookedInto(mlir::Value tensor, const Indices &indices) const;
  bool isWholeLoad(mlir::Value tensor, const Indices &indices) const;
  ExpressionRef comparedSum(mlir::Operation *op, const Indices &indices, llvm::StringRef predicate, double bound) const;
  ExpressionRef comparedMask(mlir::Value tensor, const Indices &indices, double bound) const;
  ExpressionRef compared(mlir::Value tensor, const Indices &indices, llvm::StringRef predicate, double bound) const;
  ExpressionRef concatElement(nn::ConcatOp op, Indices indices) const;
  ExpressionRef arithmetic(mlir::Operation *op, const Indices &indices) const;
  ExpressionRef logic(mlir::Operation *op, llvm::ArrayRef<ExpressionRef> operands) const;
  ExpressionRef converted(nn::CastOp op, const Indices &indices) const;
  ExpressionRef counted(nn::IotaOp op, const Indices &indices) const;
  ExpressionRef cumsum(nn::CumsumOp op, const Indices &indices) const;
  ExpressionRef gathered(mlir::Operation *op, const Indices &indices) const;
  std::optional<Affine> lookup(mlir::Value indexTensor, const Indices &at, int64_t size) const;
  ExpressionRef zeroOrOne(mlir::Value tensor, const Indices &indices) const;
  bool hides(mlir::Value number) const;
  ExpressionRef visibleProduct(nn::MulOp op, const Indices &indices) const;
  ExpressionRef visibleWithin(mlir::Value mask, const Indices &indices) const;
  Indices broadcastIndices(mlir::Value operand, const Indices &indices, llvm::ArrayRef<int64_t> shape) const;
};

} // namespace mt::passes
#endif
