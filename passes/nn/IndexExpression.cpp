// The algebra of IndexExpression.h: numbers and truth values.
#include "passes/nn/IndexExpression.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
constexpr int64_t kSaturated = int64_t{1} << 61; ///< where arithmetic on numbers stops

ExpressionRef make(Expression expression) { return std::make_shared<const Expression>(std::move(expression)); }

int64_t saturate(__int128 value) { return static_cast<int64_t>(std::clamp<__int128>(value, -kSaturated, kSaturated)); }

/// What holds where `predicate` does not.
StringRef opposite(StringRef predicate) {
  return llvm::StringSwitch<StringRef>(predicate)
      .Case("lt", "ge")
      .Case("le", "gt")
      .Case("gt", "le")
      .Case("ge", "lt")
      .Case("eq", "ne")
      .Default("eq");
}

/// Between which integers every integer is a number of a type.
std::pair<int64_t, int64_t> exactRange(Type element) {
  if (auto floating = dyn_cast<FloatType>(element)) {
    int64_t limit = int64_t{1} << std::min(53u, floating.getFPMantissaWidth());
    return {-limit, limit};
  }
  auto integer = cast<IntegerType>(element);
  unsigned bits = integer.getWidth();
  if (bits > 53)
    return {-IndexEvaluator::kExact, IndexEvaluator::kExact};
  if (bits == 1 || integer.isUnsigned())
    return {0, (int64_t{1} << bits) - 1};
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}
} // namespace

bool isNumberOf(Type real, double number) {
  llvm::APFloat value(number);
  bool loses = false;
  (void)value.convert(cast<FloatType>(real).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &loses);
  return std::isinf(number) || (!loses && value.isFinite());
}

StringRef mirrored(StringRef predicate) {
  return llvm::StringSwitch<StringRef>(predicate)
      .Case("lt", "gt")
      .Case("le", "ge")
      .Case("gt", "lt")
      .Case("ge", "le")
      .Default(predicate);
}

bool holds(StringRef predicate, int64_t difference) {
  if (predicate == "eq")
    return difference == 0;
  if (predicate == "ne")
    return difference != 0;
  if (predicate == "lt")
    return difference < 0;
  if (predicate == "le")
    return difference <= 0;
  return predicate == "gt" ? difference > 0 : difference >= 0;
}

int64_t Affine::coordinate() const {
  int64_t found = -1;
  for (auto [i, c] : llvm::enumerate(coefficients)) {
    if (c == 0)
      continue;
    if (c != 1 || found >= 0)
      return -1;
    found = i;
  }
  return constant == 0 ? found : -1;
}

bool Expression::isTruth() const {
  return kind == load ? getElementTypeOrSelf(tensor.getType()).isInteger(1) : kind != affine && kind != magnitude;
}

//===-- numbers ---------------------------------------------------------------------------------------------------===//

Affine IndexEvaluator::constantAffine(int64_t value) const {
  return {SmallVector<int64_t, 4>(extents.size(), 0), value};
}

/// a + factor * b. What leaves the range of numbers saturates far outside of isExact().
Affine IndexEvaluator::combine(const Affine &a, int64_t factor, const Affine &b) const {
  Affine sum = a;
  auto add = [&](int64_t &to, int64_t number) { to = saturate(static_cast<__int128>(factor) * number + to); };
  for (size_t i = 0; i < extents.size(); ++i)
    add(sum.coefficients[i], b.coefficients[i]);
  add(sum.constant, b.constant);
  return sum;
}

std::pair<int64_t, int64_t> IndexEvaluator::rangeOf(const Affine &a) const {
  __int128 low = a.constant, high = a.constant;
  for (auto [c, extent] : llvm::zip(a.coefficients, extents))
    (c < 0 ? low : high) += static_cast<__int128>(c) * (extent - 1);
  return {saturate(low), saturate(high)};
}

