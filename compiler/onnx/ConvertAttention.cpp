// Attention and RotaryEmbedding of opset 23 and 24.
#include "compiler/onnx/AttentionParts.h"
#include "compiler/onnx/Converters.h"

#include <cmath>

using namespace mlir;

namespace mt::onnx {

Value splitHeads(NodeContext &node, Value value, int64_t heads) {
  if (!value)
    return {};
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  if (shape.size() == 4)
    return node.transpose(value, {0, 2, 1, 3});
  if (shape.size() != 3 || heads <= 0 || shape[2] % heads != 0) {
    (void)node.fail("a tensor of shape {} does not have {} heads", dimsText(Dims(shape)), heads);
    return {};
  }
  return node.reshape(value, {shape[0], shape[1], heads, shape[2] / heads});
}

Value mergeHeads(NodeContext &node, Value value, size_t rank) {
  if (!value || rank == 4)
    return node.transpose(value, {0, 2, 1, 3});
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  return node.reshape(value, {shape[0], shape[1], shape[2] * shape[3]});
}

Value maskBias(NodeContext &node, Value mask, Type element, int64_t keys) {
  if (!mask)
    return {};
  SmallVector<int64_t> shape(nn::shapeOf(mask));
  if (shape.empty() || shape.size() > 4) {
    (void)node.fail("its mask of shape {} does not broadcast to [batch, heads, queries, keys]", dimsText(Dims(shape.begin(), shape.end())));
    return {};
  }
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  mask = node.reshape(mask, shape);
  shape.back() = keys;
  mask = node.broadcast(mask, shape);
  if (!mask || isa<FloatType>(getElementTypeOrSelf(mask)))
    return node.cast(mask, element);
  DType type = dtypeOf(element);
  Value seen = node.constant(HostTensor::splat(type, {}, 0));
  Value hidden = node.constant(HostTensor::splat(type, {}, -std::numeric_limits<double>::infinity()));
  return node.emit<nn::SelectOp>({mask, seen, hidden});
}

Value attentionOf(NodeContext &node, const AttentionCall &call) {
  auto optional = [](Value value) { return value ? Operand(value) : Operand::absent(); };
  return node.emit<nn::AttentionOp>(
      {call.query, call.key, call.value, optional(call.bias), optional(call.keyMask), Operand::absent(), Operand::absent()},
      {node.realAttr("scale", call.scale), node.intAttr("minDistance", call.causal ? 0 : INT64_MIN),
       node.intAttr("maxDistance", call.maxDistance), node.realAttr("softCap", call.softCap)});
}

Value rotaryOf(NodeContext &node, Value value, Value cosine, Value sine, bool interleaved) {
  return node.emit<nn::RotaryOp>({value, cosine, sine}, {node.boolAttr("interleaved", interleaved)});
}

Value rotaryRows(NodeContext &node, Value table, Value ids) {
  if (!table || !ids)
    return {};
  return node.emit<nn::GatherOp>({table, ids}, {node.intAttr("axis", 0)});
}

namespace {

struct Heads {
  int64_t query = 0, key = 0;
};

// Of the attributes, which three-dimensional inputs need, or of the four-dimensional inputs themselves.
Heads headsOf(NodeContext &node, Value query, Value key) {
  if (nn::shapeOf(query).size() == 4 && nn::shapeOf(key).size() == 4)
    return {nn::shapeOf(query)[1], nn::shapeOf(key)[1]};
  return {node.attributes.integer("q_num_heads", 0), node.attributes.integer("kv_num_heads", 0)};
}

LogicalResult checkAttention(NodeContext &node) {
  if (node.has(4) || node.has(5))
    return node.fail("has a key-value cache: export the model for training, without a cache (use_cache=False)");
  if (node.has(6))
    return node.fail("has nonpad_kv_seqlen, which is not supported: use a mask");
  if (node.wantsOutput(3))
    return node.fail("its output 3 (scores) is not supported");
  if (node.attributes.integer("left_window_size", -1) != -1 || node.attributes.integer("right_window_size", -1) != -1)
    return node.fail("its window attributes are not supported: use a mask");
  return success();
}

LogicalResult attention(NodeContext &node) {
  Value query = node.input(0), key = node.input(1), value = node.input(2);
  if (!query || !key || !value || failed(checkAttention(node)))
    return failure();
  size_t rank = nn::shapeOf(query).size();
  Heads heads = headsOf(node, query, key);
  AttentionCall call;
  call.query = splitHeads(node, query, heads.query);
  call.key = splitHeads(node, key, heads.key);
  call.value = splitHeads(node, value, heads.key);
  if (!call.query || !call.key || !call.value)
    return failure();
  double width = static_cast<double>(nn::shapeOf(call.query).back());
  call.scale = node.attributes.real("scale", 1 / std::sqrt(width));
  call.softCap = node.attributes.real("softcap", 0);
  call.causal = node.attributes.integer("is_causal", 0);
  if (node.has(3)) {
    call.bias = maskBias(node, node.input(3), getElementTypeOrSelf(query), nn::shapeOf(call.key)[1]);
    if (!call.bias)
      return failure();
  }
  for (size_t i = 0; i < 2; ++i) // without a cache the present keys and values are the given ones
    if (node.wantsOutput(1 + i) &&
        failed(node.result(1 + i, node.transpose(i == 0 ? call.key : call.value, {0, 2, 1, 3}))))
      return failure();
  return node.result(mergeHeads(node, attentionOf(node, call), rank));
}

LogicalResult rotaryEmbedding(NodeContext &node) {
  Value value = node.input(0), cosine = node.input(1), sine = node.input(2);
  if (!value || !cosine || !sine)
    return failure();
  size_t rank = nn::shapeOf(value).size();
  Value heads = splitHeads(node, value, node.attributes.integer("num_heads", 0));
  if (node.has(3)) {
    Value ids = node.input(3);
    cosine = rotaryRows(node, cosine, ids);
    sine = rotaryRows(node, sine, ids);
  }
  if (!heads || !cosine || !sine)
    return failure();
  int64_t width = node.attributes.integer("rotary_embedding_dim", 0);
  width = width ? width : nn::shapeOf(heads).back();
  int64_t columns = nn::shapeOf(cosine).empty() ? 0 : nn::shapeOf(cosine).back();
  if (columns == 0 || columns * 2 != width)
    return node.fail("its tables have {} columns where half of {} are rotated", columns, width);
  bool interleaved = node.attributes.integer("interleaved", 0);
  return node.result(mergeHeads(node, rotaryOf(node, heads, cosine, sine, interleaved), rank));
}

} // namespace

void addAttention(Converters &table) {
  table.add("Attention", attention);
  table.add("RotaryEmbedding", rotaryEmbedding);
}

} // namespace mt::onnx
