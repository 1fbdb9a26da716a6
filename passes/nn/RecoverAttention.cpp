// Patterns for attention: softmax(scale * q k' + mask) v becomes nn.attention, its masks a predicate, and repeated
// key-value heads grouped ones. Vaswani et al., arXiv 1706.03762; grouped heads: arXiv 2305.13245.
#include "passes/nn/MaskPredicate.h"
#include "passes/nn/Match.h"
#include "passes/nn/MatchScores.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
constexpr int64_t kSwapHeads[] = {0, 2, 1, 3}; ///< [B, H, S, D] <-> [B, S, H, D]

Value swapHeads(OpBuilder &builder, Value value) { return TransposeOp::create(builder, value.getLoc(), value, kSwapHeads); }

/// Scale that exporters split between queries and keys.
Value peelScale(Value value, double &scale) {
  while (auto pair = scaledBy(value)) {
    scale *= pair->second;
    value = pair->first;
  }
  return value;
}

/// `value` as [batch or 1, heads or 1, .., ..] where it broadcasts to a tensor of the shape `scores`: three dimensions,
/// the first of which is batch times heads, four, or more, the first of which are the batch.
Value toRankFour(OpBuilder &builder, Value value, ArrayRef<int64_t> scores, std::pair<int64_t, int64_t> split) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (scores.size() == 3 && shape.size() == 3) {
    bool whole = shape[0] == split.first * split.second;
    shape.insert(shape.begin() + 1, whole ? split.second : 1);
    shape[0] = whole ? split.first : shape[0];
  }
  while (shape.size() < std::max<size_t>(scores.size(), 4))
    shape.insert(shape.begin(), 1);
  if (shape.size() == 4)
    return reshapeTo(builder, value, shape);
  size_t outer = shape.size() - 3;
  bool shared = llvm::all_of(ArrayRef(shape).take_front(outer), [](int64_t size) { return size == 1; });
  if (!shared) { // all of the batch, if only some of its dimensions tell it apart
    value = reshapeTo(builder, value, shape);
    std::copy_n(scores.begin(), outer, shape.begin());
    if (ArrayRef<int64_t>(shape) != shapeOf(value))
      value =
          BroadcastOp::create(builder, value.getLoc(), tensorOf(shape, getElementTypeOrSelf(value.getType())), value);
  }
  int64_t batch = shared ? 1 : split.first;
  shape.erase(shape.begin(), shape.begin() + outer);
  shape.insert(shape.begin(), batch);
  return reshapeTo(builder, value, shape);
}

/// The floating-point type that `values` share, or the narrowest of 32 bits or more that holds all of them.
Type joinedType(ArrayRef<Value> values) {
  Type element = getElementTypeOrSelf(values[0].getType());
  for (Value value : values.drop_front())
    if (Type other = getElementTypeOrSelf(value.getType()); other != element)
      element = element.isF64() || other.isF64() ? Type(Float64Type::get(value.getContext())) : Float32Type::get(value.getContext());
  return element;
}

/// Models cast scores between one mask and the next.
Value sumOf(OpBuilder &builder, ArrayRef<Value> terms) {
  Type element = joinedType(terms);
  Value sum = castTo(builder, terms[0], element);
  for (Value term : terms.drop_front())
    sum = AddOp::create(builder, term.getLoc(), sum, castTo(builder, term, element));
  return sum;
}
/// A bias with an entry for every key, as nn.attention wants it.
Value widened(OpBuilder &builder, Value bias, ScoreShape scores) {
  SmallVector<int64_t> shape(shapeOf(bias));
  if (shape.back() == scores.keys)
    return bias;
  shape.back() = scores.keys;
  return BroadcastOp::create(builder, bias.getLoc(), tensorOf(shape, getElementTypeOrSelf(bias.getType())), bias);
}

/// Batch and heads of operands [batch * heads, .., ..], from the view that merged them; one head if there is none.
std::pair<int64_t, int64_t> splitOf(Value merged) {
  auto view = merged.getDefiningOp<ReshapeOp>();
  if (view && shapeOf(view.getOperand()).size() == 4 && splitsHeads(shapeOf(view.getOperand()), shapeOf(merged)))
    return {shapeOf(view.getOperand())[0], shapeOf(view.getOperand())[1]};
  return {shapeOf(merged)[0], 1};
}

/// Adds to `predicate` what `term` says, and gives what is left of it: nothing of a mask, x of a choice between x and a
/// very negative number, all of anything else.
Value addTerm(OpBuilder &builder, Value term, ScoreShape shape, MaskPredicate &predicate) {
  std::string why;
  if (addMask(builder, term, shape, predicate, why))
    return {};
  auto choice = term.getDefiningOp<SelectOp>();
  bool hides = choice && isVeryNegative(choice.getLhs());
  if (!choice || (!hides && !isVeryNegative(choice.getRhs())) || !addCondition(builder, choice.getCondition(), hides, shape, predicate, why))
    return term;
  return toRankFour(builder, hides ? choice.getRhs() : choice.getLhs(),
                    {shape.batch, shape.heads, shape.queries, shape.keys}, {shape.batch, shape.heads});
}

