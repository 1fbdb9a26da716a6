// The evaluator of IndexExpression.h.
#include "passes/IndexExpression.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
constexpr double kVeryNegative = -1e4;

ExpressionRef make(Expression expression) { return std::make_shared<const Expression>(std::move(expression)); }

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

bool isZero(Value value) {
  auto number = splatValue(value);
  return number && *number == 0;
}
bool isVeryNegative(Value value) {
  auto number = splatValue(value);
  return number && *number <= kVeryNegative;
}
} // namespace

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

Affine IndexEvaluator::constantAffine(int64_t value) const { return {SmallVector<int64_t, 4>(extents.size(), 0), value}; }

Affine IndexEvaluator::combine(const Affine &a, int64_t factor, const Affine &b) const {
  Affine sum = a;
  for (size_t i = 0; i < extents.size(); ++i)
    sum.coefficients[i] += factor * b.coefficients[i];
  sum.constant += factor * b.constant;
  return sum;
}

std::pair<int64_t, int64_t> IndexEvaluator::rangeOf(const Affine &a) const {
  int64_t low = a.constant, high = a.constant;
  for (auto [c, extent] : llvm::zip(a.coefficients, extents))
    (c < 0 ? low : high) += c * (extent - 1);
  return {low, high};
}

IndexEvaluator::Indices IndexEvaluator::indicesFor(Value tensor) const {
  Indices indices;
  ArrayRef<int64_t> shape = shapeOf(tensor);
  size_t skip = extents.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    Affine index = constantAffine(0);
    if (shape[i] != 1 && extents[skip + i] != 1)
      index.coefficients[skip + i] = 1;
    indices.push_back(index);
  }
  return indices;
}

ExpressionRef IndexEvaluator::number(Affine value) const {
  Expression expression;
  expression.number = std::move(value);
  return make(std::move(expression));
}
ExpressionRef IndexEvaluator::truth(bool value) const { return number(constantAffine(value)); }

ExpressionRef IndexEvaluator::both(ExpressionRef a, ExpressionRef b) const {
  if (a->isFalse() || b->isTrue())
    return a;
  if (b->isFalse() || a->isTrue())
    return b;
  Expression all;
  all.kind = Expression::conjunction;
  for (const ExpressionRef &part : {a, b})
    if (part->kind == Expression::conjunction)
      all.parts.append(part->parts.begin(), part->parts.end());
    else
      all.parts.push_back(part);
  return make(std::move(all));
}

ExpressionRef IndexEvaluator::either(ExpressionRef a, ExpressionRef b) const {
  if (a->isTrue() || b->isFalse())
    return a;
  if (b->isTrue() || a->isFalse())
    return b;
  Expression any;
  any.kind = Expression::disjunction;
  for (const ExpressionRef &part : {a, b})
    if (part->kind == Expression::disjunction)
      any.parts.append(part->parts.begin(), part->parts.end());
    else
      any.parts.push_back(part);
  return make(std::move(any));
}

ExpressionRef IndexEvaluator::negate(ExpressionRef a) const {
  if (a->isTrue() || a->isFalse())
    return truth(a->isFalse());
  if (a->kind == Expression::negation)
    return a->parts[0];
  if (a->kind == Expression::conjunction || a->kind == Expression::disjunction) {
    ExpressionRef result = negate(a->parts[0]);
    for (const ExpressionRef &part : ArrayRef(a->parts).drop_front())
      result = a->kind == Expression::conjunction ? either(result, negate(part)) : both(result, negate(part));
    return result;
  }
  Expression negated;
  if (a->kind == Expression::compare) {
    static const std::map<std::string, std::string> opposite = {{"eq", "ne"}, {"ne", "eq"}, {"lt", "ge"}, {"ge", "lt"}, {"gt", "le"}, {"le", "gt"}};
    negated = *a;
    negated.predicate = opposite.at(a->predicate);
    return make(std::move(negated));
  }
  negated.kind = Expression::negation;
  negated.parts.push_back(a);
  return make(std::move(negated));
}

ExpressionRef IndexEvaluator::asBoolean(ExpressionRef a) const {
  return a->kind == Expression::affine ? compare("ne", a, truth(false)) : a;
}

