// Gradients of elementwise nn operations: textbook derivatives, written with nn operations. Operands that were
// broadcast get their gradient summed back (sumTo).
#include "compiler/nn/KernelCall.h"
#include "compiler/nn/Nn.h"

#include "llvm/ADT/SmallBitVector.h"

#include <numbers>

using namespace mlir;
using namespace mt::nn;

namespace {
/// Builds expressions at one location.
struct Expr {
  OpBuilder &builder;
  Location location;
  template <typename Op, typename... Args> Value make(Args... args) { return Op::create(builder, location, args...); }
  Value add(Value a, Value b) { return make<AddOp>(a, b); }
  Value sub(Value a, Value b) { return make<SubOp>(a, b); }
  Value mul(Value a, Value b) { return make<MulOp>(a, b); }
  Value div(Value a, Value b) { return make<DivOp>(a, b); }
  Value neg(Value a) { return make<NegOp>(a); }
  Value times(Value a, double factor) { return mul(a, scalarLike(builder, a, factor)); }
  Value compare(Value a, Value b, StringRef predicate) { return make<CompareOp>(a, b, predicate); }
  Value zeroWhere(Value condition, Value a, bool where) {
    Value zero = scalarLike(builder, a, 0);
    return where ? make<SelectOp>(condition, zero, a) : make<SelectOp>(condition, a, zero);
  }
};

/// What a real was before it was repeated or converted to another type of reals.
Value sourceOf(Value value) {
  for (Operation *op = value.getDefiningOp(); op && isa<BroadcastOp, CastOp>(op) && isReal(op->getOperand(0));
       op = value.getDefiningOp())
    value = op->getOperand(0);
  return value;
}

/// Sums over dimensions of a gradient that are none but for rounding: the gradient is a multiple, the same for all that
/// is summed, of what lies between a value and its mean over those dimensions. Norms that are written out have one, for
/// the mean that their variance is around.
struct BalancedSum {
  ArrayRef<int64_t> from; ///< the gradient's shape
  llvm::SmallBitVector summed;

  BalancedSum(ArrayRef<int64_t> from, ArrayRef<int64_t> to) : from(from), summed(from.size()) {
    for (size_t i = 0, lead = from.size() - to.size(); i < from.size(); ++i)
      summed[i] = from[i] > 1 && (i < lead || to[i - lead] == 1);
  }

  bool holds(Value gradient, int depth = 8) const {
    Operation *op = gradient.getDefiningOp();
    if (!op || depth == 0 || shapeOf(gradient) != from)
      return false;
    const auto isOne = [&](Value operand) { return holds(operand, depth - 1); };
    if (auto difference = dyn_cast<SubOp>(op); difference && isFromMean(difference))
      return true;
    if (isa<AddOp, SubOp>(op))
      return isOne(op->getOperand(0)) && isOne(op->getOperand(1));
    if (isa<MulOp>(op))
      return (isSame(op->getOperand(0)) && isOne(op->getOperand(1))) ||
             (isSame(op->getOperand(1)) && isOne(op->getOperand(0)));
    return isa<NegOp>(op) && isOne(op->getOperand(0));
  }

private:
  /// Whether a value is the same along all that is summed.
  bool isSame(Value value) const {
    ArrayRef<int64_t> shape = shapeOf(sourceOf(value));
    for (size_t i = 0, lead = from.size() - std::min(from.size(), shape.size()); i < from.size(); ++i)
      if (summed[i] && i >= lead && shape[i - lead] != 1)
        return false;
    return true;
  }

