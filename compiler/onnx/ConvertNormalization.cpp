// Normalizations. nn's work over the last dimension; others are moved there by reshapes.
#include "compiler/onnx/Converters.h"
#include "kernels/Types.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

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

// Mean and inverse deviation of rows, written out: the statistics of nn.layer_norm itself carry no gradient.
Value rowStatistic(NodeContext &node, Value rows, double epsilon, bool deviation) {
  auto last = static_cast<int64_t>(nn::shapeOf(rows).size()) - 1;
  rows = node.cast(rows, node.builder.getF32Type());
  Value mean = node.reduce(rows, "mean", {last}, true);
  if (!deviation)
    return mean;
  Value centered = node.sub(rows, mean);
  Value variance = node.reduce(node.mul(centered, centered), "mean", {last}, true);
  return variance ? node.emit<nn::RsqrtOp>({node.add(variance, node.scalar(variance, epsilon))}) : variance;
}

constexpr double kEpsilon = 1e-5, kContribEpsilon = 1e-12; ///< where a node has none

LogicalResult layerNormOf(NodeContext &node, Value value, Value gain, Value bias, size_t meanOutput, double epsilon) {
  epsilon = node.attributes.real("epsilon", epsilon);
  auto parts = flatten(node, value, -1);
  if (!parts)
    return failure();
  Value scale = asVector(node, gain, parts->width), shift = asVector(node, bias, parts->width);
  Operation *norm = node.emitOp<nn::LayerNormOp>({parts->flat, optional(scale), optional(shift)},
                                                 {node.realAttr("epsilon", epsilon)});
  if (!norm)
    return failure();
  Value result = node.reshape(norm->getResult(0), parts->shape);
  if (gain && !scale)
    result = node.mul(result, gain);
  if (bias && !shift)
    result = node.add(result, bias);
  for (size_t i = 0; i < 2; ++i)
    if (node.wantsOutput(meanOutput + i))
      (void)node.result(meanOutput + i,
                        node.reshape(rowStatistic(node, parts->flat, epsilon, i == 1), parts->statistics));
  return node.result(result);
}

LogicalResult layerNorm(NodeContext &node) {
  Value gain = node.has(1) ? node.input(1) : Value(), bias = node.has(2) ? node.input(2) : Value();
  return layerNormOf(node, node.input(0), gain, bias, 1, kEpsilon);
}

LogicalResult rmsNormOf(NodeContext &node, Value value, Value gain, size_t rstdOutput, double epsilon) {
  auto parts = flatten(node, value, -1);
  if (!parts)
    return failure();
  Value scale = asVector(node, gain, parts->width);
  Operation *norm = node.emitOp<nn::RmsNormOp>({parts->flat, optional(scale)},
                                               {node.realAttr("epsilon", node.attributes.real("epsilon", epsilon))});
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
  return rmsNormOf(node, node.input(0), node.has(1) ? node.input(1) : Value(), 2, kEpsilon);
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
  Value none = node.compare(norm, node.scalar(norm, 0), "eq"); // zeros stay zeros
  norm = node.emit<nn::SelectOp>({none, node.scalar(norm, 1), norm});
  return node.result(node.div(value, p == 2 ? node.emit<nn::SqrtOp>({norm}) : norm));
}

