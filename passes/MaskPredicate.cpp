// From the symbolic form of a mask to the predicate of nn.attention.
#include "passes/MaskPredicate.h"

#include "passes/IndexExpression.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
enum Coordinate : int64_t { kBatch, kHead, kQuery, kKey };

class PredicateBuilder {
public:
  PredicateBuilder(OpBuilder &builder, ScoreShape shape, MaskPredicate &predicate)
      : builder(builder), shape(shape), predicate(predicate) {}

  bool add(const Expression &e) {
    if (e.isTrue())
      return true;
    switch (e.kind) {
    case Expression::conjunction:
      return llvm::all_of(e.parts, [&](const ExpressionRef &part) { return add(*part); });
    case Expression::load:
      return addKeyMask(e);
    case Expression::compare:
      return e.left ? addComparedLoads(e) : addDistance(e);
    case Expression::disjunction:
      return addPrefix(e);
    case Expression::negation:
      return addNegatedMask(*e.parts[0]);
    default:
      return false;
    }
  }

private:
  OpBuilder &builder;
  ScoreShape shape;
  MaskPredicate &predicate;

  /// The affine e of e >= 0 that a comparison of an affine number with zero means.
  static std::optional<Affine> atLeastZero(const Expression &e) {
    if (e.kind != Expression::compare || e.left)
      return std::nullopt;
    Affine number = e.number;
    bool flip = e.predicate == "lt" || e.predicate == "le";
    if (e.predicate == "eq" || e.predicate == "ne")
      return std::nullopt;
    if (flip)
      for (int64_t &c : number.coefficients)
        c = -c;
    number.constant = (flip ? -number.constant : number.constant) - (e.predicate == "gt" || e.predicate == "lt" ? 1 : 0);
    return number;
  }

  static bool onlyUses(const Affine &a, int64_t query, int64_t key) {
    return a.coefficients[kBatch] == 0 && a.coefficients[kHead] == 0 && a.coefficients[kQuery] == query && a.coefficients[kKey] == key;
  }

  bool addDistance(const Expression &e) {
    auto number = atLeastZero(e);
    if (!number)
      return false;
    if (onlyUses(*number, 1, -1)) { // q - k + c >= 0
      predicate.minDistance = std::max(predicate.minDistance, -number->constant);
      return true;
    }
    if (onlyUses(*number, -1, 1)) { // q - k <= c
      predicate.maxDistance = std::min(predicate.maxDistance, number->constant);
      return true;
    }
    return false;
  }

  /// Causal, or within the prefix: k < p.
  bool addPrefix(const Expression &e) {
    if (e.parts.size() != 2 || predicate.prefix != 0)
      return false;
    for (auto [distance, prefix] : {std::pair(e.parts[0], e.parts[1]), std::pair(e.parts[1], e.parts[0])}) {
      auto bound = atLeastZero(*prefix);
      if (bound && onlyUses(*bound, 0, -1) && distance->kind == Expression::compare && !distance->left && addDistance(*distance)) {
        predicate.prefix = bound->constant + 1;
        return true;
      }
    }
    return false;
  }

  /// The tensor of a load as [batch, `length`] if it is indexed by (batch, `along`) alone.
  Value asRows(const Expression &load, Coordinate along, int64_t length) {
    ArrayRef<int64_t> sizes = shapeOf(load.tensor);
    bool batched = false, indexed = length == 1;
    for (auto [size, index] : llvm::zip(sizes, load.indices)) {
      if (size == 1)
        continue;
      int64_t coordinate = index.coordinate();
      if (coordinate == kBatch && size == shape.batch && !batched && !(indexed && length != 1))
        batched = true;
      else if (coordinate == along && size == length && !indexed)
        indexed = true;
      else
        return {};
    }
    if (!indexed)
      return {};
    Value rows = reshapeTo(builder, load.tensor, {batched ? shape.batch : 1, length});
    if (batched || shape.batch == 1)
      return rows;
    return BroadcastOp::create(builder, rows.getLoc(), tensorOf({shape.batch, length}, getElementTypeOrSelf(rows.getType())), rows);
  }

  bool setKeyMask(Value rows) {
    Location location = rows.getLoc();
    if (!getElementTypeOrSelf(rows.getType()).isInteger(1))
      rows = CompareOp::create(builder, location, rows, scalarLike(builder, rows, 0), "ne");
    predicate.keyMask = predicate.keyMask ? AndOp::create(builder, location, predicate.keyMask, rows).getResult() : rows;
    return true;
  }

  bool addKeyMask(const Expression &load) {
    Value rows = asRows(load, kKey, shape.keys);
    return rows && setKeyMask(rows);
  }

  bool addNegatedMask(const Expression &load) {
    Value rows = load.kind == Expression::load ? asRows(load, kKey, shape.keys) : Value();
    return rows && getElementTypeOrSelf(rows.getType()).isInteger(1) &&
           setKeyMask(NotOp::create(builder, rows.getLoc(), rows));
  }

  /// mask[b, k] compared with a number, or segment[b, q] == segment[b, k].
  bool addComparedLoads(const Expression &e) {
    const Expression *left = e.left.get(), *right = e.right.get();
    if (left->kind == Expression::load && right->kind == Expression::load && e.predicate == "eq" && !predicate.querySegment) {
      if (left->tensor != right->tensor && left->tensor.getType() != right->tensor.getType())
        return false;
      Value query = asRows(*left, kQuery, shape.queries), key = asRows(*right, kKey, shape.keys);
      if (!query || !key) {
        query = asRows(*right, kQuery, shape.queries);
        key = asRows(*left, kKey, shape.keys);
      }
      if (!query || !key || !isa<IntegerType>(getElementTypeOrSelf(query.getType())) || getElementTypeOrSelf(query.getType()).isInteger(1))
        return false;
      predicate.querySegment = query;
      predicate.keySegment = key;
      return true;
    }
    std::string test = e.predicate;
    if (right->kind == Expression::load && left->kind == Expression::affine) {
      std::swap(left, right);
      if (test != "eq" && test != "ne")
        test = test == "lt" ? "gt" : test == "le" ? "ge" : test == "gt" ? "lt" : "le";
    }
    if (left->kind != Expression::load || right->kind != Expression::affine || !right->number.isConstant())
      return false;
    Value rows = asRows(*left, kKey, shape.keys);
    if (!rows)
      return false;
    if (getElementTypeOrSelf(rows.getType()).isInteger(1)) {
      bool wantsTrue = (right->number.constant != 0) == (test == "eq");
      if (test != "eq" && test != "ne")
        return false;
      return setKeyMask(wantsTrue ? rows : NotOp::create(builder, rows.getLoc(), rows).getResult());
    }
    return setKeyMask(CompareOp::create(builder, rows.getLoc(), rows, scalarLike(builder, rows, right->number.constant), test));
  }
};
} // namespace

bool addMask(OpBuilder &builder, Value bias, ScoreShape shape, MaskPredicate &predicate) {
  IndexEvaluator evaluator({shape.batch, shape.heads, shape.queries, shape.keys});
  ExpressionRef seen = evaluator.visible(bias, evaluator.indicesFor(bias));
  MaskPredicate extended = predicate;
  if (!seen || !PredicateBuilder(builder, shape, extended).add(*seen))
    return false;
  predicate = extended;
  return true;
}

} // namespace mt::passes
