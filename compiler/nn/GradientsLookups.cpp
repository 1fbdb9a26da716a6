// Gradients of lookups and of their reverse: what was picked is added back into place, what was put is picked.
#include "compiler/nn/Nn.h"

#include <numeric>

using namespace mlir;
using namespace mt::nn;

namespace {
Value inFull(OpBuilder &b, Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  return element.getIntOrFloatBitWidth() < 32 ? castTo(b, value, Float32Type::get(value.getContext())) : value;
}
Value zerosLike(OpBuilder &b, Value value) {
  return splat(b, value.getLoc(), cast<RankedTensorType>(value.getType()), 0);
}
/// 1 where `value` equals `other`, else 0.
Value whereEqual(OpBuilder &b, Location where, Value value, Value other) {
  Value condition = CompareOp::create(b, where, value, other, "eq");
  return SelectOp::create(b, where, condition, scalarLike(b, value, 1), scalarLike(b, value, 0));
}

/// A row of whole numbers.
Value numbers(OpBuilder &b, Location where, ArrayRef<int64_t> values) {
  auto type = tensorOf({static_cast<int64_t>(values.size())}, b.getI64Type());
  return ConstantOp::create(b, where, type, DenseElementsAttr::get(type, values));
}

int64_t productOf(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

/// Of each index tuple [.., depth] the place that it names, counted over the first `leading` dimensions of `data`
/// together.
Value flatPlaces(OpBuilder &b, GatherNdOp op, int64_t leading) {
  Location where = op.getLoc();
  ArrayRef<int64_t> data = shapeOf(op.getData()).take_front(leading);
  int64_t batched = op.getBatchDims(), last = static_cast<int64_t>(shapeOf(op.getIndices()).size()) - 1;
  auto stride = [&](int64_t dim) { return productOf(data.drop_front(dim + 1)); };
  SmallVector<int64_t> strides;
  for (int64_t dim = batched; dim < leading; ++dim)
    strides.push_back(stride(dim));
  Value tuples = castTo(b, op.getIndices(), b.getI64Type());
  tuples =
      ModOp::create(b, where, tuples, numbers(b, where, data.drop_front(batched))); // negative ones count from the end
  Value places = ReduceOp::create(b, where, MulOp::create(b, where, tuples, numbers(b, where, strides)), "sum",
                                  ArrayRef<int64_t>{last}, false);
  for (int64_t dim = 0; dim < batched; ++dim) {
    SmallVector<int64_t> line(shapeOf(places).size(), 1);
    line[dim] = data[dim];
    Value rows =
        IotaOp::create(b, where, tensorOf(line, b.getI64Type()), dim, APFloat(0.0), APFloat(double(stride(dim))));
    places = AddOp::create(b, where, places, rows);
  }
  return places;
}

//===-- scatter ---------------------------------------------------------------------------------------------===//

Value pick(OpBuilder &b, ScatterOp op, Value from) {
  return GatherOp::create(b, op.getLoc(), from, op.getIndices(), op.getAxis());
}
Value pick(OpBuilder &b, ScatterElementsOp op, Value from) {
  return GatherElementsOp::create(b, op.getLoc(), from, op.getIndices(), op.getAxis());
}
template <typename Scatter> Value put(OpBuilder &b, Scatter op, Value data, Value updates, StringRef kind) {
  return Scatter::create(b, op.getLoc(), data, op.getIndices(), updates, op.getAxis(), kind);
}

/// What is replaced has no gradient. Where several updates name one place all of them take its gradient, as in PyTorch.
template <typename Scatter> void addReplaced(OpBuilder &b, Gradients &g, Scatter op, Value dy) {
  if (g.wants(op.getData()))
    g.add(b, op.getData(), put(b, op, dy, zerosLike(b, op.getUpdates()), "none"));
  if (g.wants(op.getUpdates()))
    g.add(b, op.getUpdates(), pick(b, op, dy));
}

/// Equal extremes share equally, as torch.scatter_reduce's do.
template <typename Scatter> void addExtremes(OpBuilder &b, Gradients &g, Scatter op, Value dy) {
  Location where = op.getLoc();
  Value dataWon = whereEqual(b, where, op.getData(), op.getResult());
  Value updatesWon = whereEqual(b, where, op.getUpdates(), pick(b, op, op.getResult()));
  Value share = DivOp::create(b, where, dy, put(b, op, dataWon, updatesWon, "add"));
  if (g.wants(op.getData()))
    g.add(b, op.getData(), MulOp::create(b, where, dataWon, share));
  if (g.wants(op.getUpdates()))
    g.add(b, op.getUpdates(), MulOp::create(b, where, updatesWon, pick(b, op, share)));
}

/// Each factor's gradient is the product of the others: zeros among the updates are left out of it and counted.
template <typename Scatter> void addFactors(OpBuilder &b, Gradients &g, Scatter op, Value dy) {
  Location where = op.getLoc();
  if (g.wants(op.getData())) {
    Value ones = splat(b, where, cast<RankedTensorType>(op.getData().getType()), 1);
    g.add(b, op.getData(), MulOp::create(b, where, dy, put(b, op, ones, op.getUpdates(), "mul")));
  }
  if (!g.wants(op.getUpdates()))
    return;
  Value zero = scalarLike(b, op.getUpdates(), 0), isZero = whereEqual(b, where, op.getUpdates(), zero);
  Value filled = AddOp::create(b, where, op.getUpdates(), isZero);
  Value product = pick(b, op, MulOp::create(b, where, dy, put(b, op, op.getData(), filled, "mul")));
  Value zeros = pick(b, op, put(b, op, zerosLike(b, op.getData()), isZero, "add"));
  Value alone = CompareOp::create(b, where, SubOp::create(b, where, zeros, isZero), zero, "eq");
  g.add(b, op.getUpdates(), SelectOp::create(b, where, alone, DivOp::create(b, where, product, filled), zero));
}

template <typename Scatter> LogicalResult scatterGradient(OpBuilder &b, Gradients &g, Scatter op) {
  Value dy = g.lookup(op.getResult());
  StringRef kind = op.getKind();
  if (kind == "none") {
    addReplaced(b, g, op, dy);
  } else if (kind == "add") {
    g.add(b, op.getData(), dy);
    if (g.wants(op.getUpdates()))
      g.add(b, op.getUpdates(), pick(b, op, dy));
  } else if (kind == "mul") {
    addFactors(b, g, op, dy);
  } else {
    addExtremes(b, g, op, dy);
  }
  return success();
}
} // namespace

LogicalResult GatherOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (g.wants(getData()))
    g.add(b, getData(),
          GatherGradOp::create(b, getLoc(), getData().getType(), getIndices(), g.lookup(getResult()), getAxis()));
  return success();
}

