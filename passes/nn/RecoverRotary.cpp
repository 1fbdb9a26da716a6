// Patterns for rotary position embedding written out. A rotation turns pairs of the last dimension: its two halves, or
// neighbours (interleaved). Exporters write it with tables that hold every angle twice (x * cos + turned(x) * sin), or
// pair by pair (a cos - b sin, a sin + b cos). Su et al., arXiv 2104.09864.
#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
constexpr int64_t kSwapHeads[] = {0, 2, 1, 3}; ///< [B, H, S, D] <-> [B, S, H, D]

int64_t lastOf(Value value) { return shapeOf(value).empty() ? 1 : shapeOf(value).back(); }
int64_t elementsOf(Value value) { return cast<ShapedType>(value.getType()).getNumElements(); }
bool isLastAxis(int64_t axis, Value value) { return axis + 1 == int64_t(shapeOf(value).size()); }
Value swapHeads(OpBuilder &builder, Value value) { return TransposeOp::create(builder, value.getLoc(), value, kSwapHeads); }

/// How a table of width R holds R/2 angles twice: one half after the other, or each beside itself.
enum class Pairs { halves, neighbours };

/// [.., n] where `value` [.., 2 n] holds every entry of it twice, by the operation that doubles them; null otherwise.
Value doubledBy(Value value, Pairs pairs) {
  if (auto concat = value.getDefiningOp<ConcatOp>(); concat && pairs == Pairs::halves)
    return concat.getInputs().size() == 2 && concat.getInputs()[0] == concat.getInputs()[1] && isLastAxis(concat.getAxis(), value)
               ? concat.getInputs()[0] : Value();
  auto merge = value.getDefiningOp<ReshapeOp>();
  if (!merge)
    return {};
  // A view that merges the last two dimensions, one of them two repeated entries.
  ArrayRef<int64_t> wide = shapeOf(merge.getOperand());
  size_t rank = wide.size();
  if (rank < 2 || wide[rank - 2] * wide[rank - 1] != lastOf(value) || wide[rank - (pairs == Pairs::halves ? 2 : 1)] != 2)
    return {};
  Value source;
  if (auto broadcast = merge.getOperand().getDefiningOp<BroadcastOp>()) {
    ArrayRef<int64_t> narrow = shapeOf(broadcast.getOperand());
    if (narrow.size() >= 2 && narrow[narrow.size() - (pairs == Pairs::halves ? 2 : 1)] == 1)
      source = broadcast.getOperand();
  } else if (auto concat = merge.getOperand().getDefiningOp<ConcatOp>()) {
    size_t axis = rank - (pairs == Pairs::halves ? 2 : 1);
    if (concat.getInputs().size() == 2 && concat.getInputs()[0] == concat.getInputs()[1] && concat.getAxis() == axis)
      source = concat.getInputs()[0];
  }
  bool keepsLeading = wide.drop_back(2) == shapeOf(value).drop_back();
  return source && (keepsLeading || elementsOf(source) * 2 == elementsOf(value)) ? source : Value();
}

/// Whether an operation keeps the last dimension as it is, so that a table is doubled if its operand is.
bool keepsLast(Operation *op, Value result) {
  if (isa<CosOp, SinOp, NegOp, CastOp, CopyOp, AddOp, SubOp, MulOp, DivOp>(op))
    return true;
  if (isa<ReshapeOp, BroadcastOp>(op))
    return lastOf(op->getOperand(0)) == lastOf(result);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return isLastAxis(transpose.getPermutation().back(), result);
  if (auto slice = dyn_cast<SliceOp>(op))
    return lastOf(slice.getOperand()) == lastOf(result) && slice.getStrides().back() == 1;
  auto gather = dyn_cast<GatherOp>(op);
  return gather && gather.getAxis() + 1 < shapeOf(gather.getData()).size();
}
/// The operands of such an operation that are tables.
ValueRange tableOperands(Operation *op) { return isa<GatherOp>(op) ? op->getOperands().take_front(1) : op->getOperands(); }