ExpressionRef IndexEvaluator::compare(StringRef predicate, ExpressionRef a, ExpressionRef b) const {
  Expression result;
  result.kind = Expression::compare;
  result.predicate = predicate.str();
  if (a->kind == Expression::affine && b->kind == Expression::affine) {
    result.number = combine(a->number, -1, b->number);
    auto [low, high] = rangeOf(result.number);
    if (low == high)
      return truth(holds(predicate, low));
    bool atLow = holds(predicate, low), atHigh = holds(predicate, high);
    bool monotone = predicate != "eq" && predicate != "ne";
    if (monotone && atLow == atHigh)
      return truth(atLow);
    if (!monotone && (low > 0 || high < 0))
      return truth(predicate == "ne");
    return make(std::move(result));
  }
  // A boolean compared with 0 or 1 is itself, or its negation.
  bool boolean = a->kind != Expression::affine && a->kind != Expression::load;
  if (boolean && b->kind == Expression::affine && b->number.isConstant() && (predicate == "eq" || predicate == "ne")) {
    bool wantsTrue = (b->number.constant != 0) == (predicate == "eq");
    return wantsTrue ? a : negate(a);
  }
  result.left = a;
  result.right = b;
  return make(std::move(result));
}

IndexEvaluator::Indices IndexEvaluator::broadcastIndices(Value operand, const Indices &indices, ArrayRef<int64_t> shape) const {
  ArrayRef<int64_t> own = shapeOf(operand);
  Indices result;
  for (size_t i = 0; i < own.size(); ++i) {
    size_t j = shape.size() - own.size() + i;
    result.push_back(own[i] == 1 ? constantAffine(0) : indices[j]);
  }
  return result;
}

std::optional<std::pair<Value, IndexEvaluator::Indices>> IndexEvaluator::moved(Value tensor, const Indices &indices) const {
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (auto reshape = dyn_cast<ReshapeOp>(op)) { // dimensions of size one come and go
    Indices inner;
    ArrayRef<int64_t> from = shapeOf(reshape.getOperand()), to = shapeOf(tensor);
    size_t j = 0;
    for (int64_t size : from) {
      if (size == 1) {
        inner.push_back(constantAffine(0));
        continue;
      }
      while (j < to.size() && to[j] == 1)
        ++j;
      if (j == to.size() || to[j] != size)
        return std::nullopt;
      inner.push_back(indices[j++]);
    }
    return std::pair(reshape.getOperand(), inner);
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return std::pair(broadcast.getOperand(), broadcastIndices(broadcast.getOperand(), indices, shapeOf(tensor)));
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    Indices inner(indices.size(), constantAffine(0));
    for (auto [i, from] : llvm::enumerate(transpose.getPermutation()))
      inner[from] = indices[i];
    return std::pair(transpose.getOperand(), inner);
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    Indices inner;
    for (auto [index, start, stride] : llvm::zip(indices, slice.getStarts(), slice.getStrides()))
      inner.push_back(combine(constantAffine(start), stride, index));
    return std::pair(slice.getOperand(), inner);
  }
  if (auto copy = dyn_cast<CopyOp>(op))
    return std::pair(copy.getOperand(), indices);
  return std::nullopt;
}

/// An element of a concatenation: of the part that the whole range of the index lies in; or, where a part of one element
/// continues the next as the same affine function, that function.
ExpressionRef IndexEvaluator::concatElement(ConcatOp op, Indices indices) const {
  int64_t axis = op.getAxis(), begin = 0;
  Affine along = indices[axis];
  auto [low, high] = rangeOf(along);
  ExpressionRef pending;
  int64_t pendingAt = 0;
  for (Value input : op.getInputs()) {
    int64_t size = shapeOf(input)[axis], end = begin + size;
    if (low < end && high >= begin) {
      indices[axis] = combine(along, -1, constantAffine(begin));
      if (size == 1)
        indices[axis] = constantAffine(0);
      ExpressionRef part = element(input, indices);
      if (!pending && low >= begin && high < end)
        return part;
      if (!pending && size == 1) {
        pending = part;
        pendingAt = begin;
      } else if (pending && high < end && pending->kind == Expression::affine && part->kind == Expression::affine) {
        // along = coordinate + shift: at the pending element the coordinate is pendingAt - shift.
        int64_t varying = -1;
        for (auto [i, c] : llvm::enumerate(along.coefficients))
          if (c != 0)
            varying = varying == -1 && c == 1 ? int64_t(i) : -2;
        if (varying < 0)
          return nullptr;
        Affine there = part->number, pendingThere = pending->number;
        int64_t at = pendingAt - along.constant;
        for (Affine *number : {&there, &pendingThere})
          number->constant += number->coefficients[varying] * at, number->coefficients[varying] = 0;
        return there == pendingThere ? part : nullptr;
      } else {
        return nullptr;
      }
    }
    begin = end;
  }
  return nullptr;
}

