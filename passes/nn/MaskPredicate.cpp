// From the symbolic form of a mask to the predicate of nn.attention: a conjunction of what positions say, which
// PositionRule.h decides as a whole, of key masks, and of equal segments.
#include "passes/nn/MaskPredicate.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <set>

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {

class PredicateBuilder {
public:
  PredicateBuilder(OpBuilder &builder, const IndexEvaluator &evaluator, ScoreShape shape, MaskPredicate &predicate)
      : builder(builder), evaluator(evaluator), shape(shape), predicate(predicate) {}

  /// Whether all of `seen` can be said; if so, it is.
  bool add(const ExpressionRef &seen) {
    if (!split(seen, true))
      return false;
    auto rule = conjunctionOf(predicate.position, positions, shape);
    if (predicate.position.dilation > kMostDilation / multiple)
      return refuse("its gaps are too wide");
    const int64_t dilation = std::lcm(predicate.position.dilation, multiple);
    bool meetsItself = rule && rule->low <= 0 && rule->high >= 0 && shape.queries <= shape.keys;
    if (!rule || (dilation > 1 && (rule->prefix > 0 || !meetsItself)))
      return refuse(
          "what it says about positions is not one window of distances and a prefix, or leaves a query without keys");
    predicate.position = *rule;
    predicate.position.dilation = dilation;
    for (auto &build : pending)
      build();
    return true;
  }
  const std::string &why() const { return reason; }

private:
  OpBuilder &builder;
  const IndexEvaluator &evaluator;
  ScoreShape shape;
  MaskPredicate &predicate;
  std::string reason;
  SmallVector<ExpressionRef> positions;               ///< conjuncts without loads
  std::vector<std::function<void()>> pending;         ///< operands, built once everything was understood
  std::set<std::pair<const Expression *, bool>> done; ///< taken apart
  DenseSet<const Expression *> positional;            ///< found to have no loads
  bool segmented = predicate.querySegment != nullptr;
  static constexpr int64_t kMostDilation = 1 << 20;
  int64_t multiple = 1; ///< of which distances have to be

  bool refuse(StringRef text) {
    reason = text.str();
    return false;
  }

  bool loads(const ExpressionRef &e) {
    if (!e || positional.contains(e.get()))
      return false;
    if (e->kind == Expression::load || loads(e->left) || loads(e->right))
      return true;
    positional.insert(e.get());
    return false;
  }

  /// Takes a conjunction apart; `wanted` false stands for a negation around it.
  bool split(const ExpressionRef &e, bool wanted) {
    if (!done.insert({e.get(), wanted}).second || e->isConstant(wanted))
      return true;
    if (e->kind == Expression::negation)
      return split(e->left, !wanted);
    if (e->kind == (wanted ? Expression::conjunction : Expression::disjunction))
      return split(e->left, wanted) && split(e->right, wanted);
    if (loads(e))
      return addLoad(*e, wanted);
    positions.push_back(wanted ? e : evaluator.negate(e));
    return true;
  }

  /// mask[b, k], mask[b, k] compared with a number, or segment[b, q] == segment[b, k].
  bool addLoad(const Expression &e, bool wanted) {
    if (e.kind == Expression::load)
      return addKeyMask(e, wanted ? "ne" : "eq", 0, true);
    if (e.kind == Expression::compare && e.left && e.left->kind == Expression::load) {
      if (e.right->kind == Expression::affine && e.right->number.isConstant())
        return addDilation(e, wanted) || addKeyMask(*e.left, e.predicate, e.right->number.constant, wanted);
      if (e.right->kind == Expression::load && e.predicate == (wanted ? "eq" : "ne"))
        return addSegments(*e.left, *e.right) || addSegments(*e.right, *e.left) ||
               refuse("it compares more than the segments of a query and a key");
    }
    return refuse("it combines what it looks up with positions or other look-ups otherwise than by `and`");
  }

  /// (query - key) % d == 0, or of its size.
  bool addDilation(const Expression &e, bool wanted) {
    auto mod = e.left->tensor.getDefiningOp<ModOp>();
    auto divisor = mod ? splatValue(mod.getRhs()) : std::nullopt;
    if (!divisor || !(*divisor >= 1 && *divisor <= kMostDilation) || *divisor != std::floor(*divisor) ||
        e.predicate != (wanted ? "eq" : "ne") || !e.right->isConstant(0) ||
        shapeOf(mod.getLhs()) != shapeOf(mod.getResult()))
      return false;
    ExpressionRef distance = evaluator.element(mod.getLhs(), e.left->indices);
    if (distance->kind != Expression::affine && distance->kind != Expression::magnitude)
      return false;
    const Affine &number = distance->number;
    ArrayRef<int64_t> c = number.coefficients;
    auto d = static_cast<int64_t>(*divisor);
    if (std::abs(c[kQuery]) != 1 || c[kKey] != -c[kQuery] || c[kBatch] != 0 || c[kHead] != 0 ||
        number.constant % d != 0 || multiple > kMostDilation / d)
      return false;
    multiple = std::lcm(multiple, d);
    return true;
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
      if (coordinate == kBatch && size == shape.batch && !batched && (!indexed || length == 1))
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

  /// Whether a number can be compared with elements of a type.
  static bool fits(int64_t number, Type element) {
    auto integer = dyn_cast<IntegerType>(element);
    unsigned bits = integer ? integer.getWidth() : 0;
    return !integer               ? isNumberOf(element, static_cast<double>(number))
           : integer.isUnsigned() ? llvm::isUIntN(bits, number)
           : bits == 1            ? number == 0
                                  : llvm::isIntN(bits, number);
  }

  /// Keys are seen where rows compare with `number`, or do not if that is not `wanted`.
  bool addKeyMask(const Expression &load, std::string test, int64_t number, bool wanted) {
    auto rows = rowsOf(load, kKey, shape.keys);
    if (!rows)
      return refuse("it looks up something for another place than batch row and key");
    if (!fits(number, rows->element()))
      return refuse("it compares with a number that the type does not hold");
    pending.push_back([=, this] {
      Value value = build(*rows);
      Location location = value.getLoc();
      bool boolean = rows->element().isInteger(1), negated = !wanted;
      if (boolean)
        negated ^= test == "eq"; // with false
      else
        value = CompareOp::create(builder, location, value, scalarLike(builder, value, number), test);
      if (negated)
        value = NotOp::create(builder, location, value);
      predicate.keyMask =
          predicate.keyMask ? AndOp::create(builder, location, predicate.keyMask, value).getResult() : value;
    });
    return true;
  }

  bool addSegments(const Expression &left, const Expression &right) {
    auto query = rowsOf(left, kQuery, shape.queries), key = rowsOf(right, kKey, shape.keys);
    auto isSegment = [](const Rows &rows) {
      return rows.element().isSignlessInteger(64) || rows.element().isSignlessInteger(32);
    };
    if (!query || !key || !isSegment(*query) || !isSegment(*key) || std::exchange(segmented, true))
      return false;
    pending.push_back([=, this] {
      predicate.querySegment = build(*query);
      predicate.keySegment = build(*key);
    });
    return true;
  }
};

bool addVisible(OpBuilder &builder, const IndexEvaluator &evaluator, ExpressionRef seen, ScoreShape shape,
                MaskPredicate &predicate, std::string &why) {
  MaskPredicate extended = predicate;
  PredicateBuilder understood(builder, evaluator, shape, extended);
  if (!understood.add(seen)) {
    why = understood.why();
    return false;
  }
  predicate = extended;
  return true;
}
} // namespace

bool addMask(OpBuilder &builder, Value bias, ScoreShape shape, MaskPredicate &predicate, std::string &why) {
  IndexEvaluator evaluator({shape.batch, shape.heads, shape.queries, shape.keys});
  if (ExpressionRef seen = evaluator.visible(bias, evaluator.indicesFor(bias)))
    return addVisible(builder, evaluator, seen, shape, predicate, why);
  why = "it is not made of zeros and very negative numbers alone";
  return false;
}

bool addCondition(OpBuilder &builder, Value condition, bool hides, ScoreShape shape, MaskPredicate &predicate,
                  std::string &why) {
  IndexEvaluator evaluator({shape.batch, shape.heads, shape.queries, shape.keys});
  ExpressionRef seen = evaluator.asBoolean(evaluator.element(condition, evaluator.indicesFor(condition)));
  return addVisible(builder, evaluator, hides ? evaluator.negate(seen) : seen, shape, predicate, why);
}

} // namespace mt::passes
