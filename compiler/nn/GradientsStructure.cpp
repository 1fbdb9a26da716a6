// Gradients of structural nn operations: movement undone, and sums where elements were repeated.
#include "compiler/nn/Nn.h"

using namespace mlir;
using namespace mt::nn;

LogicalResult ReshapeOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (g.wants(getOperand()))
    g.add(b, getOperand(), reshapeTo(b, g.lookup(getResult()), shapeOf(getOperand())));
  return success();
}

LogicalResult TransposeOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (!g.wants(getOperand()))
    return success();
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, from] : llvm::enumerate(getPermutation()))
    inverse[from] = i;
  g.add(b, getOperand(), TransposeOp::create(b, getLoc(), g.lookup(getResult()), inverse));
  return success();
}

LogicalResult BroadcastOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (g.wants(getOperand()))
    g.add(b, getOperand(), sumTo(b, g.lookup(getResult()), shapeOf(getOperand())));
  return success();
}

/// Reverses the dimensions of `value` in which `strides` is negative.
static Value flip(OpBuilder &b, Value value, ArrayRef<int64_t> strides) {
  if (llvm::none_of(strides, [](int64_t s) { return s < 0; }))
    return value;
  SmallVector<int64_t> starts, sizes(shapeOf(value)), steps;
  for (auto [size, stride] : llvm::zip(sizes, strides)) {
    starts.push_back(stride < 0 ? size - 1 : 0);
    steps.push_back(stride < 0 ? -1 : 1);
  }
  return SliceOp::create(b, value.getLoc(), value, starts, sizes, steps);
}

LogicalResult SliceOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (!g.wants(getOperand()) || getType().getNumElements() == 0)
    return success();
  SmallVector<int64_t> low, high, interior;
  for (auto [size, start, count, stride] : llvm::zip(shapeOf(getOperand()), getStarts(), getSizes(), getStrides())) {
    int64_t last = start + (count - 1) * stride;
    low.push_back(std::min(start, last));
    high.push_back(size - 1 - std::max(start, last));
    interior.push_back(std::abs(stride) - 1);
  }
  Value dy = flip(b, g.lookup(getResult()), getStrides());
  g.add(b, getOperand(), PadOp::create(b, getLoc(), dy, low, high, interior, APFloat(0.0)));
  return success();
}

LogicalResult PadOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (!g.wants(getOperand()))
    return success();
  for (int64_t amount : llvm::concat<const int64_t>(getLow(), getHigh()))
    if (amount < 0)
      return emitOpError("has no gradient with negative padding");
  SmallVector<int64_t> strides;
  for (int64_t interior : getInterior())
    strides.push_back(interior + 1);
  g.add(b, getOperand(),
        SliceOp::create(b, getLoc(), g.lookup(getResult()), getLow(), shapeOf(getOperand()), strides));
  return success();
}

// Numbers are not learned; scales, and zeros of real type, may be: each has the gradients of the elements that it
// serves.
LogicalResult DequantizeOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (!g.wants(getScales()) && !g.wants(getZeros()))
    return success();
  Value dy = castTo(b, g.lookup(getResult()), b.getF32Type());
  ArrayRef<int64_t> scales = shapeOf(getScales()), shape = shapeOf(getResult());
  auto sums = [&](Value each) -> Value {
    if (scales.empty())
      return sumTo(b, each, {});
    int64_t axis = static_cast<int64_t>(getAxis()), block = static_cast<int64_t>(getBlock());
    int64_t blocks = (shape[axis] + block - 1) / block;
    SmallVector<int64_t> none(shape.size(), 0), high(none), fine(shape), others;
    high[axis] = blocks * block - shape[axis];
    if (high[axis] > 0)
      each = PadOp::create(b, getLoc(), each, none, high, none, APFloat(0.0));
    fine[axis] = blocks;
    fine.insert(fine.begin() + axis + 1, block);
    for (int64_t d = 0; d < static_cast<int64_t>(fine.size()); ++d)
      if (d == axis + 1 || (d != axis && scales.size() == 1))
        others.push_back(d);
    return reshapeTo(b, ReduceOp::create(b, getLoc(), reshapeTo(b, each, fine), "sum", others, false), scales);
  };
  if (g.wants(getScales())) {
    Value ones = splat(b, getLoc(), cast<RankedTensorType>(getScales().getType()), 1);
    auto full = tensorOf(shape, b.getF32Type());
    Value numbers = DequantizeOp::create(b, getLoc(), full, getValues(), ones, getZeros(), getBits(), getIsSigned(),
                                         getZero(), getAxis(), getBlock(), getLevelsAttr());
    g.add(b, getScales(), sums(MulOp::create(b, getLoc(), dy, numbers)));
  }
  if (g.wants(getZeros())) {
    Value each = castTo(b, getScales(), b.getF32Type());
    g.add(b, getZeros(), NegOp::create(b, getLoc(), MulOp::create(b, getLoc(), sums(dy), each)));
  }
  return success();
}

