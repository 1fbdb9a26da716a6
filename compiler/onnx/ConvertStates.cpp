// Operators of opset 27 that carry a state from token to token: causal convolution of channels, and linear attention,
// token by token.
#include "compiler/onnx/AttentionParts.h"
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"

#include <cmath>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr int64_t kSteps = 1024; ///< each becomes a few operations

//===-- CausalConvWithState -------------------------------------------------------------------------------------===//

// [B, C, k - 1 + L]: what came before, or zeros, and the input.
Value withPast(NodeContext &node, Value value, int64_t before) {
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  if (before == 0)
    return value;
  Dims past{shape[0], shape[1], before};
  Value state = node.has(3) ? node.input(3) : node.constant(HostTensor(dtypeOf(getElementTypeOrSelf(value)), past));
  if (state && nn::shapeOf(state) != ArrayRef<int64_t>(past)) {
    (void)node.fail("its past state must have the shape {}", dimsText(past));
    return {};
  }
  return state ? node.concat({state, value}, 2) : Value();
}

LogicalResult causalConv(NodeContext &node) {
  Value value = node.input(0), kernel = node.input(1);
  if (!value || !kernel)
    return failure();
  SmallVector<int64_t> shape(nn::shapeOf(value)), taps(nn::shapeOf(kernel));
  if (shape.size() != 3 || taps.size() != 3 || taps[0] != shape[1] || taps[1] != 1 || taps[2] < 1 || taps[2] > kSteps)
    return node.fail("its kernel of shape {} does not fit the input {}, or has more than {} taps",
                     dimsText(Dims(taps.begin(), taps.end())), dimsText(Dims(shape.begin(), shape.end())), kSteps);
  int64_t before = taps[2] - 1;
  Value whole = withPast(node, value, before), sum;
  if (!whole)
    return failure();
  for (int64_t tap = 0; tap < taps[2]; ++tap) {
    Value weight = node.reshape(node.slice(kernel, 2, tap, 1), {taps[0], 1});
    Value part = node.mul(node.slice(whole, 2, tap, shape[2]), weight);
    sum = sum ? node.add(sum, part) : part;
  }
  if (node.has(2)) {
    Value bias = node.input(2);
    sum = bias ? node.add(sum, node.reshape(bias, {taps[0], 1})) : bias;
  }
  std::string activation = node.attributes.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    sum = node.emit<nn::SiluOp>({sum});
  else if (activation != "none")
    return node.fail("activation '{}' is unknown", activation);
  if (node.wantsOutput(1) && failed(node.result(1, node.slice(whole, 2, shape[2], before))))
    return failure();
  return node.result(sum);
}

//===-- LinearAttention -----------------------------------------------------------------------------------------===//

struct Linear {
  int64_t batch = 0, tokens = 0, heads = 0, groups = 0, width = 0, valueWidth = 0;
  Value query, key, value, decay, beta; ///< [B, T, heads, width]; decay and beta null where the rule has none
  double scale = 1;
};

// Token `t` of [B, T, H, D] as [B, H, rows, columns], where rows times columns is D.
Value token(NodeContext &node, Value value, int64_t t, bool column) {
  Value one = node.slice(value, 1, t, 1);
  if (!one)
    return {};
  ArrayRef<int64_t> shape = nn::shapeOf(one);
  int64_t batch = shape[0], heads = shape[2], width = shape[3];
  return node.reshape(one, {batch, heads, column ? width : 1, column ? 1 : width});
}

// S <- decay S + k (x) (v or beta (v - k S)).
Value nextState(NodeContext &node, const Linear &linear, Value state, int64_t t) {
  if (linear.decay)
    state = node.mul(state, node.emit<nn::ExpOp>({token(node, linear.decay, t, true)}));
  Value update = token(node, linear.value, t, false), key = token(node, linear.key, t, true);
  if (linear.beta) {
    Value read = plainMatmul(node, token(node, linear.key, t, false), state);
    update = node.mul(node.sub(update, read), token(node, linear.beta, t, true));
  }
  return node.add(state, node.mul(key, update));
}