bool isDoubled(Value value, Pairs pairs, int depth = 0) {
  if (splatValue(value) || lastOf(value) == 1 || doubledBy(value, pairs))
    return true;
  Operation *op = value.getDefiningOp();
  return op && depth < 16 && keepsLast(op, value) &&
         llvm::all_of(tableOperands(op), [&](Value operand) { return isDoubled(operand, pairs, depth + 1); });
}

/// Every angle once, made as the doubled `value` is.
Value undoubled(OpBuilder &builder, Value value, Pairs pairs) {
  if (lastOf(value) == 1)
    return value;
  SmallVector<int64_t> shape(shapeOf(value));
  shape.back() /= 2;
  RankedTensorType type = tensorOf(shape, getElementTypeOrSelf(value.getType()));
  if (auto number = splatValue(value))
    return splat(builder, value.getLoc(), type, *number);
  if (Value source = doubledBy(value, pairs)) {
    if (elementsOf(source) == type.getNumElements())
      return reshapeTo(builder, source, shape);
    // The broadcast that doubles repeats other dimensions too: leave only those.
    SmallVector<int64_t> narrow(shapeOf(source));
    narrow.erase(narrow.end() - (pairs == Pairs::halves ? 2 : 1));
    return BroadcastOp::create(builder, value.getLoc(), type, reshapeTo(builder, source, narrow));
  }
  Operation *op = value.getDefiningOp();
  SmallVector<Value> operands(op->getOperands());
  for (auto [i, operand] : llvm::enumerate(tableOperands(op)))
    operands[i] = undoubled(builder, operand, pairs);
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(type);
  state.addAttributes(op->getAttrDictionary().getValue());
  if (auto slice = dyn_cast<SliceOp>(op)) {
    SmallVector<int64_t> sizes(slice.getSizes());
    sizes.back() = shape.back();
    state.attributes.set("sizes", builder.getDenseI64ArrayAttr(sizes));
  }
  return builder.create(state)->getResult(0);
}

/// One member of every pair of `source`, whose last dimension begins at `begin` and holds `width` entries.
struct Member {
  Value source;
  int64_t begin = 0, width = 0;
  bool second = false;
  Pairs pairs = Pairs::halves;
  bool isPartnerOf(const Member &first) const {
    return second && !first.second && source == first.source && begin == first.begin && width == first.width && pairs == first.pairs;
  }
};

/// Members by a strided slice, or by views and a slice of size one: x [.., R] seen as [.., R/2, 2].
std::optional<Member> neighbourOf(Value value) {
  auto slice = value.getDefiningOp<SliceOp>();
  if (slice && slice.getStrides().back() == 2 && slice.getStarts().back() < 2 && 2 * lastOf(value) == lastOf(slice.getOperand())) {
    for (auto [start, size, whole, stride] : llvm::drop_end(llvm::zip(slice.getStarts(), slice.getSizes(), shapeOf(slice.getOperand()), slice.getStrides())))
      if (start != 0 || size != whole || stride != 1)
        return std::nullopt;
    return Member{slice.getOperand(), 0, lastOf(slice.getOperand()), slice.getStarts().back() == 1, Pairs::neighbours};
  }
  auto drop = value.getDefiningOp<ReshapeOp>();
  slice = drop ? drop.getOperand().getDefiningOp<SliceOp>() : nullptr;
  auto split = slice ? slice.getOperand().getDefiningOp<ReshapeOp>() : nullptr;
  if (!split)
    return std::nullopt;
  ArrayRef<int64_t> pairs = shapeOf(split.getResult()), x = shapeOf(split.getOperand());
  if (pairs.size() != x.size() + 1 || pairs.back() != 2 || pairs[pairs.size() - 2] * 2 != x.back() || lastOf(value) * 2 != x.back() ||
      slice.getSizes().back() != 1 || shapeOf(slice.getResult()).drop_back() != pairs.drop_back() || shapeOf(value).size() != x.size())
    return std::nullopt;
  return Member{split.getOperand(), 0, x.back(), slice.getStarts().back() == 1, Pairs::neighbours};
}