// (x - mean) / sqrt(variance + eps) of each row's groups of channels, then a gain and a bias per channel.
Value perChannel(NodeContext &node, Value value, Value gain, Value bias, int64_t groups) {
  Dims shape(nn::shapeOf(value));
  if (shape.size() < 2 || groups <= 0 || shape[1] % groups != 0) {
    (void)node.fail("{} groups do not divide the channels of shape {}", groups, dimsText(shape));
    return {};
  }
  int64_t width = shape[1] / groups;
  for (size_t d = 2; d < shape.size(); ++d)
    width *= shape[d];
  Operation *norm = node.emitOp<nn::LayerNormOp>(
      {node.reshape(value, {shape[0], groups, width}), Operand::absent(), Operand::absent()},
      {node.realAttr("epsilon", node.attributes.real("epsilon", kEpsilon))});
  if (!norm)
    return {};
  Dims channel(shape.size() - 1, 1);
  channel[0] = shape[1];
  Value result = node.reshape(norm->getResult(0), shape);
  if (gain)
    result = node.mul(result, node.reshape(gain, channel));
  if (bias)
    result = node.add(result, node.reshape(bias, channel));
  return result;
}
// An entry per group as one per channel; what has one per channel already stays.
Value perGroup(NodeContext &node, Value value, int64_t groups, int64_t channels) {
  if (nn::shapeOf(value) != ArrayRef<int64_t>(groups))
    return value;
  return node.reshape(node.broadcast(node.reshape(value, {groups, 1}), {groups, channels / groups}), {channels});
}
LogicalResult groupNorm(NodeContext &node) {
  Value value = node.input(0), gain = node.input(1), bias = node.input(2);
  if (!value || !gain || !bias)
    return failure();
  if (nn::shapeOf(value).size() < 2)
    return node.fail("needs a tensor of rank two or more");
  int64_t groups = node.attributes.integer("num_groups", 0), channels = nn::shapeOf(value)[1];
  if (node.opset < 21 && groups > 0 && channels % groups == 0) { // gains and biases are per group
    gain = perGroup(node, gain, groups, channels);
    bias = perGroup(node, bias, groups, channels);
  }
  if (!gain || !bias || nn::shapeOf(gain) != ArrayRef<int64_t>(channels) ||
      nn::shapeOf(bias) != ArrayRef<int64_t>(channels))
    return node.fail("its gain and bias must have an entry for each of {} channels", channels);
  return node.result(perChannel(node, value, gain, bias, node.attributes.integer("num_groups", 0)));
}
LogicalResult instanceNorm(NodeContext &node) {
  Value value = node.input(0), gain = node.input(1), bias = node.input(2);
  if (!value || !gain || !bias || nn::shapeOf(value).size() < 2)
    return node.fail("needs a tensor of rank two or more");
  return node.result(perChannel(node, value, gain, bias, nn::shapeOf(value)[1]));
}

//===-- statistics over the batch -------------------------------------------------------------------------------===//

// All dimensions but the channels', and the shape in which an entry per channel broadcasts.
struct Channels {
  Dims others;
  SmallVector<int64_t> shape;
};
Channels channelsOf(ArrayRef<int64_t> shape) {
  Channels channels{{0}, SmallVector<int64_t>(shape.size(), 1)};
  channels.shape[1] = shape[1];
  for (size_t d = 2; d < shape.size(); ++d)
    channels.others.push_back(static_cast<int64_t>(d));
  return channels;
}

Value varianceOf(NodeContext &node, Value value, Value mean, ArrayRef<int64_t> axes) {
  Value centered = node.sub(value, mean);
  return node.reduce(node.mul(centered, centered), "mean", axes, true);
}

// In training the batch's own statistics normalize, and the running ones, which evaluations take, move towards them.
LogicalResult normalizeByBatch(NodeContext &node, Value value, const Channels &channels, Value &mean, Value &variance) {
  Value ownMean = node.reduce(value, "mean", channels.others, true);
  Value ownVariance = varianceOf(node, value, ownMean, channels.others);
  double momentum = node.attributes.real("momentum", 0.9);
  for (auto [index, running, own] : {std::tuple<size_t, Value, Value>{1, mean, ownMean}, {2, variance, ownVariance}}) {
    if (!running || !own)
      return failure();
    Value fresh = node.cast(node.reshape(own, nn::shapeOf(running)), getElementTypeOrSelf(running));
    if (!fresh)
      return failure();
    if (node.wantsOutput(index)) {
      Value moved = node.add(node.mul(running, node.scalar(running, momentum)),
                             node.mul(fresh, node.scalar(fresh, 1 - momentum)));
      if (failed(node.result(index, moved)))
        return failure();
    }
    (index == 1 ? mean : variance) = fresh;
    if (!node.given(index + 2).make) // computed, or an input: nothing that a step could move
      continue;
    RankedTensorType scalars = nn::tensorOf({kernels::Scalars::kCount}, node.builder.getF64Type());
    (index == 1 ? mean : variance) =
        nn::RunningStatisticOp::create(node.builder, node.location, fresh, running,
                                       nn::splat(node.builder, node.location, scalars, 0), // until DrawNumbers.cpp
                                       APFloat(momentum));
    node.isRunning(index + 2);
  }
  return success();
}

