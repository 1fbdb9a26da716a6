// Normalizations and softmax. nn's work over the last dimension; others are moved there by transposes or reshapes.
#include "compiler/onnx/Converters.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

//===-- softmax -------------------------------------------------------------------------------------------------===//

template <typename Op> LogicalResult softmax(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  if (node.opset < 13)
    return node.fail("has its meaning of before opset 13: convert the model to opset 13 or later");
  auto rank = static_cast<int64_t>(nn::shapeOf(value).size());
  auto axis = node.axis("axis", -1, rank);
  if (!axis)
    return failure();
  if (*axis == rank - 1)
    return node.result(node.emit<Op>({value}));
  Dims swap(static_cast<size_t>(rank));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[static_cast<size_t>(*axis)], swap.back());
  return node.result(node.transpose(node.emit<Op>({node.transpose(value, swap)}), swap));
}

//===-- layer and RMS normalization -------------------------------------------------------------------------------===//

// A gain or bias as a vector of `width` elements; null, without a message, where it does not have that many.
Value asVector(NodeContext &node, Value value, int64_t width) {
  return value && elementCount(Dims(nn::shapeOf(value))) == width ? node.reshape(value, {width}) : Value();
}

struct Normalized {
  Value flat;             ///< [.., D] of all normalized dimensions together
  Dims shape, statistics; ///< of the input; with the normalized dimensions as ones
  int64_t width = 1;
};

std::optional<Normalized> flatten(NodeContext &node, Value value, int64_t defaultAxis) {
  if (!value)
    return std::nullopt;
  Normalized result;
  result.shape.assign(nn::shapeOf(value).begin(), nn::shapeOf(value).end());
  auto axis = node.axis("axis", defaultAxis, static_cast<int64_t>(result.shape.size()));
  if (!axis)
    return std::nullopt;
  Dims flat(result.shape.begin(), result.shape.begin() + *axis);
  result.statistics = flat;
  for (size_t d = static_cast<size_t>(*axis); d < result.shape.size(); ++d) {
    result.width *= result.shape[d];
    result.statistics.push_back(1);
  }
  flat.push_back(result.width);
  result.flat = node.reshape(value, flat);
  return result;
}

Operand optional(Value value) { return value ? Operand(value) : Operand::absent(); }

LogicalResult layerNormOf(NodeContext &node, Value value, Value gain, Value bias, size_t meanOutput) {
  auto parts = flatten(node, value, -1);
  if (!parts)
    return failure();
  Value scale = asVector(node, gain, parts->width), shift = asVector(node, bias, parts->width);
  Operation *norm = node.emitOp<nn::LayerNormOp>({parts->flat, optional(scale), optional(shift)},
                                                 {node.realAttr("epsilon", node.attributes.real("epsilon", 1e-5))});
  if (!norm)
    return failure();
  Value result = node.reshape(norm->getResult(0), parts->shape);
  if (gain && !scale)
    result = node.mul(result, gain);
  if (bias && !shift)
    result = node.add(result, bias);
  for (size_t i = 0; i < 2; ++i)
    if (node.wantsOutput(meanOutput + i))
      (void)node.result(meanOutput + i, node.reshape(norm->getResult(static_cast<unsigned>(1 + i)), parts->statistics));
  return node.result(result);
}

LogicalResult layerNorm(NodeContext &node) {
  Value gain = node.has(1) ? node.input(1) : Value(), bias = node.has(2) ? node.input(2) : Value();
  return layerNormOf(node, node.input(0), gain, bias, 1);
}

LogicalResult rmsNormOf(NodeContext &node, Value value, Value gain, size_t rstdOutput) {
  auto parts = flatten(node, value, -1);
  if (!parts)
    return failure();
  Value scale = asVector(node, gain, parts->width);
  Operation *norm = node.emitOp<nn::RmsNormOp>({parts->flat, optional(scale)},
                                               {node.realAttr("epsilon", node.attributes.real("epsilon", 1e-5))});
  if (!norm)
    return failure();
  Value result = node.reshape(norm->getResult(0), parts->shape);
  if (gain && !scale)
    result = node.mul(result, gain);
  if (node.wantsOutput(rstdOutput))
    (void)node.result(rstdOutput, node.reshape(norm->getResult(1), parts->statistics));
  return node.result(result);
}

LogicalResult rmsNorm(NodeContext &node) {
  return rmsNormOf(node, node.input(0), node.has(1) ? node.input(1) : Value(), 2);
}