/// Members of a pair where `first` and `second` are slices side by side, or neighbours.
std::optional<Member> pairOf(Value first, Value second) {
  auto a = neighbourOf(first), b = neighbourOf(second);
  if (a && b)
    return b->isPartnerOf(*a) ? a : std::nullopt;
  auto low = first.getDefiningOp<SliceOp>(), high = second.getDefiningOp<SliceOp>();
  if (!low || !high || low.getOperand() != high.getOperand() || low.getSizes() != high.getSizes() ||
      low.getStrides() != high.getStrides() || low.getStrides().back() != 1 || low.getStarts().drop_back() != high.getStarts().drop_back() ||
      low.getStarts().back() + low.getSizes().back() != high.getStarts().back())
    return std::nullopt;
  return Member{low.getOperand(), low.getStarts().back(), 2 * lastOf(first), false, Pairs::halves};
}

/// The tensor whose pairs these are: a slice of `member.source` like `part`, but with both members.
Value wholeOf(OpBuilder &builder, const Member &member, Value part) {
  if (member.pairs == Pairs::neighbours)
    return member.source;
  auto slice = part.getDefiningOp<SliceOp>();
  SmallVector<int64_t> sizes(slice.getSizes());
  sizes.back() = member.width;
  if (ArrayRef<int64_t>(sizes) == shapeOf(member.source))
    return member.source;
  return SliceOp::create(builder, part.getLoc(), member.source, slice.getStarts(), sizes, slice.getStrides());
}

/// The two parts of [.., R] that is put together from halves, or from neighbours by way of [.., R/2, 2].
struct Joined {
  Value first, second;
  Pairs pairs;
};
std::optional<Joined> joinedOf(Value value) {
  if (auto concat = value.getDefiningOp<ConcatOp>()) {
    if (concat.getInputs().size() != 2 || !isLastAxis(concat.getAxis(), value) || concat.getInputs()[0].getType() != concat.getInputs()[1].getType())
      return std::nullopt;
    return Joined{concat.getInputs()[0], concat.getInputs()[1], Pairs::halves};
  }
  auto merge = value.getDefiningOp<ReshapeOp>();
  auto concat = merge ? merge.getOperand().getDefiningOp<ConcatOp>() : nullptr;
  if (!concat || concat.getInputs().size() != 2)
    return std::nullopt;
  ArrayRef<int64_t> stacked = shapeOf(concat.getResult()), whole = shapeOf(value);
  bool neighbours = isLastAxis(concat.getAxis(), concat.getResult());
  if (stacked.size() != whole.size() + 1 || stacked.drop_back(2) != whole.drop_back() ||
      stacked[concat.getAxis()] != 2 || (!neighbours && concat.getAxis() + 2 != stacked.size()))
    return std::nullopt;
  auto part = [](Value input) { // without the dimension of size one
    auto view = input.getDefiningOp<ReshapeOp>();
    return view ? view.getOperand() : Value();
  };
  Value first = part(concat.getInputs()[0]), second = part(concat.getInputs()[1]);
  if (!first || !second || first.getType() != second.getType() || shapeOf(first).size() != whole.size() ||
      shapeOf(first).drop_back() != whole.drop_back())
    return std::nullopt;
  return Joined{first, second, neighbours ? Pairs::neighbours : Pairs::halves};
}

/// Where x [B, H, S, R] or [B, S, H, R] has its positions, by how a table of `width` entries broadcasts to it.
enum class Layout { headsFirst, positionsFirst, none };
Layout layoutOf(Value table, ArrayRef<int64_t> x, int64_t width) {
  ArrayRef<int64_t> own = shapeOf(table);
  if (x.size() != 4 || llvm::is_contained(x, 0) || own.size() > 4 || own.empty() || own.back() != width)
    return Layout::none;
  SmallVector<int64_t> shape(4 - own.size(), 1);
  llvm::append_range(shape, own);
  if (shape[0] != 1 && shape[0] != x[0])
    return Layout::none;
  if (shape[1] == 1 && shape[2] == x[2])
    return Layout::headsFirst;
  return shape[2] == 1 && shape[1] == x[1] ? Layout::positionsFirst : Layout::none;
}

/// Tables that were broadcast to more heads than they need.
Value narrow(Value table) {
  while (auto broadcast = table.getDefiningOp<BroadcastOp>())
    table = broadcast.getOperand();
  return table;
}

