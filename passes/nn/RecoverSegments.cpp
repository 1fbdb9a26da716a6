// A term of an attention's bias that is one negative number where query and key are of different segments and zero
// elsewhere, as shifted windows have it (Liu et al., arXiv 2103.14030), becomes segments: never a number for every
// pair.
#include "passes/nn/KnownIntegers.h"
#include "passes/nn/Match.h"
#include "passes/nn/MatchScores.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// What is added between segments (0: they do not see each other), of what a query and a key have, and how the bias
/// sees what was compared: views from it down.
struct Apart {
  double bias = 0;
  Value query, key;
  SmallVector<Operation *> views;

  bool isOfTheSame(const Apart &other) const {
    auto alike = [](Operation *a, Operation *b) {
      return a->getName() == b->getName() && a->getResult(0).getType() == b->getResult(0).getType();
    };
    return query == other.query && key == other.key && views.size() == other.views.size() &&
           llvm::all_of(llvm::zip(views, other.views),
                        [&](const auto &pair) { return alike(std::get<0>(pair), std::get<1>(pair)); });
  }
};

class Segments {
public:
  Segments(OpBuilder &builder, int64_t queries, int64_t keys) : builder(builder), queries(queries), keys(keys) {}

  std::optional<Apart> of(Value term) const {
    SmallVector<Operation *> views;
    while (isa_and_nonnull<BroadcastOp>(viewOfPairs(term)))
      term = term.getDefiningOp()->getOperand(0); // repeated for all rows and heads
    ArrayRef<int64_t> shape = shapeOf(term);
    if (!ends(term) || shape.size() > 4 || (shape.size() > 2 && shape[shape.size() - 3] != 1))
      return std::nullopt; // heads tell it apart
    while (Operation *op = viewOfPairs(term)) {
      views.push_back(op);
      term = op->getOperand(0);
    }
    auto choice = term.getDefiningOp<SelectOp>();
    auto yes = choice ? splatValue(choice.getLhs()) : std::nullopt,
         no = choice ? splatValue(choice.getRhs()) : std::nullopt;
    if (!yes || !no || (*yes == 0) == (*no == 0) || !(*yes + *no < 0) || !std::isfinite(*yes + *no))
      return std::nullopt;
    auto sides = comparedWhere(choice.getCondition(), *yes == 0);
    if (!sides || !ends(choice.getResult()) || shapeOf(choice.getCondition()) != shapeOf(choice.getResult()))
      return std::nullopt;
    bool hidden = isVeryNegative(*yes == 0 ? choice.getRhs() : choice.getLhs());
    return Apart{hidden ? 0 : *yes + *no, sides->first, sides->second, views};
  }

  /// Segments of queries, and of keys, [batch or 1, positions].
  std::pair<Value, Value> built(const Apart &apart) {
    return {built(apart.query, apart.views, queries, 1), built(apart.key, apart.views, 1, keys)};
  }

private:
  OpBuilder &builder;
  int64_t queries, keys;

  /// Whether the last two dimensions are queries and keys.
  bool ends(Value value) const {
    ArrayRef<int64_t> shape = shapeOf(value);
    return shape.size() >= 2 && shape[shape.size() - 2] == queries && shape.back() == keys;
  }
  /// A view or repetition that leaves them so.
  Operation *viewOfPairs(Value value) const {
    Operation *op = value.getDefiningOp();
    return isa_and_nonnull<ReshapeOp, BroadcastOp>(op) && ends(value) && ends(op->getOperand(0)) ? op : nullptr;
  }

  /// What a query and a key have, of which `condition` says that they are equal (or, not `equal`, that they are not).
  std::optional<std::pair<Value, Value>> comparedWhere(Value condition, bool equal) const {
    while (auto negation = condition.getDefiningOp<NotOp>())
      condition = negation.getOperand(), equal = !equal;
    auto compare = condition.getDefiningOp<CompareOp>();
    if (!compare || compare.getPredicate() != (equal ? "eq" : "ne"))
      return std::nullopt;
    Value a = compare.getLhs(), b = compare.getRhs();
    if (auto difference = a.getDefiningOp<SubOp>(); difference && splatValue(b) == 0.0)
      a = difference.getLhs(), b = difference.getRhs();
    auto isSide = [&](Value value, int64_t ofQueries, int64_t ofKeys) {
      ArrayRef<int64_t> shape = shapeOf(value);
      return shape.size() >= 2 && shape[shape.size() - 2] == ofQueries && shape.back() == ofKeys && isWhole(value);
    };
    if (isSide(b, queries, 1) && isSide(a, 1, keys))
      std::swap(a, b);
    return isSide(a, queries, 1) && isSide(b, 1, keys) ? std::optional(std::pair(a, b)) : std::nullopt;
  }