/// What is left of added terms, summed; null if nothing is.
Value addTerms(OpBuilder &builder, ArrayRef<Value> terms, ScoreShape shape, MaskPredicate &predicate) {
  SmallVector<Value> rest;
  for (Value term : terms)
    if (Value left = addTerm(builder, term, shape, predicate))
      rest.push_back(left);
  return rest.empty() ? Value() : widened(builder, sumOf(builder, rest), shape);
}

/// A value before its entries along one dimension were repeated: `source`, seen under `shape`.
struct Unrepeated {
  Value source;
  SmallVector<int64_t> shape;
};
std::optional<Unrepeated> unrepeated(Value value, size_t axis) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    shape[axis] = 1;
    return shapeOf(broadcast.getOperand()) == ArrayRef<int64_t>(shape)
               ? std::optional(Unrepeated{broadcast.getOperand(), shape})
               : std::nullopt;
  }
  auto merge = value.getDefiningOp<ReshapeOp>();
  auto broadcast = merge ? merge.getOperand().getDefiningOp<BroadcastOp>() : nullptr;
  if (!broadcast)
    return std::nullopt;
  ArrayRef<int64_t> wide = shapeOf(broadcast), narrow = shapeOf(broadcast.getOperand());
  if (wide.size() != shape.size() + 1 || narrow.size() != wide.size() || narrow[axis + 1] != 1 ||
      wide[axis] != narrow[axis])
    return std::nullopt;
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != axis && (shape[i] != wide[i < axis ? i : i + 1] || shape[i] != narrow[i < axis ? i : i + 1]))
      return std::nullopt;
  shape[axis] = wide[axis];
  return Unrepeated{broadcast.getOperand(), shape};
}

/// The grouped heads behind [B, S, H, D], and whether they lie heads first.
std::optional<std::pair<Unrepeated, bool>> groupsOf(Value value) {
  if (auto direct = unrepeated(value, 2))
    return std::pair(*direct, false);
  auto transpose = value.getDefiningOp<TransposeOp>();
  if (!transpose || transpose.getPermutation() != ArrayRef(kSwapHeads))
    return std::nullopt;
  auto inner = unrepeated(transpose.getOperand(), 1);
  return inner ? std::optional(std::pair(*inner, true)) : std::nullopt;
}
/// Puts grouped heads in place of keys and values whose heads were repeated alike.
bool groupHeads(OpBuilder &builder, Value &key, Value &value) {
  auto keys = groupsOf(key), values = groupsOf(value);
  if (!keys || !values || keys->first.shape[keys->second ? 1 : 2] != values->first.shape[values->second ? 1 : 2])
    return false;
  auto build = [&](const std::pair<Unrepeated, bool> &groups) {
    Value grouped = reshapeTo(builder, groups.first.source, groups.first.shape);
    return groups.second ? swapHeads(builder, grouped) : grouped;
  };
  key = build(*keys), value = build(*values);
  return true;
}

/// What attention sees becomes what a predicate says.
void setPredicate(AttentionOp op, const MaskPredicate &predicate) {
  auto assign = [](MutableOperandRange operand, Value value) { value ? operand.assign(value) : operand.clear(); };
  op.setMinDistance(predicate.position.low);
  op.setMaxDistance(predicate.position.high);
  op.setPrefix(predicate.position.prefix);
  op.setDilation(predicate.position.dilation);
  assign(op.getKeyMaskMutable(), predicate.keyMask);
  assign(op.getQuerySegmentMutable(), predicate.querySegment);
  assign(op.getKeySegmentMutable(), predicate.keySegment);
}

/// The scores [heads] of sinks that neither batch rows nor queries tell apart; null for others.
Value sinkOf(OpBuilder &builder, Value sink) {
  if (shapeOf(sink).size() != 4 || !isSameAlong(sink, Rows::at(0)) || !isSameAlong(sink, Rows::at(2)))
    return {};
  SmallVector<int64_t> sizes{1, shapeOf(sink)[1], 1, 1};
  auto broadcast = sink.getDefiningOp<BroadcastOp>();
  Value scores = broadcast && shapeOf(broadcast.getOperand()) == ArrayRef<int64_t>(sizes)
                     ? broadcast.getOperand()
                     : SliceOp::create(builder, sink.getLoc(), sink, SmallVector<int64_t>(4, 0), sizes,
                                       SmallVector<int64_t>(4, 1));
  return reshapeTo(builder, scores, {sizes[1]});
}