/// A choice between two numbers compared with a third, as in mask < -1: the condition of the choice, its negation, or
/// always the same. Null if the comparison is another.
ExpressionRef IndexEvaluator::comparedChoice(CompareOp op, const Indices &indices) const {
  auto bound = splatValue(op.getRhs());
  Value choice = op.getLhs();
  Indices at = broadcastIndices(choice, indices, shapeOf(op.getResult()));
  while (auto inner = moved(choice, at))
    std::tie(choice, at) = *inner;
  auto select = choice.getDefiningOp<SelectOp>();
  auto yes = select ? splatValue(select.getLhs()) : std::nullopt, no = select ? splatValue(select.getRhs()) : std::nullopt;
  if (!bound || !yes || !no)
    return nullptr;
  auto test = [&](double value) { return truth(holds(op.getPredicate(), (value > *bound) - (value < *bound))); };
  ExpressionRef condition = asBoolean(element(select.getCondition(), broadcastIndices(select.getCondition(), at, shapeOf(choice))));
  return either(both(condition, test(*yes)), both(negate(condition), test(*no)));
}

ExpressionRef IndexEvaluator::arithmetic(Operation *op, const Indices &indices) const {
  auto operand = [&](unsigned i) {
    Value value = op->getOperand(i);
    return element(value, broadcastIndices(value, indices, shapeOf(op->getResult(0))));
  };
  if (auto comparison = dyn_cast<CompareOp>(op))
    if (ExpressionRef decided = comparedChoice(comparison, indices))
      return decided;
  if (auto comparison = dyn_cast<CompareOp>(op))
    return compare(comparison.getPredicate(), operand(0), operand(1));
  if (isa<AndOp>(op))
    return both(asBoolean(operand(0)), asBoolean(operand(1)));
  if (isa<OrOp>(op))
    return either(asBoolean(operand(0)), asBoolean(operand(1)));
  if (isa<NotOp>(op))
    return negate(asBoolean(operand(0)));
  if (isa<SelectOp>(op)) {
    ExpressionRef condition = asBoolean(operand(0));
    if (condition->isTrue() || condition->isFalse())
      return operand(condition->isTrue() ? 1 : 2);
    ExpressionRef yes = operand(1), no = operand(2);
    if ((yes->isTrue() || yes->isFalse()) && (no->isTrue() || no->isFalse()))
      return either(both(condition, yes), both(negate(condition), no));
    return nullptr;
  }
  ExpressionRef a = operand(0), b = op->getNumOperands() > 1 ? operand(1) : nullptr;
  if (a->kind == Expression::affine && !b && isa<NegOp>(op))
    return number(combine(constantAffine(0), -1, a->number));
  if (!b || a->kind != Expression::affine || b->kind != Expression::affine) {
    // products of booleans are conjunctions
    auto isBoolean = [](const ExpressionRef &e) { return e->kind != Expression::affine && e->kind != Expression::load; };
    if (b && isa<MulOp>(op) && (isBoolean(a) || isBoolean(b)))
      return both(asBoolean(a), asBoolean(b));
    return nullptr;
  }
  if (isa<AddOp>(op))
    return number(combine(a->number, 1, b->number));
  if (isa<SubOp>(op))
    return number(combine(a->number, -1, b->number));
  if (isa<MulOp>(op) && (a->number.isConstant() || b->number.isConstant())) {
    const Affine &factor = a->number.isConstant() ? a->number : b->number, &other = a->number.isConstant() ? b->number : a->number;
    return number(combine(constantAffine(0), factor.constant, other));
  }
  return nullptr;
}

/// A running sum over a constant is affine.
ExpressionRef IndexEvaluator::cumsum(CumsumOp op, const Indices &indices) const {
  Indices inside = indices;
  ExpressionRef each = element(op.getOperand(), inside);
  if (each->kind != Expression::affine || !each->number.isConstant() || op.getReverse())
    return nullptr;
  Affine count = indices[op.getAxis()];
  count.constant += op.getExclusive() ? 0 : 1;
  return number(combine(constantAffine(0), each->number.constant, count));
}

/// gather and gather_nd whose index tensors are affine.
ExpressionRef IndexEvaluator::gathered(Operation *op, const Indices &indices) const {
  auto affine = [&](Value tensor, const Indices &at) -> std::optional<Affine> {
    ExpressionRef index = element(tensor, at);
    return index->kind == Expression::affine ? std::optional(index->number) : std::nullopt;
  };
  if (auto gather = dyn_cast<GatherOp>(op)) {
    size_t axis = gather.getAxis(), rank = shapeOf(gather.getIndices()).size();
    Indices at(indices.begin() + axis, indices.begin() + axis + rank);
    auto index = affine(gather.getIndices(), at);
    if (!index)
      return nullptr;
    Indices data(indices.begin(), indices.begin() + axis);
    data.push_back(*index);
    data.append(indices.begin() + axis + rank, indices.end());
    return element(gather.getData(), data);
  }
  auto gather = cast<GatherNdOp>(op);
  size_t prefix = shapeOf(gather.getIndices()).size() - 1, depth = shapeOf(gather.getIndices()).back();
  Indices data(indices.begin(), indices.begin() + gather.getBatchDims());
  for (size_t i = 0; i < depth; ++i) {
    Indices at(indices.begin(), indices.begin() + prefix);
    at.push_back(constantAffine(i));
    auto index = affine(gather.getIndices(), at);
    if (!index)
      return nullptr;
    data.push_back(*index);
  }
  data.append(indices.begin() + prefix, indices.end());
  return element(gather.getData(), data);
}

