// Gradients of convolutions, of pooling, and of products with the matrix that each row names.
#include "compiler/nn/Nn.h"

using namespace mlir;
using namespace mt::nn;

namespace {
Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

/// The sum over all but the channels of [N, M, ..].
Value channelSums(OpBuilder &b, Value value) {
  SmallVector<int64_t> axes{0};
  for (int64_t dim = 2; dim < static_cast<int64_t>(shapeOf(value).size()); ++dim)
    axes.push_back(dim);
  return ReduceOp::create(b, value.getLoc(), value, "sum", axes, false);
}
} // namespace

LogicalResult ConvOp::buildGradient(OpBuilder &b, Gradients &g) {
  Value dy = g.lookup(getResult());
  if (g.wants(getBias()))
    g.add(b, getBias(), channelSums(b, dy));
  dy = castTo(b, dy, elementOf(getKernel()));
  if (g.wants(getImage()))
    g.add(b, getImage(),
          ConvDataGradOp::create(b, getLoc(), getImage().getType(), dy, getKernel(), getStrides(), getDilations(),
                                 getLow(), getHigh(), getGroups()));
  if (g.wants(getKernel()))
    g.add(b, getKernel(),
          ConvWeightGradOp::create(b, getLoc(), getKernel().getType(), dy, getImage(), getStrides(), getDilations(),
                                   getLow(), getHigh(), getGroups()));
  return success();
}

// <dy, conv_data_grad(x, k)> = <conv(dy, k), x>: dy stands where a convolution has its image, x where it has its
// result's gradient.
LogicalResult ConvDataGradOp::buildGradient(OpBuilder &b, Gradients &g) {
  Value dy = castTo(b, g.lookup(getResult()), elementOf(getKernel()));
  if (g.wants(getGradient()))
    g.add(b, getGradient(),
          ConvOp::create(b, getLoc(), dy, getKernel(), Value(), getStrides(), getDilations(), getLow(), getHigh(),
                         getGroups()));
  if (g.wants(getKernel()))
    g.add(b, getKernel(),
          ConvWeightGradOp::create(b, getLoc(), getKernel().getType(), getGradient(), dy, getStrides(), getDilations(),
                                   getLow(), getHigh(), getGroups()));
  return success();
}

LogicalResult PoolOp::buildGradient(OpBuilder &b, Gradients &g) {
  if (g.wants(getOperand()))
    g.add(b, getOperand(),
          PoolGradOp::create(b, getLoc(), getOperand().getType(), g.lookup(getResult()),
                             getKind() == "max" ? getOperand() : Value(), getKind(), getSize(), getStrides(),
                             getDilations(), getLow(), getHigh()));
  return success();
}

LogicalResult ExpertMatmulOp::buildGradient(OpBuilder &b, Gradients &g) {
  Value dy = castTo(b, g.lookup(getResult()), elementOf(getLhs()));
  if (g.wants(getLhs()))
    g.add(b, getLhs(), ExpertMatmulOp::create(b, getLoc(), dy, getWeight(), getExperts(), !getTransposed()));
  if (g.wants(getWeight()))
    g.add(b, getWeight(),
          ExpertMatmulGradOp::create(b, getLoc(), getWeight().getType(), dy, getLhs(), getExperts(), getTransposed()));
  return success();
}