// x / norm_p(x) along an axis.
LogicalResult lpNormalization(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  auto axis = node.axis("axis", -1, static_cast<int64_t>(nn::shapeOf(value).size()));
  int64_t p = node.attributes.integer("p", 2);
  if (!axis || (p != 1 && p != 2))
    return node.fail("p must be 1 or 2");
  Value norm = node.reduce(p == 2 ? node.mul(value, value) : node.emit<nn::AbsOp>({value}), "sum", {*axis}, true);
  return node.result(node.div(value, p == 2 ? node.emit<nn::SqrtOp>({norm}) : norm));
}

// (x - mean) / sqrt(variance + eps) over the dimensions of `flat` from the last, then a gain and a bias per channel.
LogicalResult perChannel(NodeContext &node, Value value, Value gain, Value bias, int64_t groups) {
  Dims shape(nn::shapeOf(value));
  if (shape.size() < 2 || groups <= 0 || shape[1] % groups != 0)
    return node.fail("{} groups do not divide the channels of shape {}", groups, dimsText(shape));
  int64_t width = shape[1] / groups;
  for (size_t d = 2; d < shape.size(); ++d)
    width *= shape[d];
  Operation *norm = node.emitOp<nn::LayerNormOp>(
      {node.reshape(value, {shape[0], groups, width}), Operand::absent(), Operand::absent()},
      {node.realAttr("epsilon", node.attributes.real("epsilon", 1e-5))});
  if (!norm)
    return failure();
  Dims channel(shape.size() - 1, 1);
  channel[0] = shape[1];
  Value result = node.reshape(norm->getResult(0), shape);
  if (gain)
    result = node.mul(result, node.reshape(gain, channel));
  if (bias)
    result = node.add(result, node.reshape(bias, channel));
  return node.result(result);
}
LogicalResult groupNorm(NodeContext &node) {
  Value value = node.input(0), gain = node.input(1), bias = node.input(2);
  if (!value || !gain || !bias)
    return failure();
  if (nn::shapeOf(value).size() < 2)
    return node.fail("needs a tensor of rank two or more");
  if (nn::shapeOf(gain) != ArrayRef<int64_t>(nn::shapeOf(value)[1]))
    return node.fail("has a gain per group, as before opset 21: convert the model to opset 21 or later");
  return perChannel(node, value, gain, bias, node.attributes.integer("num_groups", 0));
}
LogicalResult instanceNorm(NodeContext &node) {
  Value value = node.input(0), gain = node.input(1), bias = node.input(2);
  if (!value || !gain || !bias || nn::shapeOf(value).size() < 2)
    return node.fail("needs a tensor of rank two or more");
  return perChannel(node, value, gain, bias, nn::shapeOf(value)[1]);
}

//===-- com.microsoft -------------------------------------------------------------------------------------------===//

// x + skip (+ bias), normalized; the sum is output 3.
template <bool Rms> LogicalResult skipNorm(NodeContext &node) {
  Value sum = node.add(node.input(0), node.input(1));
  size_t biasAt = Rms ? 3 : 4;
  if (node.has(biasAt))
    sum = node.add(sum, node.input(biasAt));
  Value gain = node.input(2);
  if (!sum || !gain)
    return failure();
  if (node.wantsOutput(3))
    (void)node.result(3, sum);
  if (node.wantsOutput(1) || node.wantsOutput(2))
    return node.fail("its outputs 1 and 2 (statistics) are not supported");
  return Rms ? rmsNormOf(node, sum, gain, 9) : layerNormOf(node, sum, gain, node.has(3) ? node.input(3) : Value(), 9);
}

} // namespace

void addNormalization(Converters &table) {
  table.add("Softmax", softmax<nn::SoftmaxOp>);
  table.add("LogSoftmax", softmax<nn::LogSoftmaxOp>);
  table.add("LayerNormalization", layerNorm);
  table.add("RMSNormalization", rmsNorm);
  table.add("SimplifiedLayerNormalization", rmsNorm);
  table.add("GroupNormalization", groupNorm);
  table.add("InstanceNormalization", instanceNorm);
  table.add("LpNormalization", lpNormalization);
  table.addContrib("SimplifiedLayerNormalization", rmsNorm);
  table.addContrib("SkipLayerNormalization", skipNorm<false>);
  table.addContrib("SkipSimplifiedLayerNormalization", skipNorm<true>);
}

} // namespace mt::onnx
