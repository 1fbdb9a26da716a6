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

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// A mask for more keys than it has: the others are hidden. Booleans are padded as numbers.
Value paddedKeys(NodeContext &node, Value mask, int64_t keys) {
  Type element = getElementTypeOrSelf(mask);
  bool real = isa<FloatType>(element);
  Value numbers = real ? mask : node.cast(mask, node.builder.getI32Type());
  SmallVector<int64_t> none(nn::shapeOf(mask).size(), 0), high(none);
  high.back() = keys - nn::shapeOf(mask).back();
  Value padded =
      node.emit<nn::PadOp>({numbers}, {node.intsAttr("low", none), node.intsAttr("high", high),
                                       node.intsAttr("interior", none), node.realAttr("value", real ? kHidden : 0)});
  return real ? padded : node.cast(padded, element);
}

// 0 where booleans hold, else -infinity.
Value hiddenWhereFalse(NodeContext &node, Value mask, Type element) {
  if (!mask)
    return {};
  DType type = dtypeOf(element);
  Value seen = node.constant(HostTensor::splat(type, {}, 0)),
        hidden = node.constant(HostTensor::splat(type, {}, kHidden));
  return node.emit<nn::SelectOp>({node.cast(mask, node.builder.getI1Type()), seen, hidden});
}

} // namespace

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
  bool real = nn::isReal(mask);
  if (shape.back() == 1)
    shape.back() = keys;
  mask = node.broadcast(mask, shape);
  mask = real
             ? mask && shape.back() < keys ? paddedKeys(node, node.cast(mask, element), keys) : node.cast(mask, element)
             : hiddenWhereFalse(node, mask && shape.back() < keys ? paddedKeys(node, mask, keys) : mask, element);
  return mask;
}