// (x - mean) / sqrt(variance + eps) * scale + bias, per channel: x times a factor plus a shift.
LogicalResult batchNorm(NodeContext &node) {
  Value value = node.input(0), gain = node.input(1), bias = node.input(2), mean = node.input(3),
        variance = node.input(4);
  if (!value || !gain || !bias || !mean || !variance)
    return failure();
  node.isStatistic(3);
  node.isStatistic(4);
  if (node.opset < 14 && node.wantsOutput(1))
    return node.fail("its training form of before opset 14 is not supported: export the model with opset 14 or later");
  if (nn::shapeOf(value).size() < 2)
    return node.fail("needs a tensor of rank two or more");
  Channels channels = channelsOf(nn::shapeOf(value));
  if (node.attributes.integer("training_mode", 0) && failed(normalizeByBatch(node, value, channels, mean, variance)))
    return failure();
  Type element = getElementTypeOrSelf(value), precise = getElementTypeOrSelf(variance);
  for (Value *part : {&gain, &bias, &mean, &variance}) {
    if (elementCount(Dims(nn::shapeOf(*part))) != channels.shape[1])
      return node.fail("its inputs must have an entry for each of {} channels", channels.shape[1]);
    *part = node.reshape(node.cast(*part, precise), channels.shape);
  }
  Value root =
      node.emit<nn::RsqrtOp>({node.add(variance, node.scalar(variance, node.attributes.real("epsilon", kEpsilon)))});
  Value factor = node.mul(gain, root), shift = node.sub(bias, node.mul(mean, factor));
  if (!factor || !shift)
    return failure();
  return node.result(node.add(node.mul(value, node.cast(factor, element)), node.cast(shift, element)));
}

// (x - mean) / (deviation + 1e-9) over the axes.
LogicalResult meanVarianceNorm(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  Dims axes = node.attributes.integers("axes").value_or(Dims{0, 2, 3});
  for (int64_t &axis : axes) {
    auto front = frontAxis(axis, static_cast<int64_t>(nn::shapeOf(value).size()));
    if (!front)
      return node.fail("axis {} is out of range for rank {}", axis, nn::shapeOf(value).size());
    axis = *front;
  }
  llvm::sort(axes);
  Value mean = node.reduce(value, "mean", axes, true);
  Value deviation = node.emit<nn::SqrtOp>({varianceOf(node, value, mean, axes)});
  if (!deviation)
    return failure();
  return node.result(node.div(node.sub(value, mean), node.add(deviation, node.scalar(deviation, 1e-9))));
}

// x / (bias + alpha / size * sum)^beta, the sum of squares over `size` neighbouring channels.
LogicalResult localResponseNorm(NodeContext &node) {
  Value value = node.input(0);
  int64_t size = node.attributes.integer("size", 0);
  if (!value)
    return failure();
  constexpr int64_t kMost = 1024; // each becomes a slice
  if (nn::shapeOf(value).size() < 2 || size < 1 || size > kMost)
    return node.fail("needs channels, and a size of 1 to {}", kMost);
  SmallVector<int64_t> low(nn::shapeOf(value).size(), 0), high(low), none(low);
  low[1] = (size - 1) / 2;
  high[1] = size - 1 - low[1];
  Value squares =
      node.emit<nn::PadOp>({node.mul(value, value)}, {node.intsAttr("low", low), node.intsAttr("high", high),
                                                      node.intsAttr("interior", none), node.realAttr("value", 0)});
  Value sum;
  for (int64_t i = 0; i < size; ++i) {
    Value part = node.slice(squares, 1, i, nn::shapeOf(value)[1]);
    sum = sum ? node.add(sum, part) : part;
  }
  double alpha = node.attributes.real("alpha", 1e-4) / static_cast<double>(size);
  Value base = node.add(node.mul(sum, node.scalar(sum, alpha)), node.scalar(sum, node.attributes.real("bias", 1)));
  return node.result(
      node.mul(value, node.emit<nn::PowOp>({base, node.scalar(base, -node.attributes.real("beta", 0.75))})));
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
  return Rms ? rmsNormOf(node, sum, gain, 9, kContribEpsilon)
             : layerNormOf(node, sum, gain, node.has(3) ? node.input(3) : Value(), 9, kContribEpsilon);
}