struct AttentionFrom : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  /// An added term: as it is, or the choice between scores and a very negative number written as one.
  static Value termOf(OpBuilder &builder, const Scores::Mask &mask, Type element) {
    if (mask.added) {
      if (mask.factor == 1)
        return mask.added;
      return MulOp::create(builder, mask.added.getLoc(), mask.added, scalarLike(builder, mask.added, mask.factor));
    }
    Location location = mask.condition.getLoc();
    Value seen = splat(builder, location, tensorOf({}, element), 0);
    Value hidden = splat(builder, location, tensorOf({}, element), -3.4028234663852886e38);
    return SelectOp::create(builder, location, mask.condition, mask.hides ? hidden : seen, mask.hides ? seen : hidden);
  }

  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    std::string why;
    auto scores = matchScores(op, why);
    if (!scores)
      return failure();
    Value sink = scores->sink ? sinkOf(rewriter, scores->sink) : Value();
    if (scores->sink && !sink)
      return failure();
    double scale = scores->scale;
    Value query = peelScale(scores->product.getLhs(), scale), key = peelScale(scores->product.getRhs(), scale), value = op.getRhs();
    std::pair<int64_t, int64_t> split = scores->split ? *scores->split : splitOf(query);
    if (!scores->product.getTransposeRhs())
      key = swapLastTwo(rewriter, key);
    if (op.getTransposeRhs())
      value = swapLastTwo(rewriter, value);
    Type element = joinedType({query, key, value}); // scores may be narrower than what they weigh
    for (Value *operand : {&query, &key, &value})
      *operand =
          swapHeads(rewriter, toRankFour(rewriter, castTo(rewriter, *operand, element), shapeOf(*operand), split));

    for (const Scores::Factor &factor : scores->factors) {
      Value other =
          castTo(rewriter, swapHeads(rewriter, toRankFour(rewriter, factor.value, factor.scores, split)), element);
      query = factor.divides ? DivOp::create(rewriter, op.getLoc(), query, other).getResult()
                             : MulOp::create(rewriter, op.getLoc(), query, other).getResult();
    }

    ArrayRef<int64_t> q = shapeOf(query), k = shapeOf(key);
    ScoreShape shape{q[0], q[2], q[1], k[1]};
    SmallVector<Value> terms;
    for (const Scores::Mask &mask : scores->masks)
      for (Value term : termsOf(termOf(rewriter, mask, getElementTypeOrSelf(query.getType())), bool(sink)))
        terms.push_back(toRankFour(rewriter, term, mask.scores, split));
    MaskPredicate predicate;
    Value bias = addTerms(rewriter, terms, shape, predicate);
    for (Value *added : {&bias, &sink})
      if (*added && getElementTypeOrSelf(added->getType()) != element)
        *added = castTo(rewriter, *added, rewriter.getF32Type());
    const PositionRule &position = predicate.position;
    auto attention = AttentionOp::create(
        rewriter, op.getLoc(), query, key, value, bias, predicate.keyMask, predicate.querySegment, predicate.keySegment,
        /*queryPlace=*/Value(), /*keyPlace=*/Value(), sink, APFloat(scale), position.low, position.high, /*offset=*/0,
        position.prefix, /*chunk=*/0, position.dilation, /*segmentBias=*/APFloat(0.0), APFloat(scores->cap));
    Value result = castTo(rewriter, swapHeads(rewriter, attention.getResult()), getElementTypeOrSelf(op.getType()));
    rewriter.replaceOp(op, reshapeTo(rewriter, result, shapeOf(op.getResult())));
    return success();
  }
};

/// The bias of an attention that is a mask becomes part of its predicate.
struct BiasToPredicate : OpRewritePattern<AttentionOp> {
  /// Before a mask is taken for a bias by distance.
  explicit BiasToPredicate(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/2) {}
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey());
    if (!op.getBias() || op.getKeyPlace() || op.getOffset() != 0 || shapeOf(op.getBias())[3] != k[1])
      return failure();
    ScoreShape shape{q[0], q[2], q[1], k[1]};
    MaskPredicate predicate{{int64_t(op.getMinDistance()), int64_t(op.getMaxDistance()), int64_t(op.getPrefix()),
                             int64_t(op.getDilation())},
                            op.getKeyMask(),
                            op.getQuerySegment(),
                            op.getKeySegment()};
    SmallVector<Value> terms = termsOf(op.getBias(), bool(op.getSink())), rest;
    bool changed = terms.empty();
    for (Value term : terms) {
      Value left = addTerm(rewriter, term, shape, predicate);
      changed |= left != term;
      if (left)
        rest.push_back(left);
    }
    if (!changed)
      return failure();
    Value bias =
        rest.empty()
            ? Value()
            : widened(rewriter, toRankFour(rewriter, sumOf(rewriter, rest), {q[0], q[2], q[1], k[1]}, {q[0], q[2]}),
                      shape);
    rewriter.modifyOpInPlace(op, [&] {
      bias ? op.getBiasMutable().assign(bias) : op.getBiasMutable().clear();
      setPredicate(op, predicate);
    });
    return success();
  }
};

/// Repeated key and value heads become grouped heads.
struct GroupHeads : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Value key = op.getKey(), value = op.getValue();
    if (!groupHeads(rewriter, key, value))
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getKeyMutable().assign(key);
      op.getValueMutable().assign(value);
    });
    return success();
  }
};
} // namespace

void addAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<AttentionFrom, BiasToPredicate, GroupHeads>(patterns.getContext());
}

} // namespace mt::passes
