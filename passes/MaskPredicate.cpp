// From the symbolic form of a mask to the predicate of nn.attention.
#include "passes/MaskPredicate.h"

#include "passes/IndexExpression.h"

#include <functional>

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
      return addLoad(e, true);
    case Expression::compare:
      return e.left ? addComparedLoads(e) : addDistance(e);
    case Expression::disjunction:
      return addPrefix(e);
    case Expression::negation:
      return addLoad(*e.parts[0], false);
    default:
      return false;
    }
  }

  /// Builds what the predicate's operands need: only once everything was understood.
  void finish() {
    for (auto &build : pending)
      build();
  }

private:
  OpBuilder &builder;
  ScoreShape shape;
  MaskPredicate &predicate;
  bool segmented = predicate.querySegment != nullptr;
  std::vector<std::function<void()>> pending;

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

  /// A load indexed by (batch, position) alone: its tensor can be seen as [batch, length].
  struct Rows {
    Value tensor;
    bool batched;
    int64_t length;
    Type element() const { return getElementTypeOrSelf(tensor.getType()); }
  };
  std::optional<Rows> rowsOf(const Expression &load, Coordinate along, int64_t length) {
    bool batched = false, indexed = length == 1;
    for (auto [size, index] : llvm::zip(shapeOf(load.tensor), load.indices)) {
      if (size == 1)
        continue;
      int64_t coordinate = index.coordinate();
      if (coordinate == kBatch && size == shape.batch && !batched)
        batched = true;
      else if (coordinate == along && size == length && !indexed)
        indexed = true;
      else
        return std::nullopt;
    }
    return indexed ? std::optional(Rows{load.tensor, batched, length}) : std::nullopt;
  }
  Value build(const Rows &rows) {
    Value value = reshapeTo(builder, rows.tensor, {rows.batched ? shape.batch : 1, rows.length});
    if (rows.batched || shape.batch == 1)
      return value;
    return BroadcastOp::create(builder, value.getLoc(), tensorOf({shape.batch, rows.length}, rows.element()), value);
  }

  /// Keys are seen where `rows` compares with `number`.
  bool addKeyMask(const Rows &rows, std::string test, int64_t number) {
    bool boolean = rows.element().isInteger(1);
    if (boolean && test != "eq" && test != "ne")
      return false;
    pending.push_back([=, this] {
      Value value = build(rows);
      Location location = value.getLoc();
      bool wantsTrue = (number != 0) == (test == "eq");
      if (!boolean)
        value = CompareOp::create(builder, location, value, scalarLike(builder, value, number), test);
      else if (!wantsTrue)
        value = NotOp::create(builder, location, value);
      predicate.keyMask = predicate.keyMask ? AndOp::create(builder, location, predicate.keyMask, value).getResult() : value;
    });
    return true;
  }
  bool addLoad(const Expression &load, bool seen) {
    auto rows = load.kind == Expression::load ? rowsOf(load, kKey, shape.keys) : std::nullopt;
    return rows && addKeyMask(*rows, seen ? "ne" : "eq", 0);
  }

  bool addSegments(const Expression &left, const Expression &right) {
    auto query = rowsOf(left, kQuery, shape.queries), key = rowsOf(right, kKey, shape.keys);
    if (!query || !key || segmented || !query->element().isInteger(64) || !key->element().isInteger(64))
      return false;
    segmented = true;
    pending.push_back([=, this] {
      predicate.querySegment = build(*query);
      predicate.keySegment = build(*key);
    });
    return true;
  }

  /// mask[b, k] compared with a number, or segment[b, q] == segment[b, k].
  bool addComparedLoads(const Expression &e) {
    const Expression *left = e.left.get(), *right = e.right.get();
    if (left->kind == Expression::load && right->kind == Expression::load)
      return e.predicate == "eq" && (addSegments(*left, *right) || addSegments(*right, *left));
    std::string test = e.predicate;
    if (right->kind == Expression::load && left->kind == Expression::affine) {
      std::swap(left, right);
      if (test != "eq" && test != "ne")
        test = test == "lt" ? "gt" : test == "le" ? "ge" : test == "gt" ? "lt" : "le";
    }
    if (left->kind != Expression::load || right->kind != Expression::affine || !right->number.isConstant())
      return false;
    auto rows = rowsOf(*left, kKey, shape.keys);
    return rows && addKeyMask(*rows, test, right->number.constant);
  }
};
} // namespace

static bool addVisible(OpBuilder &builder, ExpressionRef seen, ScoreShape shape, MaskPredicate &predicate) {
  MaskPredicate extended = predicate;
  PredicateBuilder understood(builder, shape, extended);
  if (!seen || !understood.add(*seen))
    return false;
  understood.finish();
  predicate = extended;
  return true;
}

bool addMask(OpBuilder &builder, Value bias, ScoreShape shape, MaskPredicate &predicate) {
  IndexEvaluator evaluator({shape.batch, shape.heads, shape.queries, shape.keys});
  return addVisible(builder, evaluator.visible(bias, evaluator.indicesFor(bias)), shape, predicate);
}

bool addCondition(OpBuilder &builder, Value condition, bool hides, ScoreShape shape, MaskPredicate &predicate) {
  IndexEvaluator evaluator({shape.batch, shape.heads, shape.queries, shape.keys});
  ExpressionRef seen = evaluator.asBoolean(evaluator.element(condition, evaluator.indicesFor(condition)));
  return addVisible(builder, hides ? evaluator.negate(seen) : seen, shape, predicate);
}

} // namespace mt::passes