// scale q S, the queries of a group sharing its state: [B, 1, heads * width].
Value outputAt(NodeContext &node, const Linear &linear, Value state, int64_t t) {
  Value query = node.slice(linear.query, 1, t, 1);
  query = node.reshape(query, {linear.batch, linear.groups, linear.heads / linear.groups, linear.width});
  Value result = query && state ? plainMatmul(node, query, state) : Value();
  result = result ? node.mul(result, node.scalar(result, linear.scale)) : result;
  return node.reshape(result, {linear.batch, 1, linear.heads * linear.valueWidth});
}

// Input `index` [B, T, n] as [B, T, heads, n / heads], or with one head.
Value perHead(NodeContext &node, size_t index, int64_t heads) {
  Value value = node.input(index);
  if (!value)
    return {};
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  int64_t parts = shape.size() == 3 && shape[2] == 1 ? 1 : heads;
  if (shape.size() != 3 || shape[2] % parts != 0) {
    (void)node.fail("its input {} of shape {} does not have {} heads", index, dimsText(Dims(shape)), heads);
    return {};
  }
  return node.reshape(value, {shape[0], shape[1], parts, shape[2] / parts});
}

std::optional<Linear> linearOf(NodeContext &node) {
  Linear linear;
  linear.heads = node.attributes.integer("q_num_heads", 0);
  linear.groups = node.attributes.integer("kv_num_heads", 0);
  std::string rule = node.attributes.text("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if ((rule != "linear" && !gated && !delta) || linear.groups < 1 || linear.heads < 1 ||
      linear.heads % linear.groups != 0) {
    (void)node.fail("its update rule '{}' or numbers of heads, {} and {}, are not valid", rule, linear.heads,
                    linear.groups);
    return std::nullopt;
  }
  linear.query = perHead(node, 0, linear.heads);
  linear.key = perHead(node, 1, linear.groups);
  linear.value = perHead(node, 2, linear.groups);
  if (gated)
    linear.decay = perHead(node, 4, linear.groups);
  if (delta)
    linear.beta = perHead(node, 5, linear.groups);
  if (!linear.query || !linear.key || !linear.value || (gated && !linear.decay) || (delta && !linear.beta))
    return std::nullopt;
  ArrayRef<int64_t> shape = nn::shapeOf(linear.query);
  linear.batch = shape[0];
  linear.tokens = shape[1];
  linear.width = shape[3];
  linear.valueWidth = nn::shapeOf(linear.value)[3];
  for (Value part : {linear.key, linear.value, linear.decay, linear.beta})
    if (part && nn::shapeOf(part).take_front(2) != shape.take_front(2)) {
      (void)node.fail("its inputs differ in batch or tokens");
      return std::nullopt;
    }
  if (linear.tokens < 1 || linear.tokens > kSteps) {
    (void)node.fail("has {} tokens; 1 to {} are supported, for each becomes a step of its own", linear.tokens, kSteps);
    return std::nullopt;
  }
  double scale = node.attributes.real("scale", 0);
  linear.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(linear.width));
  return linear;
}

LogicalResult linearAttention(NodeContext &node) {
  auto linear = linearOf(node);
  if (!linear)
    return failure();
  Dims dims{linear->batch, linear->groups, linear->width, linear->valueWidth};
  Value state =
      node.has(3) ? node.input(3) : node.constant(HostTensor(dtypeOf(getElementTypeOrSelf(linear->key)), dims));
  if (!state || nn::shapeOf(state) != ArrayRef<int64_t>(dims))
    return state ? node.fail("its past state must have the shape {}", dimsText(dims)) : failure();
  SmallVector<Value> outputs;
  for (int64_t t = 0; t < linear->tokens; ++t) {
    state = nextState(node, *linear, state, t);
    outputs.push_back(outputAt(node, *linear, state, t));
  }
  if (node.wantsOutput(1) && failed(node.result(1, state)))
    return failure();
  return node.result(node.concat(outputs, 1));
}

} // namespace

void addStates(Converters &table) {
  table.add("CausalConvWithState", causalConv);
  table.add("LinearAttention", linearAttention); // at most 1,024 tokens
}

} // namespace mt::onnx
