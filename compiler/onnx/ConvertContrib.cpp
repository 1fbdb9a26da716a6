// Fused operators of ONNX Runtime (domain com.microsoft) that optimized exports contain
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
#include "compiler/onnx/AttentionParts.h"
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

// Columns [start, start + width) of the last dimension.
Value columns(NodeContext &node, Value value, int64_t start, int64_t width) {
  if (!value)
    return {};
  if (nn::shapeOf(value).empty()) {
    (void)node.fail("a packed input must have columns");
    return {};
  }
  return node.slice(value, static_cast<int64_t>(nn::shapeOf(value).size()) - 1, start, width);
}

LogicalResult fusedMatMul(NodeContext &node) {
  Value a = node.input(0), b = node.input(1);
  if (!a || !b)
    return failure();
  if (node.attributes.integer("transBatchA", 0) || node.attributes.integer("transBatchB", 0))
    return node.fail("transposed batches are not supported");
  auto flipped = [&](Value value, const char *name) {
    Dims order(nn::shapeOf(value).size());
    std::iota(order.begin(), order.end(), 0);
    if (order.size() < 2 || !node.attributes.integer(name, 0))
      return value;
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    return node.transpose(value, order);
  };
  Value product = matmulOf(node, flipped(a, "transA"), flipped(b, "transB"));
  double alpha = node.attributes.real("alpha", 1);
  return node.result(alpha == 1 ? product : node.mul(product, node.scalar(product, alpha)));
}

// position_ids [1]: the first position of every row; [B, S]: all of them.
LogicalResult contribRotaryEmbedding(NodeContext &node) {
  Value value = node.input(0), ids = node.input(1), cosine = node.input(2), sine = node.input(3);
  if (!value || !ids || !cosine || !sine)
    return failure();
  size_t rank = nn::shapeOf(value).size();
  int64_t width = node.attributes.integer("rotary_embedding_dim", 0), count = node.attributes.integer("num_heads", 0);
  if (nn::shapeOf(cosine).size() != 2 || nn::shapeOf(cosine) != nn::shapeOf(sine) || nn::shapeOf(cosine).back() < 1)
    return node.fail("its tables must both have the shape [positions, half of what is rotated]");
  int64_t rotated = 2 * nn::shapeOf(cosine).back();
  if (rank == 3 && count == 0 && width == 0)
    count = nn::shapeOf(value)[2] / rotated;
  Value heads = splitHeads(node, value, count);
  if (!heads)
    return failure();
  int64_t sequence = nn::shapeOf(heads)[1];
  if (nn::shapeOf(ids).size() == 1) {
    Value line = node.iota({1, sequence}, getElementTypeOrSelf(ids), 1, 0, 1);
    ids = node.add(line, node.reshape(ids, {1, 1}));
  }
  double scale = node.attributes.real("scale", 1);
  if (scale != 1)
    return node.fail("a scale of {} is not supported", scale);
  bool interleaved = node.attributes.integer("interleaved", 0);
  Value result = rotaryOf(node, heads, rotaryRows(node, cosine, ids), rotaryRows(node, sine, ids), interleaved);
  return node.result(mergeHeads(node, result, rank));
}

// key_padding_mask [B, Sk] as booleans.
Value paddingMask(NodeContext &node, Value mask) {
  if (!mask)
    return {};
  if (nn::shapeOf(mask).size() != 2) {
    (void)node.fail("its padding mask must have the shape [batch, keys]");
    return {};
  }
  return node.cast(mask, node.builder.getI1Type());
}