LogicalResult ConcatOp::buildGradient(OpBuilder &b, Gradients &g) {
  Value dy = g.lookup(getResult());
  SmallVector<int64_t> starts(shapeOf(dy).size(), 0), strides(shapeOf(dy).size(), 1);
  for (Value input : getInputs()) {
    if (g.wants(input))
      g.add(b, input, SliceOp::create(b, getLoc(), dy, starts, shapeOf(input), strides));
    starts[getAxis()] += shapeOf(input)[getAxis()];
  }
  return success();
}

/// 1 where `value` equals `other`, else 0.
static Value onesWhereEqual(OpBuilder &b, Location where, Value value, Value other) {
  Value condition = CompareOp::create(b, where, value, other, "eq");
  return SelectOp::create(b, where, condition, scalarLike(b, value, 1), scalarLike(b, value, 0));
}

/// Times `dy`, for each element of x the product of the others along `axes`. A zero among them makes it zero, and dividing
/// the whole product by an element would not say so: zeros are left out of the product and counted.
static Value timesOthers(OpBuilder &b, Location where, Value x, ArrayRef<int64_t> axes, Value dy) {
  Value zero = scalarLike(b, x, 0), isZero = onesWhereEqual(b, where, x, zero);
  Value filled = AddOp::create(b, where, x, isZero);
  Value product = ReduceOp::create(b, where, filled, "prod", axes, true);
  Value zeros = ReduceOp::create(b, where, isZero, "sum", axes, true);
  Value others = DivOp::create(b, where, MulOp::create(b, where, dy, product), filled);
  Value none = CompareOp::create(b, where, SubOp::create(b, where, zeros, isZero), zero, "eq");
  return SelectOp::create(b, where, none, others, zero);
}

/// `dy` where along `axis` the first element stands that is equal to `other`, zero elsewhere.
static Value ofFirstEqual(OpBuilder &b, Location where, Value x, Value other, int64_t axis, Value dy) {
  ArrayRef<int64_t> shape = shapeOf(x);
  SmallVector<int64_t> line(shape.size(), 1);
  line[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  Value position = IotaOp::create(b, where, tensorOf(line, b.getI32Type()), axis, APFloat(0.0), APFloat(1.0));
  Value none = scalarLike(b, position, static_cast<double>(shape[static_cast<size_t>(axis)]));
  Value candidates = SelectOp::create(b, where, CompareOp::create(b, where, x, other, "eq"), position, none);
  Value first = ReduceOp::create(b, where, candidates, "min", ArrayRef<int64_t>{axis}, true);
  return SelectOp::create(b, where, CompareOp::create(b, where, position, first, "eq"), dy, scalarLike(b, dy, 0));
}

LogicalResult ReduceOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (!g.wants(getOperand()))
    return success();
  Type element = getElementTypeOrSelf(getOperand().getType());
  SmallVector<int64_t> kept(shapeOf(getOperand()));
  int64_t count = 1;
  for (int64_t axis : getAxes())
    count *= std::exchange(kept[axis], 1);
  Value dy = reshapeTo(b, castTo(b, g.lookup(getResult()), element), kept);
  if (getKind() == "sum" || getKind() == "mean") {
    if (getKind() == "mean")
      dy = MulOp::create(b, getLoc(), dy, scalarLike(b, dy, 1.0 / count));
    g.add(b, getOperand(), BroadcastOp::create(b, getLoc(), getOperand().getType(), dy));
    return success();
  }
  if (getKind() == "prod") {
    g.add(b, getOperand(), timesOthers(b, getLoc(), getOperand(), getAxes(), dy));
    return success();
  }
  if (getFirst()) { // as torch.max over a dimension does
    Value winner = castTo(b, getResult(), element);
    g.add(b, getOperand(), ofFirstEqual(b, getLoc(), getOperand(), reshapeTo(b, winner, kept), getAxes()[0], dy));
    return success();
  }
  // max, min: equal winners share equally, as torch.amax does.
  Value won = onesWhereEqual(b, getLoc(), getOperand(), reshapeTo(b, castTo(b, getResult(), element), kept));
  Value winners = ReduceOp::create(b, getLoc(), won, "sum", getAxes(), true);
  g.add(b, getOperand(), MulOp::create(b, getLoc(), won, DivOp::create(b, getLoc(), dy, winners)));
  return success();
}

LogicalResult CumsumOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (g.wants(getOperand()))
    g.add(b, getOperand(),
          CumsumOp::create(b, getLoc(), g.lookup(getResult()), getAxis(), getExclusive(), !getReverse()));
  return success();
}
