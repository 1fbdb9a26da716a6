// Elements of tensors, as IndexExpression.h says: through what moves elements, arithmetic, logic and look-ups.
#include "passes/nn/IndexExpression.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {

bool isZero(Value value) {
  auto number = splatValue(value);
  return number && *number == 0;
}
bool isBoolean(Value value) { return getElementTypeOrSelf(value.getType()).isInteger(1); }
} // namespace

IndexEvaluator::Indices IndexEvaluator::broadcastIndices(Value operand, const Indices &indices,
                                                         ArrayRef<int64_t> shape) const {
  ArrayRef<int64_t> own = shapeOf(operand);
  Indices result;
  for (size_t i = 0; i < own.size(); ++i) {
    size_t j = shape.size() - own.size() + i;
    result.push_back(own[i] == 1 ? constantAffine(0) : indices[j]);
  }
  return result;
}

/// a = quotient * by + rest with 0 <= rest < by for every coordinate; none if that cannot be told term by term.
std::optional<std::pair<Affine, Affine>> IndexEvaluator::divided(const Affine &a, int64_t by) const {
  Affine quotient = constantAffine(0), rest = a;
  for (auto [own, left] : llvm::zip(quotient.coefficients, rest.coefficients))
    if (left % by == 0)
      own = std::exchange(left, 0) / by;
  auto [low, high] = rangeOf(rest);
  return low >= 0 && high < by ? std::optional(std::pair(quotient, rest)) : std::nullopt;
}

/// Indices of a tensor of shape `from` at those of the same elements under `to`: dimensions of size one come and go,
/// where neighbours were merged the index is taken apart, and where one was taken apart put together.
std::optional<IndexEvaluator::Indices> IndexEvaluator::reshapedIndices(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                                                       const Indices &indices) const {
  Indices inner;
  size_t j = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 1) {
      inner.push_back(constantAffine(0));
      continue;
    }
    while (j < to.size() && to[j] == 1)
      ++j;
    if (j == to.size())
      return std::nullopt;
    Affine rest = indices[j];
    int64_t parts = to[j++];
    for (; parts < from[i] && j < to.size(); parts *= to[j++])
      rest = combine(indices[j], to[j], rest);
    size_t end = i;
    int64_t product = 1;
    while (end < from.size() && product < parts)
      product *= from[end++];
    if (product != parts)
      return std::nullopt;
    for (; i + 1 < end; ++i) {
      product /= from[i];
      auto parts = divided(rest, product);
      if (!parts)
        return std::nullopt;
      inner.push_back(parts->first);
      rest = parts->second;
    }
    inner.push_back(rest);
  }
  return inner;
}

