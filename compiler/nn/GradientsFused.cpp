// Gradients of products, embedding, normalization, softmax, attention, rotary embedding and losses.
#include "compiler/nn/Nn.h"

using namespace mlir;
using namespace mt::nn;

namespace {
int64_t rows(Value value) {
  int64_t count = 1;
  for (int64_t size : shapeOf(value).drop_back())
    count *= size;
  return count;
}
Value asMatrix(OpBuilder &b, Value value) { return reshapeTo(b, value, {rows(value), shapeOf(value).back()}); }

/// The type of a gradient of gain or bias: a sum over rows, in 32 bits at least.
Type rowSums(Value operand) {
  Type element = getElementTypeOrSelf(operand.getType());
  bool narrow = element.getIntOrFloatBitWidth() < 32;
  return tensorOf(shapeOf(operand).take_back(), narrow ? Float32Type::get(operand.getContext()) : element);
}

/// A vector of zeros where a statistic's gradient would come in: statistics carry none.
LogicalResult onlyResult(Operation *op, Gradients &g) {
  for (Value other : op->getResults().drop_front())
    if (g.lookup(other))
      return op->emitOpError("has no gradient for its statistics");
  return success();
}

/// The gradient that reaches a loss scaled into `gradient`; nothing to do where it is the constant one.
Value scaledBy(OpBuilder &b, Value upstream, Value gradient) {
  if (auto one = splatValue(upstream); one && *one == 1)
    return gradient;
  Value factor = upstream;
  if (getElementTypeOrSelf(gradient.getType()) != getElementTypeOrSelf(upstream.getType()))
    factor = CastOp::create(b, upstream.getLoc(), tensorOf({}, getElementTypeOrSelf(gradient.getType())), upstream);
  return MulOp::create(b, upstream.getLoc(), gradient, factor);
}

/// A loss that its gradient computes again is computed once, but for what the model itself makes of it before.
void takeFrom(Operation *gradient, Value loss, Value again) {
  loss.replaceUsesWithIf(again, [&](OpOperand &use) { return !use.getOwner()->isBeforeInBlock(gradient); });
}

/// A product of operands that one kernel takes: of one element type.
Value product(OpBuilder &b, Location where, Value l, Value r, bool transposeLhs, bool transposeRhs) {
  return MatmulOp::create(b, where, l, castTo(b, r, getElementTypeOrSelf(l.getType())), transposeLhs, transposeRhs);
}

// y = op(l) op(r): dl = dy r' and dr = l' dy, transposed back where the operand was. A right side without batch
// dimensions serves a whole batch of left ones: it stays on the right, and its own gradient is the sum over the batch.
template <typename Product> void addProductGradients(OpBuilder &b, Gradients &g, Product op, Value dy) {
  Location where = op.getLoc();
  Value l = op.getLhs(), r = op.getRhs();
  bool tl = op.getTransposeLhs(), tr = op.getTransposeRhs(), shared = shapeOf(r).size() == 2 && shapeOf(l).size() > 2;
  if (g.wants(op.getBias()))
    g.add(b, op.getBias(), sumTo(b, dy, shapeOf(op.getBias())));
  dy = castTo(b, dy, getElementTypeOrSelf(l.getType()));
  if (g.wants(l)) {
    if (tl && !shared)
      g.add(b, l, product(b, where, r, dy, tr, true));
    else if (Value dl = product(b, where, dy, r, false, !tr))
      g.add(b, l, tl ? swapLastTwo(b, dl) : dl);
  }
  if (!g.wants(r))
    return;
  if (shared && tl) {
    Value each = tr ? product(b, where, dy, l, true, true) : product(b, where, l, dy, false, false);
    g.add(b, r, sumTo(b, each, shapeOf(r)));
    return;
  }
  if (shared) {
    dy = asMatrix(b, dy);
    l = asMatrix(b, l);
  }
  g.add(b, r, tr ? product(b, where, dy, l, true, tl) : product(b, where, l, dy, !tl, false));
}
} // namespace

LogicalResult MatmulOp::buildGradient(OpBuilder &b, Gradients &g) {
  addProductGradients(b, g, *this, g.lookup(getResult()));
  return success();
}