/// rotary(x) in the layout of x, with tables [.., R/2] that lie as `layout` says.
Value buildRotary(OpBuilder &builder, Location location, Value x, Value cos, Value sin, Layout layout, Pairs pairs) {
  ArrayRef<int64_t> shape = shapeOf(x);
  int64_t positions = layout == Layout::headsFirst ? shape[2] : shape[1];
  auto table = [&](Value value) {
    int64_t batch = elementsOf(value) / (positions * lastOf(value));
    return reshapeTo(builder, value, {batch, positions, lastOf(value)});
  };
  Value operand = layout == Layout::headsFirst ? swapHeads(builder, x) : x;
  Value result = RotaryOp::create(builder, location, operand, table(cos), table(sin), pairs == Pairs::neighbours, false);
  return layout == Layout::headsFirst ? swapHeads(builder, result) : result;
}

/// x * cos + turned(x) * sin, turned(x) putting (-b, a) in the place of every pair (a, b).
struct RotaryFromDoubledTables : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    auto left = op.getLhs().getDefiningOp<MulOp>(), right = op.getRhs().getDefiningOp<MulOp>();
    if (!left || !right)
      return failure();
    for (auto [straight, turned] : {std::pair(left, right), std::pair(right, left)})
      for (auto [rotated, sin] : {std::pair(turned.getLhs(), turned.getRhs()), std::pair(turned.getRhs(), turned.getLhs())})
        if (succeeded(rewrite(op, straight, rotated, sin, rewriter)))
          return success();
    return failure();
  }

  static LogicalResult rewrite(AddOp op, MulOp straight, Value rotated, Value sin, PatternRewriter &rewriter) {
    auto joined = joinedOf(rotated);
    auto neg = joined ? joined->first.getDefiningOp<NegOp>() : nullptr;
    auto member = neg ? pairOf(joined->second, neg.getOperand()) : std::nullopt;
    if (!member || member->pairs != joined->pairs || member->width != lastOf(op))
      return failure();
    // The straight term has the same tensor, or an equal slice of what the parts are slices of.
    for (auto [x, cos] : {std::pair(straight.getLhs(), straight.getRhs()), std::pair(straight.getRhs(), straight.getLhs())}) {
      if (!isWhole(x, *member, joined->second))
        continue;
      Value cosTable = narrow(cos), sinTable = narrow(sin);
      Layout layout = layoutOf(cosTable, shapeOf(x), lastOf(x));
      if (layout == Layout::none || layoutOf(sinTable, shapeOf(x), lastOf(x)) != layout ||
          elementsOf(cosTable) != elementsOf(sinTable) || op.getType() != x.getType() ||
          !isDoubled(cosTable, member->pairs) || !isDoubled(sinTable, member->pairs))
        continue;
      Value cosOnce = undoubled(rewriter, cosTable, member->pairs), sinOnce = undoubled(rewriter, sinTable, member->pairs);
      rewriter.replaceOp(op, buildRotary(rewriter, op.getLoc(), x, cosOnce, sinOnce, layout, member->pairs));
      return success();
    }
    return failure();
  }

  static bool isWhole(Value x, const Member &member, Value part) {
    if (x == member.source)
      return member.begin == 0 && member.width == lastOf(x) && shapeOf(x).drop_back() == shapeOf(part).drop_back();
    auto slice = x.getDefiningOp<SliceOp>();
    auto like = part.getDefiningOp<SliceOp>();
    return slice && like && slice.getOperand() == member.source && slice.getStarts().back() == member.begin && lastOf(x) == member.width &&
           slice.getStrides() == like.getStrides() && slice.getStarts().drop_back() == like.getStarts().drop_back() &&
           slice.getSizes().drop_back() == like.getSizes().drop_back();
  }
};