  bool isFromMean(SubOp difference) const {
    auto mean = viewedBy(sourceOf(difference.getRhs())).getDefiningOp<ReduceOp>();
    if (!mean || mean.getKind() != "mean" || !isSame(difference.getRhs()) || shapeOf(mean.getOperand()) != from ||
        sourceOf(mean.getOperand()) != sourceOf(difference.getLhs()))
      return false;
    llvm::SmallBitVector axes(from.size());
    for (int64_t axis : mean.getAxes())
      axes[static_cast<unsigned>(axis)] = from[static_cast<size_t>(axis)] > 1;
    return axes == summed;
  }
};

void addBroadcast(Expr &e, Gradients &g, Value operand, llvm::function_ref<Value()> gradient) {
  if (!g.wants(operand))
    return;
  Value each = gradient();
  if (shapeOf(each) == shapeOf(operand) || !BalancedSum(shapeOf(each), shapeOf(operand)).holds(each))
    g.add(e.builder, operand, sumTo(e.builder, each, shapeOf(operand)));
}

/// Passes dy times a derivative to the only operand.
template <typename Op>
LogicalResult unary(Op op, OpBuilder &builder, Gradients &g, llvm::function_ref<Value(Expr &, Value, Value, Value)> rule) {
  if (!g.wants(op.getOperand()))
    return success();
  Expr e{builder, op.getLoc()};
  g.add(builder, op.getOperand(), rule(e, op.getOperand(), op.getResult(), g.lookup(op.getResult())));
  return success();
}

Value activation(Expr &e, Value x, Value dy, StringRef name) { return e.make<ActivationGradOp>(x, dy, name); }
} // namespace

LogicalResult AddOp::buildGradient(OpBuilder &b, Gradients &g) {
  Expr e{b, getLoc()};
  Value dy = g.lookup(getResult());
  addBroadcast(e, g, getLhs(), [&] { return dy; });
  addBroadcast(e, g, getRhs(), [&] { return dy; });
  return success();
}
LogicalResult ModOp::buildGradient(OpBuilder &b, Gradients &g) {
  Expr e{b, getLoc()};
  Value dy = g.lookup(getResult());
  addBroadcast(e, g, getLhs(), [&] { return dy; });
  addBroadcast(e, g, getRhs(), [&] { // r = x - y * floor(x / y), and the quotient is flat
    Value taken = e.make<SubOp>(getLhs(), getResult());
    return e.neg(e.mul(dy, e.make<RoundOp>(e.make<DivOp>(taken, getRhs()))));
  });
  return success();
}
LogicalResult SubOp::buildGradient(OpBuilder &b, Gradients &g) {
  Expr e{b, getLoc()};
  Value dy = g.lookup(getResult());
  addBroadcast(e, g, getLhs(), [&] { return dy; });
  addBroadcast(e, g, getRhs(), [&] { return e.neg(dy); });
  return success();
}
LogicalResult MulOp::buildGradient(OpBuilder &b, Gradients &g) {
  Expr e{b, getLoc()};
  Value dy = g.lookup(getResult());
  addBroadcast(e, g, getLhs(), [&] { return e.mul(dy, getRhs()); });
  addBroadcast(e, g, getRhs(), [&] { return e.mul(dy, getLhs()); });
  return success();
}
LogicalResult DivOp::buildGradient(OpBuilder &b, Gradients &g) {
  Expr e{b, getLoc()};
  Value dy = g.lookup(getResult());
  addBroadcast(e, g, getLhs(), [&] { return e.div(dy, getRhs()); });
  addBroadcast(e, g, getRhs(), [&] { return e.neg(e.div(e.mul(dy, getResult()), getRhs())); });
  return success();
}
// Where a derivative is 0 times infinity it is zero, as in PyTorch: of x^0 by x, and of 0^y by y.
LogicalResult PowOp::buildGradient(OpBuilder &b, Gradients &g) {
  Expr e{b, getLoc()};
  Value dy = g.lookup(getResult());
  addBroadcast(e, g, getLhs(), [&] {
    Value less = e.sub(getRhs(), scalarLike(b, getRhs(), 1));
    Value gradient = e.mul(e.mul(dy, getRhs()), e.make<PowOp>(getLhs(), less));
    auto exponent = splatValue(getRhs());
    if (exponent && *exponent > 0 && *exponent < 1) // as of a square root
      return e.zeroWhere(e.compare(getLhs(), scalarLike(b, getLhs(), 0), "eq"), gradient, true);
    if (exponent && *exponent != 0)
      return gradient;
    return e.zeroWhere(e.compare(getRhs(), scalarLike(b, getRhs(), 0), "eq"), gradient, true);
  });
  addBroadcast(e, g, getRhs(), [&] {
    Value gradient = e.mul(e.mul(dy, getResult()), e.make<LogOp>(getLhs()));
    Value isZero = e.compare(getLhs(), scalarLike(b, getLhs(), 0), "eq");
    Value grows = e.compare(getRhs(), scalarLike(b, getRhs(), 0), "ge");
    return e.zeroWhere(e.make<AndOp>(isZero, grows), gradient, true);
  });
  return success();
}
// Ties share the gradient equally, as PyTorch does.
template <typename Op> static LogicalResult extremum(Op op, OpBuilder &b, Gradients &g, StringRef wins) {
  Expr e{b, op.getLoc()};
  Value dy = g.lookup(op.getResult());
  auto share = [&](Value mine, Value other) {
    Value won = e.zeroWhere(e.compare(mine, other, wins), dy, false);
    return e.add(won, e.zeroWhere(e.compare(mine, other, "eq"), e.times(dy, 0.5), false));
  };
  addBroadcast(e, g, op.getLhs(), [&] { return share(op.getLhs(), op.getRhs()); });
  addBroadcast(e, g, op.getRhs(), [&] { return share(op.getRhs(), op.getLhs()); });
  return success();
}
LogicalResult MaximumOp::buildGradient(OpBuilder &b, Gradients &g) { return extremum(*this, b, g, "gt"); }
LogicalResult MinimumOp::buildGradient(OpBuilder &b, Gradients &g) { return extremum(*this, b, g, "lt"); }
LogicalResult SelectOp::buildGradient(OpBuilder &b, Gradients &g) {
  Expr e{b, getLoc()};
  Value dy = g.lookup(getResult());
  addBroadcast(e, g, getLhs(), [&] { return e.zeroWhere(getCondition(), dy, false); });
  addBroadcast(e, g, getRhs(), [&] { return e.zeroWhere(getCondition(), dy, true); });
  return success();
}