/// Whether the type holds every value that the number takes: if not, arithmetic rounds or wraps around.
bool IndexEvaluator::isExact(const Expression &e, Type element) const {
  if (e.kind != Expression::affine && e.kind != Expression::magnitude)
    return true;
  auto [low, high] = rangeOf(e.number);
  auto [least, most] = exactRange(element);
  return least <= low && high <= most;
}

IndexEvaluator::Indices IndexEvaluator::indicesFor(Value tensor) const {
  Indices indices;
  ArrayRef<int64_t> shape = shapeOf(tensor);
  for (size_t i = 0; i < shape.size(); ++i) {
    Affine index = constantAffine(0);
    size_t coordinate = extents.size() + i - shape.size();
    if (coordinate < extents.size() && shape[i] != 1 && extents[coordinate] != 1)
      index.coefficients[coordinate] = 1;
    indices.push_back(index);
  }
  return indices;
}

ExpressionRef IndexEvaluator::number(Affine value) const {
  Expression expression;
  expression.number = std::move(value);
  return make(std::move(expression));
}

ExpressionRef IndexEvaluator::magnitude(Affine value) const {
  Expression expression;
  expression.kind = Expression::magnitude;
  expression.number = std::move(value);
  return make(std::move(expression));
}

//===-- truth values ----------------------------------------------------------------------------------------------===//

ExpressionRef IndexEvaluator::truth(bool value) const { return number(constantAffine(value)); }

ExpressionRef IndexEvaluator::join(Expression::Kind kind, ExpressionRef a, ExpressionRef b) const {
  Expression joined;
  joined.kind = kind;
  joined.left = std::move(a);
  joined.right = std::move(b);
  return make(std::move(joined));
}
/// Whether two expressions say the same, as they are written; false where that takes more than `steps` to tell.
static bool isSame(const ExpressionRef &a, const ExpressionRef &b, int &steps) {
  if (a == b)
    return true;
  if (!a || !b || steps-- <= 0 || a->kind != b->kind || a->tensor != b->tensor || a->predicate != b->predicate)
    return false;
  return a->number == b->number && a->indices == b->indices && isSame(a->left, b->left, steps) &&
         isSame(a->right, b->right, steps);
}

constexpr size_t kMostParts = 16; ///< of which each is compared with each

/// What a conjunction or a disjunction joins: of `a and (b and c)` these three, and of `not (a or b)`, as a
/// conjunction, `not a` and `not b`. No more than kMostParts + 1 of them are listed.
void IndexEvaluator::partsOf(Expression::Kind kind, const ExpressionRef &e, bool negated, Parts &parts) const {
  if (parts.size() > kMostParts)
    return;
  if (e->kind == Expression::negation)
    return partsOf(kind, e->left, !negated, parts);
  const bool isAll = kind == Expression::conjunction;
  if (e->kind != (isAll != negated ? Expression::conjunction : Expression::disjunction))
    return parts.push_back(negated ? negate(e) : e);
  partsOf(kind, e->left, negated, parts);
  partsOf(kind, e->right, negated, parts);
}

/// `a` where all of `others` holds (conjunction), or where none of them does (disjunction): the same wherever that
/// matters, with fewer parts.
ExpressionRef IndexEvaluator::given(Expression::Kind kind, const ExpressionRef &a, const ExpressionRef &others) const {
  const bool all = kind == Expression::conjunction;
  const Expression::Kind dual = all ? Expression::disjunction : Expression::conjunction;
  Parts known, alternatives;
  partsOf(kind, others, false, known);
  partsOf(dual, a, false, alternatives);
  if (known.size() > kMostParts || alternatives.size() > kMostParts)
    return a;
  ExpressionRef left = truth(!all);
  bool fewer = false;
  int steps = 256;
  for (const ExpressionRef &one : alternatives) {
    const ExpressionRef other = negate(one);
    auto is = [&](const ExpressionRef &e) { return llvm::any_of(known, [&](auto &k) { return isSame(e, k, steps); }); };
    if (is(one))
      return truth(all);
    if (is(other))
      fewer = true;
    else
      left = left->isConstant(!all) ? one : join(dual, left, one);
  }
  return fewer ? left : a;
}