std::optional<std::pair<Value, IndexEvaluator::Indices>> IndexEvaluator::moved(Value tensor,
                                                                               const Indices &indices) const {
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    auto inner = reshapedIndices(shapeOf(reshape.getOperand()), shapeOf(tensor), indices);
    return inner ? std::optional(std::pair(reshape.getOperand(), *inner)) : std::nullopt;
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

/// An element of a concatenation: of the part that the whole range of the index lies in; or, where a part of one
/// element continues the next as the same affine function, that function.
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

/// Operations on truth values, also where numbers zero and one stand for them. Null if this is not one.
ExpressionRef IndexEvaluator::logic(Operation *op, ArrayRef<ExpressionRef> operands) const {
  auto isBinary = [](const ExpressionRef &e) { return e->isTruth() || e->isConstant(0) || e->isConstant(1); };
  if (!llvm::all_of(operands, isBinary))
    return nullptr;
  if (isa<AndOp, MulOp>(op))
    return both(operands[0], operands[1]);
  if (isa<OrOp>(op))
    return either(operands[0], operands[1]);
  if (isa<XorOp>(op))
    return choose(operands[0], negate(operands[1]), operands[1]);
  if (isa<NotOp>(op))
    return negate(operands[0]);
  if (isa<SelectOp>(op))
    return choose(operands[0], operands[1], operands[2]);
  return isa<SubOp>(op) && operands[0]->isConstant(1) ? negate(operands[1]) : nullptr;
}

ExpressionRef IndexEvaluator::arithmetic(Operation *op, const Indices &indices) const {
  if (auto comparison = dyn_cast<CompareOp>(op)) {
    Value left = comparison.getLhs(), right = comparison.getRhs();
    for (auto [value, bound, predicate] : {std::tuple(left, splatValue(right), comparison.getPredicate()),
                                           std::tuple(right, splatValue(left), mirrored(comparison.getPredicate()))})
      if (bound)
        if (ExpressionRef decided =
                compared(value, broadcastIndices(value, indices, shapeOf(op->getResult(0))), predicate, *bound))
          return decided;
  }
  SmallVector<ExpressionRef, 3> operands;
  for (Value value : op->getOperands())
    operands.push_back(element(value, broadcastIndices(value, indices, shapeOf(op->getResult(0)))));
  if (auto comparison = dyn_cast<CompareOp>(op))
    return compare(comparison.getPredicate(), operands[0], operands[1]);
  if (isa<SelectOp>(op) && (operands[0]->isConstant(0) || operands[0]->isConstant(1)))
    return operands[operands[0]->isConstant(1) ? 1 : 2];
  if (isa<AndOp, OrOp, XorOp, NotOp, SelectOp>(op) ||
      !llvm::all_of(operands, [](auto &e) { return e->kind == Expression::affine; }))
    return logic(op, operands);
  const Affine &a = operands[0]->number, &b = operands.back()->number;
  if (isa<NegOp>(op))
    return number(combine(constantAffine(0), -1, a));
  if (isa<AddOp, SubOp>(op))
    return number(combine(a, isa<AddOp>(op) ? 1 : -1, b));
  if (isa<MulOp>(op))
    return a.isConstant() || b.isConstant() ? number(a.isConstant() ? combine(constantAffine(0), a.constant, b)
                                                                    : combine(constantAffine(0), b.constant, a))
                                            : nullptr;
  auto [low, high] = rangeOf(a);
  if (isa<MaximumOp, MinimumOp>(op)) { // the one that is so everywhere
    auto [least, most] = rangeOf(combine(a, -1, b));
    return least < 0 && most > 0 ? nullptr : operands[(least >= 0) == isa<MaximumOp>(op) ? 0 : 1];
  }
  if (isa<ModOp>(op)) // of what counts from the end where it is negative
    return b.isConstant() && low >= 0 && high < b.constant ? operands[0] : nullptr;
  return low >= 0 ? operands[0] : high <= 0 ? number(combine(constantAffine(0), -1, a)) : magnitude(a);
}

/// Truth values and whole numbers stay what they are; of loads, those that a wider integer holds.
ExpressionRef IndexEvaluator::converted(CastOp op, const Indices &indices) const {
  Type from = getElementTypeOrSelf(op.getOperand().getType()), to = getElementTypeOrSelf(op.getType());
  if (to.isInteger(1) && !from.isInteger(1))
    if (ExpressionRef decided = compared(op.getOperand(), indices, "ne", 0))
      return decided;
  ExpressionRef inside = element(op.getOperand(), indices);
  if (to.isInteger(1))
    return asBoolean(inside);
  if (inside->kind != Expression::load || inside->isTruth())
    return inside;
  auto narrow = dyn_cast<IntegerType>(from), wide = dyn_cast<IntegerType>(to);
  return narrow && wide && !narrow.isUnsigned() && !wide.isUnsigned() && wide.getWidth() >= narrow.getWidth() ? inside
                                                                                                              : nullptr;
}

ExpressionRef IndexEvaluator::counted(IotaOp op, const Indices &indices) const {
  double start = op.getStart().convertToDouble(), step = op.getStep().convertToDouble();
  auto isWhole = [](double x) { return x == std::floor(x) && std::abs(x) <= static_cast<double>(kExact); };
  if (!isWhole(start) || !isWhole(step))
    return nullptr;
  return number(combine(constantAffine(int64_t(start)), int64_t(step), indices[op.getDimension()]));
}

/// A running sum over a constant is affine. The constant is that of the whole tensor, not only of what is asked for.
ExpressionRef IndexEvaluator::cumsum(CumsumOp op, const Indices &indices) const {
  IndexEvaluator whole(shapeOf(op.getOperand()));
  whole.budget = std::exchange(budget, 0);
  whole.depth = depth;
  ExpressionRef each = whole.element(op.getOperand(), whole.indicesFor(op.getOperand()));
  budget = whole.budget;
  if (each->kind != Expression::affine || !each->number.isConstant() || op.getReverse())
    return nullptr;
  Affine count = indices[op.getAxis()];
  count.constant += op.getExclusive() ? 0 : 1;
  return number(combine(constantAffine(0), each->number.constant, count));
}

/// An affine index into a dimension of `size` entries; negative ones count from its end.
std::optional<Affine> IndexEvaluator::lookup(Value indexTensor, const Indices &at, int64_t size) const {
  ExpressionRef index = element(indexTensor, at);
  if (index->kind != Expression::affine)
    return std::nullopt;
  Affine number = index->number;
  auto [low, high] = rangeOf(number);
  if (high < 0)
    number.constant += size, low += size, high += size;
  return low >= 0 && high < size ? std::optional(number) : std::nullopt;
}

/// gather and gather_nd whose index tensors are affine.
ExpressionRef IndexEvaluator::gathered(Operation *op, const Indices &indices) const {
  if (auto gather = dyn_cast<GatherOp>(op)) {
    size_t axis = gather.getAxis(), rank = shapeOf(gather.getIndices()).size();
    Indices at(indices.begin() + axis, indices.begin() + axis + rank);
    auto index = lookup(gather.getIndices(), at, shapeOf(gather.getData())[axis]);
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
    auto index = lookup(gather.getIndices(), at, shapeOf(gather.getData())[data.size()]);
    if (!index)
      return nullptr;
    data.push_back(*index);
  }
  data.append(indices.begin() + prefix, indices.end());
  return element(gather.getData(), data);
}

/// Null where nothing is known but that it is an element.
ExpressionRef IndexEvaluator::lookedInto(Value tensor, const Indices &indices) const {
  if (auto constant = splatValue(tensor);
      constant && *constant == std::floor(*constant) && std::abs(*constant) < kLimit)
    return number(constantAffine(int64_t(*constant)));
  Operation *op = tensor.getDefiningOp();
  if (!op || budget-- <= 0 || depth >= kDeepest)
    return nullptr;
  ++depth;
  llvm::scope_exit restore([&] { --depth; });
  if (auto inner = moved(tensor, indices))
    return element(inner->first, inner->second);
  ExpressionRef found = llvm::TypeSwitch<Operation *, ExpressionRef>(op)
                            .Case<IotaOp>([&](IotaOp iota) { return counted(iota, indices); })
                            .Case<CastOp>([&](CastOp cast) { return converted(cast, indices); })
                            .Case<ConcatOp>([&](ConcatOp concat) { return concatElement(concat, indices); })
                            .Case<CumsumOp>([&](CumsumOp sum) { return cumsum(sum, indices); })
                            .Case<GatherOp, GatherNdOp>([&](Operation *gather) { return gathered(gather, indices); })
                            .Case<CompareOp, AndOp, OrOp, XorOp, NotOp, SelectOp, AddOp, SubOp, MulOp, ModOp, NegOp,
                                  AbsOp, MaximumOp, MinimumOp>([&](Operation *op) { return arithmetic(op, indices); })
                            .Default([](Operation *) { return nullptr; });
  return found && isExact(*found, getElementTypeOrSelf(tensor.getType())) ? found : nullptr;
}

ExpressionRef IndexEvaluator::element(Value tensor, const Indices &indices) const {
  if (ExpressionRef found = lookedInto(tensor, indices))
    return found;
  auto load = std::make_shared<Expression>();
  load->kind = Expression::load;
  load->tensor = tensor;
  load->indices = indices;
  return load;
}

//===-- additive masks --------------------------------------------------------------------------------------------===//

/// A number that is zero or one, as a truth value: integers are taken to be (IndexExpression.h). Null if it may be
/// another.
ExpressionRef IndexEvaluator::zeroOrOne(Value tensor, const Indices &indices) const {
  if (budget-- <= 0)
    return nullptr;
  if (auto inner = moved(tensor, indices))
    return zeroOrOne(inner->first, inner->second);
  Operation *op = tensor.getDefiningOp();
  auto operand = [&](unsigned i) {
    return zeroOrOne(op->getOperand(i), broadcastIndices(op->getOperand(i), indices, shapeOf(tensor)));
  };
  if (auto cast = dyn_cast_or_null<CastOp>(op); cast && !isBoolean(cast.getOperand()) && !isBoolean(tensor))
    return operand(0);
  if (isa_and_nonnull<MulOp>(op)) {
    ExpressionRef a = operand(0), b = operand(1);
    return a && b ? both(a, b) : nullptr;
  }
  if (auto sub = dyn_cast_or_null<SubOp>(op))
    if (auto one = splatValue(sub.getLhs()); one && *one == 1) {
      ExpressionRef rest = operand(1);
      return rest ? negate(rest) : nullptr;
    }
  ExpressionRef found = element(tensor, indices);
  if (found->isTruth() || found->isConstant(0) || found->isConstant(1))
    return found;
  return found->kind == Expression::load && !nn::isReal(found->tensor) ? asBoolean(found) : nullptr;
}

/// (1 - seen) * very negative, a mask that is scaled together with the scores, or one times zeros and ones.
ExpressionRef IndexEvaluator::visibleProduct(MulOp op, const Indices &indices) const {
  for (auto [mask, factor] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
    auto number = splatValue(factor);
    if (!number || !std::isfinite(*number)) // zero times infinity is no number
      continue;
    Indices at = broadcastIndices(mask, indices, shapeOf(op.getResult()));
    if (hides(factor))
      if (ExpressionRef found = zeroOrOne(mask, at))
        return negate(found);
    if (*number > 0) {
      double outer = std::exchange(scale, scale * *number);
      ExpressionRef found = visible(mask, at);
      scale = outer;
      return found;
    }
  }
  for (auto [mask, factor] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
    ExpressionRef kept = element(factor, broadcastIndices(factor, indices, shapeOf(op.getResult())));
    if (!kept->isTruth() && !kept->isConstant(0) && !kept->isConstant(1))
      continue;
    bool outer = std::exchange(finite, true);
    ExpressionRef found = visible(mask, broadcastIndices(mask, indices, shapeOf(op.getResult())));
    finite = outer;
    if (found)
      return either(negate(kept), found);
  }
  return nullptr;
}
/// A number that hides even after the scale that follows.
bool IndexEvaluator::hides(Value number) const {
  auto value = splatValue(number);
  return value && *value * scale <= kVeryNegative && !(finite && std::isinf(*value));
}

ExpressionRef IndexEvaluator::visible(Value mask, const Indices &indices) const {
  if (isZero(mask))
    return truth(true);
  if (hides(mask))
    return truth(false);
  if (budget-- <= 0 || depth >= kDeepest)
    return nullptr;
  ++depth;
  llvm::scope_exit restore([&] { --depth; });
  return visibleWithin(mask, indices);
}

ExpressionRef IndexEvaluator::visibleWithin(Value mask, const Indices &indices) const {
  if (auto inner = moved(mask, indices))
    return visible(inner->first, inner->second);
  auto at = [&](Value operand) { return broadcastIndices(operand, indices, shapeOf(mask)); };
  Operation *op = mask.getDefiningOp();
  if (auto cast = dyn_cast_or_null<CastOp>(op))
    return nn::isReal(cast.getOperand()) ? visible(cast.getOperand(), indices) : nullptr;
  if (auto select = dyn_cast_or_null<SelectOp>(op)) {
    ExpressionRef condition = asBoolean(element(select.getCondition(), at(select.getCondition())));
    ExpressionRef yes = visible(select.getLhs(), at(select.getLhs())),
                  no = visible(select.getRhs(), at(select.getRhs()));
    return yes && no ? choose(condition, yes, no) : nullptr;
  }
  if (auto add = dyn_cast_or_null<AddOp>(op)) {
    ExpressionRef a = visible(add.getLhs(), at(add.getLhs())), b = visible(add.getRhs(), at(add.getRhs()));
    return a && b ? both(a, b) : nullptr;
  }
  if (auto maximum = dyn_cast_or_null<MaximumOp>(op)) // clamping to the lowest number
    for (auto [value, bound] :
         {std::pair(maximum.getLhs(), maximum.getRhs()), std::pair(maximum.getRhs(), maximum.getLhs())})
      if (hides(bound))
        return visible(value, at(value));
  auto mul = dyn_cast_or_null<MulOp>(op);
  return mul ? visibleProduct(mul, indices) : nullptr;
}

} // namespace mt::passes
