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

LogicalResult ReduceOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (!g.wants(getOperand()))
    return success();
  SmallVector<int64_t> kept(shapeOf(getOperand()));
  int64_t count = 1;
  for (int64_t axis : getAxes())
    count *= std::exchange(kept[axis], 1);
  Value dy = reshapeTo(b, g.lookup(getResult()), kept);
  auto full = cast<RankedTensorType>(getOperand().getType());
  if (getKind() == "sum" || getKind() == "mean") {
    if (getKind() == "mean")
      dy = MulOp::create(b, getLoc(), dy, scalarLike(b, dy, 1.0 / count));
    g.add(b, getOperand(), BroadcastOp::create(b, getLoc(), full, dy));
    return success();
  }
  Value y = reshapeTo(b, getResult(), kept);
  if (getKind() == "prod") {
    Value share = DivOp::create(b, getLoc(), MulOp::create(b, getLoc(), dy, y), getOperand());
    g.add(b, getOperand(), share);
    return success();
  }
  // max, min: equal winners share equally, as torch.amax does.
  Value zero = scalarLike(b, dy, 0), one = scalarLike(b, dy, 1);
  Value won = SelectOp::create(b, getLoc(), CompareOp::create(b, getLoc(), getOperand(), y, "eq"), one, zero);
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

LogicalResult GatherOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (g.wants(getData()))
    g.add(b, getData(),
          GatherGradOp::create(b, getLoc(), getData().getType(), getIndices(), g.lookup(getResult()), getAxis()));
  return success();
}