/// (a cos - b sin, b cos + a sin) joined again, in a concatenation or the view of one.
template <typename Op> struct RotaryFromPairs : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    auto joined = joinedOf(op.getResult());
    auto sub = joined ? joined->first.template getDefiningOp<SubOp>() : nullptr;
    auto add = joined ? joined->second.template getDefiningOp<AddOp>() : nullptr;
    auto ac = sub ? sub.getLhs().template getDefiningOp<MulOp>() : nullptr;
    auto bs = sub ? sub.getRhs().template getDefiningOp<MulOp>() : nullptr;
    if (!add || !ac || !bs)
      return failure();
    for (auto [a, cos] : {std::pair(ac.getLhs(), ac.getRhs()), std::pair(ac.getRhs(), ac.getLhs())})
      for (auto [b, sin] : {std::pair(bs.getLhs(), bs.getRhs()), std::pair(bs.getRhs(), bs.getLhs())}) {
        auto member = pairOf(a, b);
        if (!member || member->pairs != joined->pairs || member->width != lastOf(op.getResult()) || !addsCrossed(add, a, b, cos, sin))
          continue;
        SmallVector<int64_t> shape(shapeOf(a));
        shape.back() = member->width;
        Value cosTable = narrow(cos), sinTable = narrow(sin);
        Layout layout = layoutOf(cosTable, shape, member->width / 2);
        if (layout == Layout::none || layoutOf(sinTable, shape, member->width / 2) != layout ||
            elementsOf(cosTable) != elementsOf(sinTable) || ArrayRef<int64_t>(shape) != shapeOf(op.getResult()))
          continue;
        Value x = wholeOf(rewriter, *member, a);
        rewriter.replaceOp(op, buildRotary(rewriter, op.getLoc(), x, cosTable, sinTable, layout, member->pairs));
        return success();
      }
    return failure();
  }

  /// Whether `add` is b cos + a sin.
  static bool addsCrossed(AddOp add, Value a, Value b, Value cos, Value sin) {
    auto isProduct = [](Value value, Value x, Value y) {
      auto mul = value.getDefiningOp<MulOp>();
      return mul && otherOperand(mul, x) == y;
    };
    return (isProduct(add.getLhs(), b, cos) && isProduct(add.getRhs(), a, sin)) ||
           (isProduct(add.getLhs(), a, sin) && isProduct(add.getRhs(), b, cos));
  }
};

/// concat(rotary(x[:R]), x[R:]) -> rotary(x): what lies behind R passes through.
struct PartialRotary : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    if (op.getInputs().size() != 2 || !isLastAxis(op.getAxis(), op.getResult()))
      return failure();
    auto swapped = [](Value value) -> Value {
      auto transpose = value.getDefiningOp<TransposeOp>();
      return transpose && transpose.getPermutation() == ArrayRef(kSwapHeads) ? transpose.getOperand() : Value();
    };
    Value turned = op.getInputs()[0];
    bool headsFirst = bool(swapped(turned));
    auto rotary = (headsFirst ? swapped(turned) : turned).getDefiningOp<RotaryOp>();
    if (!rotary)
      return failure();
    Value low = headsFirst ? swapped(rotary.getOperand()) : rotary.getOperand();
    auto head = low ? low.getDefiningOp<SliceOp>() : nullptr;
    auto tail = op.getInputs()[1].getDefiningOp<SliceOp>();
    if (!head || !tail || !isTail(head, tail) || head.getOperand().getType() != op.getType())
      return failure();
    Value x = head.getOperand();
    if (headsFirst)
      x = swapHeads(rewriter, x);
    Value result = RotaryOp::create(rewriter, rotary.getLoc(), x, rotary.getCos(), rotary.getSin(), rotary.getInterleaved(), rotary.getInverse());
    rewriter.replaceOp(op, headsFirst ? swapHeads(rewriter, result) : result);
    return success();
  }

  /// Whether `head` and `tail` are x[.., :R] and x[.., R:] of one x.
  static bool isTail(SliceOp head, SliceOp tail) {
    int64_t width = lastOf(head.getResult());
    auto ones = [](SliceOp slice) { return llvm::all_of(slice.getStrides(), [](int64_t stride) { return stride == 1; }); };
    return head.getOperand() == tail.getOperand() && ones(head) && ones(tail) && head.getStarts().back() == 0 && tail.getStarts().back() == width &&
           width + lastOf(tail.getResult()) == lastOf(head.getOperand());
  }
};
} // namespace

void addRotaryPatterns(RewritePatternSet &patterns) {
  patterns.add<RotaryFromDoubledTables, RotaryFromPairs<ConcatOp>, RotaryFromPairs<ReshapeOp>, PartialRotary>(patterns.getContext());
}

} // namespace mt::passes