LogicalResult MatmulAddOp::buildGradient(OpBuilder &b, Gradients &g) {
  Value dy = g.lookup(getResult());
  g.add(b, getAddend(), dy);
  addProductGradients(b, g, *this, dy);
  return success();
}

LogicalResult MatmulGeluOp::buildGradient(OpBuilder &b, Gradients &g) {
  Value dy = ActivationGradOp::create(b, getLoc(), getInput().getType(), getInput(), g.lookup(getResult()), "gelu_tanh");
  if (Value beside = g.lookup(getInput()))
    dy = AddOp::create(b, getLoc(), dy, beside);
  addProductGradients(b, g, *this, dy);
  return success();
}

LogicalResult EmbeddingOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (!g.wants(getTable()))
    return success();
  Value dy = g.lookup(getResult());
  if (std::optional<uint64_t> padding = getPadding()) {
    SmallVector<int64_t> column(shapeOf(getIds()));
    column.push_back(1);
    Value pads = CompareOp::create(b, getLoc(), getIds(), scalarLike(b, getIds(), static_cast<double>(*padding)), "eq");
    dy = SelectOp::create(b, getLoc(), reshapeTo(b, pads, column), scalarLike(b, dy, 0), dy);
  }
  g.add(b, getTable(), EmbeddingGradOp::create(b, getLoc(), getTable().getType(), getIds(), dy));
  return success();
}

LogicalResult LayerNormOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (failed(onlyResult(*this, g)))
    return failure();
  Type row = rowSums(getOperand());
  auto grad = LayerNormGradOp::create(b, getLoc(), TypeRange{getOperand().getType(), row, row}, g.lookup(getResult()),
                                      getOperand(), getMean(), getRstd(), getGain(), /*addend=*/Value());
  g.add(b, getOperand(), grad.getDoperand());
  if (getGain())
    g.add(b, getGain(), grad.getDgain());
  if (getBias())
    g.add(b, getBias(), grad.getDbias());
  return success();
}

LogicalResult RmsNormOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (failed(onlyResult(*this, g)))
    return failure();
  Type row = rowSums(getOperand());
  auto grad = RmsNormGradOp::create(b, getLoc(), TypeRange{getOperand().getType(), row}, g.lookup(getResult()),
                                    getOperand(), getRstd(), getGain(), /*addend=*/Value());
  g.add(b, getOperand(), grad.getDoperand());
  if (getGain())
    g.add(b, getGain(), grad.getDgain());
  return success();
}

LogicalResult SoftmaxOp::buildGradient(OpBuilder &b, Gradients &g) {
  g.add(b, getOperand(), SoftmaxGradOp::create(b, getLoc(), g.lookup(getResult()), getResult()));
  return success();
}

// d(x - logsumexp x) = dy - exp(y) sum(dy)
LogicalResult LogSoftmaxOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (!g.wants(getOperand()))
    return success();
  Value dy = g.lookup(getResult());
  if (shapeOf(dy).empty())
    return emitOpError("needs at least one dimension");
  int64_t last = shapeOf(dy).size() - 1;
  Value sum = ReduceOp::create(b, getLoc(), dy, "sum", ArrayRef<int64_t>{last}, true);
  Value softmax = ExpOp::create(b, getLoc(), getResult());
  g.add(b, getOperand(), SubOp::create(b, getLoc(), dy, MulOp::create(b, getLoc(), softmax, sum)));
  return success();
}

LogicalResult GatedProductOp::buildGradient(OpBuilder &b, Gradients &g) {
  auto grad = GatedProductGradOp::create(b, getLoc(), getGate(), getUp(), g.lookup(getResult()), getActivation());
  g.add(b, getGate(), grad.getDgate());
  g.add(b, getUp(), grad.getDup());
  return success();
}