/// Both of two expressions (conjunction) or either (disjunction), without what one of them says of the other.
ExpressionRef IndexEvaluator::simplified(Expression::Kind kind, const ExpressionRef &a, const ExpressionRef &b) const {
  const bool all = kind == Expression::conjunction;
  if (a->isConstant(!all) || b->isConstant(all) || a == b)
    return a;
  if (b->isConstant(!all) || a->isConstant(all))
    return b;
  if (ExpressionRef rest = given(kind, a, b); rest != a)
    return simplified(kind, rest, b);
  ExpressionRef rest = given(kind, b, a);
  return rest != b ? simplified(kind, a, rest) : join(kind, a, b);
}
ExpressionRef IndexEvaluator::both(ExpressionRef a, ExpressionRef b) const {
  return simplified(Expression::conjunction, a, b);
}
ExpressionRef IndexEvaluator::either(ExpressionRef a, ExpressionRef b) const {
  return simplified(Expression::disjunction, a, b);
}
ExpressionRef IndexEvaluator::choose(ExpressionRef condition, ExpressionRef yes, ExpressionRef no) const {
  return either(both(condition, yes), both(negate(condition), no));
}

ExpressionRef IndexEvaluator::negate(ExpressionRef a) const {
  if (a->isConstant(0) || a->isConstant(1))
    return truth(a->isConstant(0));
  if (a->kind == Expression::negation)
    return a->left;
  bool unordered = a->left && a->left->kind == Expression::load && nn::isReal(a->left->tensor); // it may be no number
  if (a->kind != Expression::compare || (unordered && a->predicate != "eq" && a->predicate != "ne"))
    return join(Expression::negation, a, nullptr);
  Expression negated = *a;
  negated.predicate = opposite(a->predicate).str();
  return make(std::move(negated));
}

ExpressionRef IndexEvaluator::asBoolean(ExpressionRef a) const {
  return a->isTruth() ? a : compare("ne", a, truth(false));
}

/// A truth value compared with a constant number or, for equality, another truth value.
ExpressionRef IndexEvaluator::compareTruth(StringRef predicate, ExpressionRef a, ExpressionRef b) const {
  if (b->kind == Expression::affine && b->number.isConstant()) {
    int64_t bound = b->number.constant;
    return choose(a, truth(holds(predicate, 1 - bound)), truth(holds(predicate, -bound)));
  }
  if (!b->isTruth() || (predicate != "eq" && predicate != "ne"))
    return nullptr;
  return predicate == "eq" ? choose(a, b, negate(b)) : choose(a, negate(b), b);
}

/// Null where nothing is known about it.
ExpressionRef IndexEvaluator::compare(StringRef predicate, ExpressionRef a, ExpressionRef b) const {
  if (a->kind == Expression::affine && b->kind != Expression::affine)
    return compare(mirrored(predicate), b, a);
  if (a->isTruth())
    return compareTruth(predicate, a, b);
  if (b->isTruth() || b->kind == Expression::magnitude)
    return nullptr;
  Expression result;
  result.kind = Expression::compare;
  result.predicate = predicate.str();
  if (a->kind == Expression::load) {
    result.left = a;
    result.right = b;
    return make(std::move(result));
  }
  if (b->kind != Expression::affine)
    return nullptr;
  if (a->kind == Expression::magnitude) { // |x| < b where x >= 0 and x < b, or x < 0 and -x < b
    ExpressionRef zero = truth(false), plus = number(a->number),
                  minus = number(combine(constantAffine(0), -1, a->number));
    return choose(compare("ge", plus, zero), compare(predicate, plus, b), compare(predicate, minus, b));
  }
  result.number = combine(a->number, -1, b->number);
  auto [low, high] = rangeOf(result.number);
  bool equality = predicate == "eq" || predicate == "ne";
  if (low == high || (!equality && holds(predicate, low) == holds(predicate, high)) ||
      (equality && (low > 0 || high < 0)))
    return truth(holds(predicate, low));
  return make(std::move(result));
}

} // namespace mt::passes