#define MT_UNARY(Op, rule)                                                                                             \
  LogicalResult Op::buildGradient(OpBuilder &b, Gradients &g) {                                                        \
    return unary(*this, b, g, [&]([[maybe_unused]] Expr &e, [[maybe_unused]] Value x, [[maybe_unused]] Value y,        \
                                  Value dy) -> Value { return rule; });                                                \
  }
MT_UNARY(NegOp, e.neg(dy))
MT_UNARY(AbsOp, e.mul(dy, e.make<SignOp>(x)))
MT_UNARY(ExpOp, e.mul(dy, y))
MT_UNARY(LogOp, e.div(dy, x))
// Zero at zero: a norm or a deviation of what does not vary has no slope there, and 0 / 0 would be its chain rule.
MT_UNARY(SqrtOp, e.zeroWhere(e.compare(y, scalarLike(b, y, 0), "eq"), e.div(e.times(dy, 0.5), y), true))
MT_UNARY(RsqrtOp, e.mul(e.times(dy, -0.5), e.mul(y, e.mul(y, y))))
MT_UNARY(ReciprocalOp, e.neg(e.mul(dy, e.mul(y, y))))
MT_UNARY(TanhOp, e.sub(dy, e.mul(dy, e.mul(y, y))))
MT_UNARY(SigmoidOp, e.mul(dy, e.sub(y, e.mul(y, y))))
MT_UNARY(ErfOp, e.mul(e.times(dy, 2 * std::numbers::inv_sqrtpi), e.make<ExpOp>(e.neg(e.mul(x, x)))))
MT_UNARY(SinOp, e.mul(dy, e.make<CosOp>(x)))
MT_UNARY(CosOp, e.neg(e.mul(dy, e.make<SinOp>(x))))
MT_UNARY(AtanOp, e.div(dy, e.add(e.mul(x, x), scalarLike(b, x, 1))))
MT_UNARY(SoftplusOp, activation(e, x, dy, "softplus"))
MT_UNARY(ReluOp, activation(e, x, dy, "relu"))
MT_UNARY(SiluOp, activation(e, x, dy, "silu"))
MT_UNARY(GeluOp, activation(e, x, dy, ("gelu_" + getForm()).str()))
MT_UNARY(CastOp, isReal(x) ? e.make<CastOp>(x.getType(), dy) : dy)

/// What is dropped forward is dropped backward, what is kept scaled alike: the mask is made again.
LogicalResult DropoutOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (g.wants(getOperand()))
    g.add(b, getOperand(),
          DropoutOp::create(b, getLoc(), g.lookup(getResult()), getRows(), getScalars(), getNode(), getRatio(),
                            getOuter()));
  return success();
}