LogicalResult GatherNdOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (!g.wants(getData()))
    return success();
  ArrayRef<int64_t> data = shapeOf(getData());
  int64_t leading = getBatchDims() + shapeOf(getIndices()).back();
  int64_t outer = productOf(data.take_front(leading)), inner = productOf(data.drop_front(leading));
  Value places = flatPlaces(b, *this, leading);
  int64_t count = productOf(shapeOf(places));
  Value dy = reshapeTo(b, g.lookup(getResult()), {count, inner});
  Value sums = GatherGradOp::create(b, getLoc(), tensorOf({outer, inner}, getElementTypeOrSelf(getData().getType())),
                                    reshapeTo(b, places, {count}), dy, 0);
  g.add(b, getData(), reshapeTo(b, sums, data));
  return success();
}

LogicalResult GatherElementsOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (!g.wants(getData()))
    return success();
  Value dy = inFull(b, g.lookup(getResult()));
  auto type = tensorOf(shapeOf(getData()), getElementTypeOrSelf(dy.getType()));
  Value sums = ScatterElementsOp::create(b, getLoc(), splat(b, getLoc(), type, 0), getIndices(), dy, getAxis(), "add");
  g.add(b, getData(), castTo(b, sums, getElementTypeOrSelf(getData().getType())));
  return success();
}

LogicalResult ScatterOp::buildGradient(OpBuilder &b, Gradients &g) { return scatterGradient(b, g, *this); }
LogicalResult ScatterElementsOp::buildGradient(OpBuilder &b, Gradients &g) { return scatterGradient(b, g, *this); }
