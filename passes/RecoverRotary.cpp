// Pattern for rotary position embedding written out: x * cos + rotate_half(x) * sin, with tables whose two halves are
// equal. Su et al., arXiv 2104.09864.
#include "passes/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
int64_t lastOf(Value value) { return shapeOf(value).empty() ? 1 : shapeOf(value).back(); }

/// Whether the two halves of the last dimension hold the same, provably by how the value is made.
bool hasEqualHalves(Value value, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 16)
    return false;
  if (splatValue(value) || lastOf(value) == 1)
    return true;
  if (auto concat = dyn_cast<ConcatOp>(op))
    return concat.getInputs().size() == 2 && concat.getInputs()[0] == concat.getInputs()[1] &&
           concat.getAxis() + 1 == shapeOf(value).size();
  if (isa<CosOp, SinOp, NegOp, CastOp, CopyOp>(op))
    return hasEqualHalves(op->getOperand(0), depth + 1);
  if (isa<AddOp, SubOp, MulOp, DivOp>(op))
    return hasEqualHalves(op->getOperand(0), depth + 1) && hasEqualHalves(op->getOperand(1), depth + 1);
  if (isa<ReshapeOp, BroadcastOp>(op))
    return lastOf(op->getOperand(0)) == lastOf(value) && hasEqualHalves(op->getOperand(0), depth + 1);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return transpose.getPermutation().back() + 1 == int64_t(transpose.getPermutation().size()) && hasEqualHalves(transpose.getOperand(), depth + 1);
  if (auto gather = dyn_cast<GatherOp>(op))
    return gather.getAxis() + 1 < shapeOf(gather.getData()).size() && hasEqualHalves(gather.getData(), depth + 1);
  return false;
}

/// The first half of a value with equal halves, made as the value is.
Value firstHalf(OpBuilder &builder, Value value) {
  if (lastOf(value) == 1)
    return value;
  Operation *op = value.getDefiningOp();
  SmallVector<int64_t> shape(shapeOf(value));
  shape.back() /= 2;
  RankedTensorType type = tensorOf(shape, getElementTypeOrSelf(value.getType()));
  if (auto number = splatValue(value))
    return splat(builder, value.getLoc(), type, *number);
  if (auto concat = dyn_cast<ConcatOp>(op))
    return concat.getInputs()[0];
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isa<GatherOp>(op) && operand == cast<GatherOp>(op).getIndices() ? operand : firstHalf(builder, operand));
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(type);
  state.addAttributes(op->getAttrDictionary().getValue());
  return builder.create(state)->getResult(0);
}

/// x where `value` is concat(-x[R/2:], x[:R/2]) along the last dimension.
Value rotatedHalfOf(Value value) {
  auto concat = value.getDefiningOp<ConcatOp>();
  if (!concat || concat.getInputs().size() != 2 || concat.getAxis() + 1 != shapeOf(value).size())
    return {};
  auto neg = concat.getInputs()[0].getDefiningOp<NegOp>();
  auto high = neg ? neg.getOperand().getDefiningOp<SliceOp>() : nullptr;
  auto low = concat.getInputs()[1].getDefiningOp<SliceOp>();
  if (!high || !low || high.getOperand() != low.getOperand() || low.getOperand().getType() != value.getType())
    return {};
  int64_t half = lastOf(value) / 2;
  if (low.getStarts().back() != 0 || high.getStarts().back() != half || low.getSizes().back() != half ||
      high.getSizes().back() != half || low.getStrides().back() != 1 || high.getStrides().back() != 1)
    return {};
  return low.getOperand();
}

struct RotaryFrom : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  enum class Layout { headsFirst, positionsFirst, none };
  /// How tables that broadcast to x [B, H, S, R] or [B, S, H, R] lie.
  static Layout layoutOf(ArrayRef<int64_t> table, ArrayRef<int64_t> x) {
    if (x.size() != 4 || table.empty() || table.back() != x[3])
      return Layout::none;
    if (table.size() == 2 || (table.size() == 3 && table[0] == 1))
      return table[table.size() - 2] == x[2] ? Layout::headsFirst : Layout::none;
    if (table.size() != 4 || (table[0] != 1 && table[0] != x[0]))
      return Layout::none;
    if (table[1] == 1 && table[2] == x[2])
      return Layout::headsFirst;
    return table[2] == 1 && table[1] == x[1] ? Layout::positionsFirst : Layout::none;
  }

  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    auto left = op.getLhs().getDefiningOp<MulOp>(), right = op.getRhs().getDefiningOp<MulOp>();
    if (!left || !right)
      return failure();
    for (auto [straight, turned] : {std::pair(left, right), std::pair(right, left)})
      for (auto [rotated, sin] : {std::pair(turned.getLhs(), turned.getRhs()), std::pair(turned.getRhs(), turned.getLhs())}) {
        Value x = rotatedHalfOf(rotated);
        Value cos = x ? otherOperand(straight, x) : Value();
        if (cos && succeeded(rewrite(op, x, cos, sin, rewriter)))
          return success();
      }
    return failure();
  }

  LogicalResult rewrite(AddOp op, Value x, Value cos, Value sin, PatternRewriter &rewriter) const {
    ArrayRef<int64_t> shape = shapeOf(x);
    Layout layout = layoutOf(shapeOf(cos), shape);
    if (layout == Layout::none || shapeOf(sin) != shapeOf(cos) || op.getType() != x.getType() || !hasEqualHalves(cos) || !hasEqualHalves(sin))
      return failure();
    int64_t positions = layout == Layout::headsFirst ? shape[2] : shape[1];
    int64_t batch = shapeOf(cos).size() == 4 ? shapeOf(cos)[0] : 1;
    auto table = [&](Value full) { return reshapeTo(rewriter, firstHalf(rewriter, full), {batch, positions, shape[3] / 2}); };
    Value cosTable = table(cos), sinTable = table(sin);
    constexpr int64_t kSwapHeads[] = {0, 2, 1, 3};
    auto swap = [&](Value value) { return TransposeOp::create(rewriter, op.getLoc(), value, kSwapHeads).getResult(); };
    Value operand = layout == Layout::headsFirst ? swap(x) : x;
    Value result = RotaryOp::create(rewriter, op.getLoc(), operand, cosTable, sinTable, false, false);
    rewriter.replaceOp(op, layout == Layout::headsFirst ? swap(result) : result);
    return success();
  }
};
} // namespace

void addRotaryPatterns(RewritePatternSet &patterns) { patterns.add<RotaryFrom>(patterns.getContext()); }

} // namespace mt::passes