LogicalResult multiHeadAttention(NodeContext &node) {
  Value query = node.input(0);
  if (!query)
    return failure();
  int64_t heads = node.attributes.integer("num_heads", 0);
  if (!node.has(1) || !node.has(2) || nn::shapeOf(query).size() != 3)
    return node.fail("packed queries, keys and values are not supported");
  for (size_t i = 6; i < node.inputCount(); ++i)
    if (node.has(i))
      return node.fail("has a key-value cache: export the model for training, without a cache (use_cache=False)");
  Value key = node.input(1), value = node.input(2);
  if (!key || !value)
    return failure();
  if (nn::shapeOf(value).empty())
    return node.fail("its value must be a tensor of positions");
  int64_t width = nn::shapeOf(query).back(), valueWidth = nn::shapeOf(value).back();
  if (node.has(3)) { // one bias for the three projections
    Value bias = node.input(3);
    query = node.add(query, columns(node, bias, 0, width));
    key = node.add(key, columns(node, bias, width, width));
    value = node.add(value, columns(node, bias, 2 * width, valueWidth));
  }
  AttentionCall call;
  call.query = splitHeads(node, query, heads);
  call.key = splitHeads(node, key, heads);
  call.value = splitHeads(node, value, heads);
  if (!call.query || !call.key || !call.value)
    return failure();
  double scale = node.attributes.real("scale", 0);
  call.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(nn::shapeOf(call.query).back()));
  if (node.attributes.integer("unidirectional", 0))
    call.minDistance = kCausal;
  if (node.has(4) && !(call.keyMask = paddingMask(node, node.input(4))))
    return failure();
  if (node.has(5) &&
      !(call.bias = maskBias(node, node.input(5), getElementTypeOrSelf(query), nn::shapeOf(call.key)[1])))
    return failure();
  return node.result(mergeHeads(node, attentionOf(node, call), 3));
}

// Causal by definition. Without a cache: every row is a whole sequence.
LogicalResult groupQueryAttention(NodeContext &node) {
  Value query = node.input(0);
  if (!query)
    return failure();
  if ((node.has(3) && !llvm::is_contained(nn::shapeOf(node.input(3)), 0)) || node.has(9) || node.has(10))
    return node.fail("has a key-value cache, position ids or a bias: export the model for training, without a cache");
  int64_t heads = node.attributes.integer("num_heads", 0), groups = node.attributes.integer("kv_num_heads", 0);
  Value key, value;
  if (node.has(1) && node.has(2)) {
    key = node.input(1);
    value = node.input(2);
  } else {
    if (heads <= 0 || groups <= 0 || nn::shapeOf(query).size() != 3 || heads > nn::shapeOf(query).back() ||
        groups > nn::shapeOf(query).back())
      return node.fail("its packed input needs three dimensions, the last as many as heads, and num_heads");
    int64_t width = nn::shapeOf(query).back() / (heads + 2 * groups);
    key = columns(node, query, heads * width, groups * width);
    value = columns(node, query, (heads + groups) * width, groups * width);
    query = columns(node, query, 0, heads * width);
  }
  AttentionCall call;
  call.query = splitHeads(node, query, heads);
  call.key = splitHeads(node, key, groups);
  call.value = splitHeads(node, value, groups);
  if (!call.query || !call.key || !call.value)
    return failure();
  if (node.attributes.integer("do_rotary", 0)) {
    Value cosine = node.input(7), sine = node.input(8);
    if (!cosine || !sine)
      return failure();
    if (nn::shapeOf(cosine).size() != 2 || nn::shapeOf(cosine) != nn::shapeOf(sine))
      return node.fail("its tables must both have the shape [positions, half of what is rotated]");
    int64_t sequence = nn::shapeOf(call.query)[1], half = nn::shapeOf(cosine).back();
    auto rows = [&](Value table) { return node.reshape(node.slice(table, 0, 0, sequence), {1, sequence, half}); };
    bool interleaved = node.attributes.integer("rotary_interleaved", 0);
    call.query = rotaryOf(node, call.query, rows(cosine), rows(sine), interleaved);
    call.key = rotaryOf(node, call.key, rows(cosine), rows(sine), interleaved);
    if (!call.query || !call.key)
      return failure();
  }
  double scale = node.attributes.real("scale", 0);
  call.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(nn::shapeOf(call.query).back()));
  call.softCap = node.attributes.real("softcap", 0);
  call.minDistance = kCausal;
  int64_t window = node.attributes.integer("local_window_size", -1);
  if (window > 0)
    call.maxDistance = window - 1;
  for (size_t i = 0; i < 2; ++i)
    if (node.wantsOutput(1 + i) &&
        failed(node.result(1 + i, node.transpose(i == 0 ? call.key : call.value, {0, 2, 1, 3}))))
      return failure();
  return node.result(mergeHeads(node, attentionOf(node, call), 3));
}

} // namespace

void addContrib(Converters &table) {
  table.addContrib("FusedMatMul", fusedMatMul);
  table.addContrib("RotaryEmbedding", contribRotaryEmbedding);
  table.addContrib("MultiHeadAttention", multiHeadAttention);
  table.addContrib("GroupQueryAttention", groupQueryAttention);
}

} // namespace mt::onnx