Value attentionOf(NodeContext &node, const AttentionCall &call) {
  auto optional = [](Value value) { return value ? Operand(value) : Operand::absent(); };
  return node.emit<nn::AttentionOp>({call.query, call.key, call.value, optional(call.bias), optional(call.keyMask),
                                     Operand::absent(), Operand::absent(), Operand::absent(), Operand::absent(),
                                     Operand::absent()},
                                    {node.realAttr("scale", call.scale), node.intAttr("minDistance", call.minDistance),
                                     node.intAttr("maxDistance", call.maxDistance), node.intAttr("offset", call.offset),
                                     node.realAttr("softCap", call.softCap)});
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

// Keys or values [B, S, G, D] behind those of a cache [B, G, P, D].
Value behindPast(NodeContext &node, Value past, Value fresh) {
  return past && fresh ? node.concat({node.transpose(past, {0, 2, 1, 3}), fresh}, 1) : Value();
}

LogicalResult addPast(NodeContext &node, AttentionCall &call) {
  if (!node.has(4) && !node.has(5))
    return success();
  if (!node.has(4) || !node.has(5))
    return node.fail("has past keys without past values, or the reverse");
  Value keys = node.input(4), values = node.input(5);
  if (!keys || !values || nn::shapeOf(keys).size() != 4 || nn::shapeOf(values).size() != 4)
    return node.fail("its past keys and values must have the shape [batch, heads, positions, width]");
  call.offset = nn::shapeOf(keys)[2];
  call.key = behindPast(node, keys, call.key);
  call.value = behindPast(node, values, call.value);
  return success(call.key && call.value);
}

// The window of the attributes; a causal query sees nothing ahead of it.
LogicalResult setWindow(NodeContext &node, AttentionCall &call) {
  int64_t left = node.attributes.integer("left_window_size", -1),
          right = node.attributes.integer("right_window_size", -1);
  constexpr int64_t kLargest = int64_t(1) << 31; // differences with it fit 64 bits
  if (left < -1 || right < -1 || left > kLargest || right > kLargest)
    return node.fail("its window sizes must be -1 to {}", kLargest);
  if (left >= 0)
    call.maxDistance = left;
  if (right >= 0)
    call.minDistance = -right;
  if (node.attributes.integer("is_causal", 0))
    call.minDistance = std::max(call.minDistance, kCausal);
  return success();
}

// Of `numbers` [B] keys each row's are filled; the last of them is its last query's own.
LogicalResult limitKeys(NodeContext &node, AttentionCall &call) {
  Value numbers = node.input(6);
  if (!numbers || nn::shapeOf(numbers) != nn::shapeOf(call.key).take_front(1))
    return node.fail("its nonpad_kv_seqlen must have one number for each row of the batch");
  int64_t batch = nn::shapeOf(call.key)[0], keys = nn::shapeOf(call.key)[1], queries = nn::shapeOf(call.query)[1];
  Type integer = node.builder.getI64Type();
  Value filled = node.reshape(node.cast(numbers, integer), {batch, 1});
  call.keyMask = node.compare(node.iota({1, keys}, integer, 1, 0, 1), filled, "lt");
  if (!call.keyMask || (call.minDistance == INT64_MIN && call.maxDistance == INT64_MAX))
    return success(static_cast<bool>(call.keyMask));
  // Queries start at another place in each row: the window is a mask.
  Value query = node.add(node.iota({1, 1, queries, 1}, integer, 2, static_cast<double>(-queries), 1),
                         node.reshape(filled, {batch, 1, 1, 1}));
  Value distance = node.sub(query, node.iota({1, 1, 1, keys}, integer, 3, 0, 1)), seen;
  if (call.minDistance != INT64_MIN)
    seen = node.compare(distance, node.scalar(distance, static_cast<double>(call.minDistance)), "ge");
  if (call.maxDistance != INT64_MAX) {
    Value near = node.compare(distance, node.scalar(distance, static_cast<double>(call.maxDistance)), "le");
    seen = seen ? node.emit<nn::AndOp>({seen, near}) : near;
  }
  Value hiding = hiddenWhereFalse(node, seen, getElementTypeOrSelf(call.query));
  call.bias = call.bias ? node.add(call.bias, hiding) : hiding;
  call.minDistance = INT64_MIN;
  call.maxDistance = INT64_MAX;
  return success(static_cast<bool>(call.bias));
}

LogicalResult describeAttention(NodeContext &node, AttentionCall &call) {
  Value query = node.input(0), key = node.input(1), value = node.input(2);
  if (!query || !key || !value)
    return failure();
  Heads heads = headsOf(node, query, key);
  call.query = splitHeads(node, query, heads.query);
  call.key = splitHeads(node, key, heads.key);
  call.value = splitHeads(node, value, heads.key);
  if (!call.query || !call.key || !call.value)
    return failure();
  double width = static_cast<double>(nn::shapeOf(call.query).back());
  call.scale = node.attributes.real("scale", 1 / std::sqrt(width));
  call.softCap = node.attributes.real("softcap", 0);
  if (failed(addPast(node, call)) || failed(setWindow(node, call)))
    return failure();
  if (node.has(3) &&
      !(call.bias = maskBias(node, node.input(3), getElementTypeOrSelf(query), nn::shapeOf(call.key)[1])))
    return failure();
  return node.has(6) ? limitKeys(node, call) : success();
}

LogicalResult attention(NodeContext &node) {
  AttentionCall call;
  if (failed(describeAttention(node, call)))
    return failure();
  for (size_t i = 0; i < 2; ++i)
    if (node.wantsOutput(1 + i) &&
        failed(node.result(1 + i, node.transpose(i == 0 ? call.key : call.value, {0, 2, 1, 3}))))
      return failure();
  if (node.wantsOutput(3)) {
    int64_t form = node.attributes.integer("qk_matmul_output_mode", 0);
    if (form < 0 || form > 3)
      return node.fail("qk_matmul_output_mode {} is unknown", form);
    if (failed(node.result(3, scoresOf(node, call, static_cast<ScoreForm>(form)))))
      return failure();
  }
  return node.result(mergeHeads(node, attentionOf(node, call), nn::shapeOf(node.input(0)).size()));
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