ExpressionRef IndexEvaluator::element(Value tensor, const Indices &indices) const {
  if (auto constant = splatValue(tensor); constant && *constant == std::floor(*constant) && std::abs(*constant) < 1e15)
    return number(constantAffine(int64_t(*constant)));
  if (auto inner = moved(tensor, indices))
    return element(inner->first, inner->second);
  ExpressionRef found;
  if (Operation *op = tensor.getDefiningOp())
    found = llvm::TypeSwitch<Operation *, ExpressionRef>(op)
                .Case<IotaOp>([&](IotaOp iota) -> ExpressionRef {
                  double start = iota.getStart().convertToDouble(), step = iota.getStep().convertToDouble();
                  if (start != std::floor(start) || step != std::floor(step))
                    return nullptr;
                  return number(combine(constantAffine(int64_t(start)), int64_t(step), indices[iota.getDimension()]));
                })
                .Case<CastOp>([&](CastOp cast) {
                  ExpressionRef inside = element(cast.getOperand(), indices);
                  return getElementTypeOrSelf(cast.getType()).isInteger(1) && inside->kind == Expression::affine ? asBoolean(inside) : inside;
                })
                .Case<ConcatOp>([&](ConcatOp concat) { return concatElement(concat, indices); })
                .Case<CumsumOp>([&](CumsumOp sum) { return cumsum(sum, indices); })
                .Case<GatherOp, GatherNdOp>([&](Operation *gather) { return gathered(gather, indices); })
                .Case<CompareOp, AndOp, OrOp, NotOp, SelectOp, AddOp, SubOp, MulOp, NegOp>([&](Operation *op) { return arithmetic(op, indices); })
                .Default([](Operation *) { return nullptr; });
  if (found)
    return found;
  Expression load;
  load.kind = Expression::load;
  load.tensor = tensor;
  load.indices = indices;
  return make(std::move(load));
}

ExpressionRef IndexEvaluator::visible(Value mask, const Indices &indices) const {
  if (isZero(mask))
    return truth(true);
  if (isVeryNegative(mask))
    return truth(false);
  if (auto inner = moved(mask, indices))
    return visible(inner->first, inner->second);
  auto at = [&](Value operand) { return broadcastIndices(operand, indices, shapeOf(mask)); };
  Operation *op = mask.getDefiningOp();
  if (auto cast = dyn_cast_or_null<CastOp>(op))
    return isa<FloatType>(getElementTypeOrSelf(cast.getOperand().getType())) ? visible(cast.getOperand(), indices) : nullptr;
  if (auto select = dyn_cast_or_null<SelectOp>(op)) {
    ExpressionRef condition = asBoolean(element(select.getCondition(), at(select.getCondition())));
    ExpressionRef yes = visible(select.getLhs(), at(select.getLhs())), no = visible(select.getRhs(), at(select.getRhs()));
    return yes && no ? either(both(condition, yes), both(negate(condition), no)) : nullptr;
  }
  if (auto add = dyn_cast_or_null<AddOp>(op)) {
    ExpressionRef a = visible(add.getLhs(), at(add.getLhs())), b = visible(add.getRhs(), at(add.getRhs()));
    return a && b ? both(a, b) : nullptr;
  }
  if (auto maximum = dyn_cast_or_null<MaximumOp>(op)) // clamping to the lowest number
    for (auto [value, bound] : {std::pair(maximum.getLhs(), maximum.getRhs()), std::pair(maximum.getRhs(), maximum.getLhs())})
      if (isVeryNegative(bound))
        return visible(value, at(value));
  if (auto mul = dyn_cast_or_null<MulOp>(op)) // (1 - seen) * very negative
    for (auto [hidden, factor] : {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())}) {
      if (!isVeryNegative(factor))
        continue;
      if (auto sub = hidden.getDefiningOp<SubOp>())
        if (auto one = splatValue(sub.getLhs()); one && *one == 1)
          return asBoolean(element(sub.getRhs(), broadcastIndices(sub.getRhs(), at(hidden), shapeOf(hidden))));
      ExpressionRef inside = element(hidden, at(hidden));
      return inside->kind == Expression::load && isa<FloatType>(getElementTypeOrSelf(inside->tensor.getType()))
                 ? nullptr : negate(asBoolean(inside));
    }
  return nullptr;
}

} // namespace mt::passes