  /// Integers, or what was made of integers.
  static bool isWhole(Value value) {
    Value whole = value;
    while (isa_and_nonnull<ReshapeOp, TransposeOp, BroadcastOp, SliceOp>(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    auto cast = value.getDefiningOp<CastOp>();
    if (auto real = cast ? dyn_cast<FloatType>(getElementTypeOrSelf(cast.getType())) : FloatType();
        real && real.getWidth() >= 32)
      value = cast.getOperand(); // rounded or not, they are equal if their segments are
    Type element = getElementTypeOrSelf(value.getType());
    return element.isSignlessInteger(64) || element.isSignlessInteger(32) || knownIntegers(whole);
  }

  /// `side` seen as the bias sees the choice.
  Value built(Value side, ArrayRef<Operation *> views, int64_t ofQueries, int64_t ofKeys) {
    for (Operation *view : llvm::reverse(views)) {
      SmallVector<int64_t> shape(shapeOf(view->getResult(0))), before(shapeOf(view->getOperand(0)));
      shape[shape.size() - 2] = ofQueries, shape.back() = ofKeys;
      before[before.size() - 2] = ofQueries, before.back() = ofKeys;
      side = widened(side, before);
      side = isa<ReshapeOp>(view) ? reshapeTo(builder, side, shape) : widened(side, shape);
    }
    int64_t batch = shapeOf(side).size() == 4 ? shapeOf(side)[0] : 1;
    return castTo(builder, reshapeTo(builder, side, {batch, ofQueries * ofKeys}), builder.getI64Type());
  }
  Value widened(Value value, ArrayRef<int64_t> shape) {
    Type type = tensorOf(shape, getElementTypeOrSelf(value.getType()));
    return value.getType() == type ? value : BroadcastOp::create(builder, value.getLoc(), type, value).getResult();
  }
};

struct BiasToSegments : OpRewritePattern<AttentionOp> {
  /// Before what is left is taken for a bias by distance or place.
  explicit BiasToSegments(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/2) {}
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    int64_t batch = shapeOf(op.getQuery())[0], queries = shapeOf(op.getQuery())[1], keys = shapeOf(op.getKey())[1];
    if (!op.getBias() || op.getKeyPlace() || op.getQuerySegment() || queries == 1 || keys == 1 ||
        shapeOf(op.getBias())[2] != queries || shapeOf(op.getBias())[3] != keys)
      return failure();
    Segments segments(rewriter, queries, keys);
    std::optional<Apart> apart; // terms of the same segments are one
    SmallVector<Value> rest;
    for (Value term : termsOf(op.getBias(), bool(op.getSink()))) {
      auto found = segments.of(term);
      if (found && !apart)
        apart = found;
      else if (found && apart->isOfTheSame(*found))
        apart->bias = apart->bias == 0 || found->bias == 0 ? 0 : apart->bias + found->bias;
      else
        rest.push_back(term);
    }
    if (!apart)
      return failure();
    auto ofAll = [&](Value side) -> Value {
      auto type = tensorOf({batch, shapeOf(side)[1]}, rewriter.getI64Type());
      return side.getType() == type ? side : BroadcastOp::create(rewriter, side.getLoc(), type, side);
    };
    auto [query, key] = segments.built(*apart);
    Value sum;
    for (Value term : rest)
      sum = sum ? AddOp::create(rewriter, term.getLoc(), sum, term).getResult() : term;
    if (sum)
      sum = asBias(rewriter, sum, keys);
    rewriter.modifyOpInPlace(op, [&] {
      op.getQuerySegmentMutable().assign(ofAll(query));
      op.getKeySegmentMutable().assign(ofAll(key));
      op.setSegmentBias(APFloat(apart->bias));
      sum ? op.getBiasMutable().assign(sum) : op.getBiasMutable().clear();
    });
    return success();
  }

  /// With four dimensions, and an entry for every key.
  static Value asBias(OpBuilder &builder, Value value, int64_t keys) {
    SmallVector<int64_t> shape(4 - shapeOf(value).size(), 1);
    llvm::append_range(shape, shapeOf(value));
    value = reshapeTo(builder, value, shape);
    shape.back() = keys;
    return shapeOf(value) == ArrayRef<int64_t>(shape)
               ? value
               : BroadcastOp::create(builder, value.getLoc(), tensorOf(shape, getElementTypeOrSelf(value.getType())),
                                     value);
  }
};

/// masked_fill with a condition and again with its opposite: a choice within a choice that has decided.
struct DecidedChoice : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op, PatternRewriter &rewriter) const override {
    for (bool outer : {false, true}) {
      auto inner = op.getOperand(outer ? 1 : 2).getDefiningOp<SelectOp>();
      if (!inner || shapeOf(op.getCondition()) != shapeOf(op.getResult()))
        continue;
      bool same = inner.getCondition() == op.getCondition();
      if (!same && !areOpposite(inner.getCondition(), op.getCondition()))
        continue;
      Value decided = same == outer ? inner.getLhs() : inner.getRhs();
      rewriter.modifyOpInPlace(op, [&] { op.setOperand(outer ? 1 : 2, decided); });
      return success();
    }
    return failure();
  }

  static bool areOpposite(Value a, Value b) {
    auto isNot = [](Value one, Value other) {
      auto negation = one.getDefiningOp<NotOp>();
      return negation && negation.getOperand() == other;
    };
    auto x = a.getDefiningOp<CompareOp>(), y = b.getDefiningOp<CompareOp>();
    bool compared = x && y && x.getLhs() == y.getLhs() && x.getRhs() == y.getRhs();
    auto are = [&](StringRef one, StringRef other) { return x.getPredicate() == one && y.getPredicate() == other; };
    return isNot(a, b) || isNot(b, a) || (compared && (are("eq", "ne") || are("ne", "eq")));
  }
};
} // namespace

void addSegmentPatterns(RewritePatternSet &patterns) {
  patterns.add<BiasToSegments, DecidedChoice>(patterns.getContext());
}

} // namespace mt::passes