// Group normalization of channels that come last, or of [N, C, H, W]; of the sum with a skip, which broadcasts, and a
// bias per channel, for SkipGroupNorm.
template <bool Skips> LogicalResult contribGroupNorm(NodeContext &node) {
  Value value = node.input(0), gain = node.input(1), bias = node.input(2);
  if (!value || !gain || !bias)
    return failure();
  const Dims shape(nn::shapeOf(value));
  const bool last = node.attributes.integer("channels_last", 1);
  const int64_t channels = shape.size() == 4 ? shape[last ? 3 : 1] : -1;
  auto channelwise = [&](Value of) { return of && nn::shapeOf(of) == ArrayRef<int64_t>(channels); };
  if (!channelwise(gain) || !channelwise(bias))
    return node.fail("needs a tensor of four dimensions, and gains and biases for each of its channels");
  auto spread = [&](Value of, int64_t rows) { // of rows and channels, over all places
    return last ? node.reshape(of, {rows, 1, 1, nn::shapeOf(of).back()})
                : node.reshape(of, {rows, nn::shapeOf(of).back(), 1, 1});
  };
  if (Skips) {
    Value skip = node.input(3);
    if (skip && nn::shapeOf(skip).size() == 2)
      skip = spread(skip, nn::shapeOf(skip)[0]);
    value = node.add(value, skip);
    if (Value added = node.has(4) ? node.input(4) : Value(); channelwise(added))
      value = node.add(value, spread(added, 1));
    else if (node.has(4))
      return node.fail("its bias must have an entry for each channel");
    if (!value || Dims(nn::shapeOf(value)) != shape)
      return node.fail("its skip and its bias do not broadcast to its first input");
    if (node.wantsOutput(1))
      (void)node.result(1, value);
  }
  Value result = perChannel(node, last ? node.transpose(value, {0, 3, 1, 2}) : value, gain, bias,
                            node.attributes.integer("groups", 0));
  if (last)
    result = node.transpose(result, {0, 2, 3, 1});
  return node.result(node.attributes.integer("activation", 0) ? node.emit<nn::SiluOp>({result}) : result);
}

// Rows of tables of words, positions and, where they are, segments, added and normalized. Outputs: the result; how many
// tokens of each row the mask counts; the sum.
LogicalResult embedLayerNorm(NodeContext &node) {
  if (!node.has(0) || !node.has(2) || !node.has(3))
    return failure();
  std::vector<NodeValue *> inputs = node.givenInputs(9);
  inputs.resize(9, nullptr);
  const NodeAttributes rows; // axis 0
  Value words = converted(node, "Gather", {inputs[2], inputs[0]}, rows), table = node.input(3);
  if (!words || !table)
    return failure();
  if (nn::shapeOf(words).size() != 3 || nn::shapeOf(table).size() != 2)
    return node.fail("its ids must have two dimensions and its tables two");
  const int64_t batch = nn::shapeOf(words)[0], sequence = nn::shapeOf(words)[1];
  if (!inputs[8] && nn::shapeOf(table).front() < sequence)
    return node.fail("{} tokens have no place in {} rows", sequence, nn::shapeOf(table).front());
  Value places =
      inputs[8] ? converted(node, "Gather", {inputs[3], inputs[8]}, rows) : node.slice(table, 0, 0, sequence);
  Value sum = node.add(words, places);
  if (inputs[1] && inputs[4])
    sum = node.add(sum, converted(node, "Gather", {inputs[4], inputs[1]}, rows));
  if (!sum || !inputs[5] || !inputs[6])
    return failure();
  if (node.wantsOutput(1)) {
    Value mask = node.has(7) ? node.input(7) : Value();
    Value counted = mask ? node.compare(mask, node.scalar(mask, 1), "eq") : Value();
    (void)node.result(1, mask ? node.reduce(node.cast(counted, node.builder.getI32Type()), "sum", {1}, false)
                              : node.constant(HostTensor::splat(DType::i32, {batch}, 0)));
  }
  if (node.wantsOutput(2))
    (void)node.result(2, sum);
  return layerNormOf(node, sum, node.input(5), node.input(6), 9, kContribEpsilon);
}

} // namespace

void addNormalization(Converters &table) {
  table.add("LayerNormalization", layerNorm);
  table.add("RMSNormalization", rmsNorm);
  table.add("SimplifiedLayerNormalization", rmsNorm);
  table.add("GroupNormalization", groupNorm);
  table.add("InstanceNormalization", instanceNorm);
  table.add("LpNormalization", lpNormalization);
  table.add("BatchNormalization", batchNorm);
  table.add("MeanVarianceNormalization", meanVarianceNorm);
  table.add("LRN", localResponseNorm);
  table.addContrib("SimplifiedLayerNormalization", rmsNorm);
  table.addContrib("GroupNorm", contribGroupNorm<false>);
  table.addContrib("SkipGroupNorm", contribGroupNorm<true>);
  table.addContrib("EmbedLayerNormalization", embedLayerNorm);
  table.addContrib("SkipLayerNormalization", skipNorm<false>);
  table.addContrib("SkipSimplifiedLayerNormalization", skipNorm<true>);
}

} // namespace mt::onnx