LogicalResult AttentionOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (failed(onlyResult(*this, g)))
    return failure();
  auto typeIfWanted = [&](Value operand) { return g.wants(operand) ? operand.getType() : Type(); };
  auto grad = AttentionGradOp::create(
      b, getLoc(), getQuery().getType(), getKey().getType(), getValue().getType(), typeIfWanted(getBias()),
      typeIfWanted(getSink()), g.lookup(getResult()), getQuery(), getKey(), getValue(), getBias(), getKeyMask(),
      getQuerySegment(), getKeySegment(), getQueryPlace(), getKeyPlace(), getSink(), getResult(), getLogsumexp(),
      getScaleAttr(), getMinDistanceAttr(), getMaxDistanceAttr(), getOffsetAttr(), getPrefixAttr(), getChunkAttr(),
      getDilationAttr(), getSegmentBiasAttr(), getSoftCapAttr());
  g.add(b, getQuery(), grad.getDquery());
  g.add(b, getKey(), grad.getDkey());
  g.add(b, getValue(), grad.getDvalue());
  if (grad.getDbias())
    g.add(b, getBias(), grad.getDbias());
  if (grad.getDsink())
    g.add(b, getSink(), grad.getDsink());
  return success();
}

LogicalResult RotaryOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (g.wants(getCos()) || g.wants(getSin()))
    return emitOpError("has no gradient for its tables; freeze the parameters they are computed from");
  g.add(b, getOperand(), RotaryOp::create(b, getLoc(), g.lookup(getResult()), getCos(), getSin(), getInterleaved(), !getInverse()));
  return success();
}

LogicalResult CrossEntropyOp::buildGradient(OpBuilder &b, Gradients &g) {
  auto grad = CrossEntropyGradOp::create(b, getLoc(), getLogits(), getLabels(), getScalars(), getLabelSmoothingAttr(),
                                         getZLossAttr());
  g.add(b, getLogits(), scaledBy(b, g.lookup(getLoss()), grad.getDlogits()));
  takeFrom(grad, getLoss(), grad.getLoss());
  return success();
}

LogicalResult LinearCrossEntropyOp::buildGradient(OpBuilder &b, Gradients &g) {
  Value upstream = g.lookup(getLoss());
  auto grad =
      LinearCrossEntropyGradOp::create(b, getLoc(), getLoss().getType(), getHidden().getType(), getWeight().getType(),
                                       getBias() ? getBias().getType() : Type(), getHidden(), getWeight(), getBias(),
                                       getLabels(), getScalars(), getTransposedAttr(), getLogitScaleAttr(),
                                       getSoftCapAttr(), getChunkAttr(), getLabelSmoothingAttr(), getZLossAttr());
  g.add(b, getHidden(), scaledBy(b, upstream, grad.getDhidden()));
  if (g.wants(getWeight()))
    g.add(b, getWeight(), scaledBy(b, upstream, grad.getDweight()));
  if (g.wants(getBias()))
    g.add(b, getBias(), scaledBy(b, upstream, grad.getDbias()));
  takeFrom(grad, getLoss(), grad.getLoss());
  return success();
}

LogicalResult SquaredErrorOp::buildGradient(OpBuilder &b, Gradients &g) {
  Value upstream = g.lookup(getLoss());
  auto grad = SquaredErrorGradOp::create(b, getLoc(), getPrediction(), getTarget(), getScalars());
  g.add(b, getPrediction(), scaledBy(b, upstream, grad.getDprediction()));
  if (g.wants(getTarget()))
    g.add(b, getTarget(), NegOp::create(b, getLoc(), scaledBy(b, upstream, grad.getDprediction())));
  takeFrom(grad, getLoss(), grad.getLoss());
  return success();
}

LogicalResult RunningStatisticOp::buildGradient(OpBuilder &b, Gradients &g) {
  g.add(b, getOwn(), g.lookup(getResult()));
  if (!g.wants(getRunning()))
    return success();
  double momentum = getMomentum().convertToDouble();
  Value kept = MulOp::create(b, getLoc(), getRunning(), scalarLike(b, getRunning(), momentum));
  Value fresh = MulOp::create(b, getLoc(), getOwn(), scalarLike(b, getOwn(), 1 - momentum));
  g.add(b, getRunning(), AddOp::create(b, getLoc(), kept, fresh));
  return success();
}
