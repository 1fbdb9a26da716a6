// Forms of attention of ONNX Runtime (domain com.microsoft) that optimized exports contain
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
#include "compiler/onnx/AttentionParts.h"
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"

#include <cmath>

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
  if (nn::shapeOf(value).back() - width < start) {
    (void)node.fail("a packed input has columns 0 to {}, and needs those from {} to {}", nn::shapeOf(value).back(),
                    start, start + width);
    return {};
  }
  return node.slice(value, static_cast<int64_t>(nn::shapeOf(value).size()) - 1, start, width);
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

// What a mask of ONNX Runtime's hides: [batch, keys] and [batch, queries, keys] where it is not positive; of [batch]
// numbers, as many keys of each row count; of [2 batch], those before the first numbers, from the second ones on.
LogicalResult addMask(NodeContext &node, AttentionCall &call, Value mask) {
  if (!mask || !call.query || !call.key)
    return failure();
  if (double filter = node.attributes.real("mask_filter_value", nn::kVeryNegative); filter > nn::kVeryNegative)
    return node.fail("its mask_filter_value of {} hides nothing: it must be {} or less", filter, nn::kVeryNegative);
  ArrayRef<int64_t> shape = nn::shapeOf(mask);
  const int64_t batch = nn::shapeOf(call.query)[0], keys = nn::shapeOf(call.key)[1];
  Value places = node.iota({1, keys}, getElementTypeOrSelf(mask), 1, 0, 1);
  Value seen = getElementTypeOrSelf(mask).isInteger(1) ? mask : node.compare(mask, node.scalar(mask, 0), "gt");
  auto each = [&](int64_t from) { return node.reshape(node.slice(mask, 0, from, batch), {batch, 1}); };
  if (shape.size() == 2)
    call.keyMask = seen;
  else if (shape.size() == 3)
    call.bias =
        maskBias(node, node.reshape(seen, {shape[0], 1, shape[1], shape[2]}), getElementTypeOrSelf(call.query), keys);
  else if (shape == ArrayRef<int64_t>(batch))
    call.keyMask = node.compare(places, each(0), "lt");
  else if (shape == ArrayRef<int64_t>(2 * batch))
    call.keyMask = node.emit<nn::AndOp>({node.compare(places, each(0), "lt"), node.compare(places, each(batch), "ge")});
  else
    return node.fail("its mask of shape {} is neither [batch, keys], [batch, queries, keys], [batch] nor [2 batch]",
                     dimsText(Dims(shape)));
  return success(call.keyMask || call.bias);
}

constexpr size_t kNone = SIZE_MAX; ///< of inputs

// A mask and a bias, which are both added to the scores.
LogicalResult addMaskAndBias(NodeContext &node, AttentionCall &call, size_t maskAt, size_t biasAt) {
  if (node.has(maskAt) && failed(addMask(node, call, node.input(maskAt))))
    return failure();
  if (!node.has(biasAt))
    return success();
  Value bias = maskBias(node, node.input(biasAt), getElementTypeOrSelf(call.query), nn::shapeOf(call.key)[1]);
  call.bias = call.bias ? node.add(call.bias, bias) : bias;
  return success(bool(call.bias));
}

// Scaled, causal where it says so, and merged again.
LogicalResult attend(NodeContext &node, AttentionCall &call, size_t maskAt, size_t biasAt) {
  if (!call.query || !call.key || !call.value)
    return failure();
  double scale = node.attributes.real("scale", 0);
  call.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(nn::shapeOf(call.query).back()));
  if (node.attributes.integer("unidirectional", 0))
    call.minDistance = kCausal;
  if (failed(addMaskAndBias(node, call, maskAt, biasAt)))
    return failure();
  return node.result(mergeHeads(node, attentionOf(node, call), 3));
}

// One of several tensors [B, S, heads, how many, D] that lie together head by head.
Value packedHeads(NodeContext &node, Value packed, int64_t index) {
  SmallVector<int64_t> shape(nn::shapeOf(packed));
  return node.reshape(node.slice(packed, 3, index, 1), {shape[0], shape[1], shape[2], shape[4]});
}

LogicalResult refuseCache(NodeContext &node) {
  return node.fail("has a key-value cache: export the model for training, without a cache (use_cache=False)");
}

// Queries, keys and values that lie together, or keys and values that do; false where they lie apart.
bool readPacked(NodeContext &node, AttentionCall &call, Value query, Value key, Value value) {
  const Dims shape(nn::shapeOf(query)), keys(key ? nn::shapeOf(key) : ArrayRef<int64_t>());
  if (!key && !value && shape.size() == 5 && shape[3] == 3) {
    call.query = packedHeads(node, query, 0);
    call.key = packedHeads(node, query, 1);
    call.value = packedHeads(node, query, 2);
    return true;
  }
  if (!key || value || shape.size() != 3 || keys.size() != 5 || keys[3] != 2)
    return false;
  call.query = splitHeads(node, query, keys[2]);
  call.key = packedHeads(node, key, 0);
  call.value = packedHeads(node, key, 1);
  return true;
}

LogicalResult multiHeadAttention(NodeContext &node) {
  Value query = node.input(0);
  if (!query)
    return failure();
  bool cached = node.wantsOutput(1) || node.wantsOutput(2) || node.wantsOutput(3);
  for (size_t i = 6; i < node.inputCount(); ++i)
    cached |= node.has(i);
  if (cached)
    return refuseCache(node);
  Value key = node.has(1) ? node.input(1) : Value(), value = node.has(2) ? node.input(2) : Value();
  if ((node.has(1) && !key) || (node.has(2) && !value))
    return failure();
  AttentionCall call;
  if (readPacked(node, call, query, key, value)) {
    if (node.has(3))
      return node.fail("a bias of packed queries, keys and values is not supported");
    return attend(node, call, 4, 5);
  }
  const Dims shape(nn::shapeOf(query));
  if (!key || !value || shape.size() != 3)
    return node.fail("its queries of shape {} and keys of shape {} are in none of the forms that it has",
                     dimsText(shape), dimsText(key ? Dims(nn::shapeOf(key)) : Dims()));
  if (nn::shapeOf(value).empty())
    return node.fail("its value must be a tensor of positions");
  const int64_t heads = node.attributes.integer("num_heads", 0);
  const int64_t width = shape.back(), valueWidth = nn::shapeOf(value).back();
  if (node.has(3)) { // one bias for the three projections
    Value bias = node.input(3);
    query = node.add(query, columns(node, bias, 0, width));
    key = node.add(key, columns(node, bias, width, width));
    value = node.add(value, columns(node, bias, 2 * width, valueWidth));
  }
  call.query = splitHeads(node, query, heads);
  call.key = splitHeads(node, key, heads);
  call.value = splitHeads(node, value, heads);
  return attend(node, call, 4, 5);
}

// Projects its input itself, by one matrix for queries, keys and values.
LogicalResult attentionOfInput(NodeContext &node) {
  Value input = node.input(0), weights = node.input(1), bias = node.has(2) ? node.input(2) : Value();
  if (!input || !weights || (node.has(2) && !bias))
    return failure();
  if (node.has(4) || node.has(6) || node.wantsOutput(1))
    return refuseCache(node);
  if (node.attributes.integer("do_rotary", 0))
    return node.fail("do_rotary is not supported");
  if (nn::shapeOf(input).size() != 3 || nn::shapeOf(weights).size() != 2)
    return node.fail("its input must have three dimensions and its weights two");
  const int64_t heads = node.attributes.integer("num_heads", 0), third = nn::shapeOf(weights)[1] / 3;
  const Dims widths = node.attributes.integers("qkv_hidden_sizes").value_or(Dims{third, third, third});
  if (widths.size() != 3 || widths[0] < 1 || widths[1] != widths[0] || widths[2] < 1 ||
      widths[0] > nn::shapeOf(weights)[1] || widths[2] != nn::shapeOf(weights)[1] - 2 * widths[0])
    return node.fail("its qkv_hidden_sizes {} do not make up the {} columns of its weights", dimsText(widths),
                     nn::shapeOf(weights)[1]);
  Value product = plainMatmul(node, input, weights, bias);
  AttentionCall call;
  call.query = splitHeads(node, columns(node, product, 0, widths[0]), heads);
  call.key = splitHeads(node, columns(node, product, widths[0], widths[0]), heads);
  call.value = splitHeads(node, columns(node, product, 2 * widths[0], widths[2]), heads);
  return attend(node, call, 3, 5);
}

// The biases of T5: a table [buckets, heads], stored column by column, that is looked up by the distance of query and
// key in buckets, which are single distances up to half of them and grow with the logarithm from there on
// (https://arxiv.org/abs/1910.10683, section 2.1).
LogicalResult relativePositionBias(NodeContext &node) {
  Value table = node.input(0);
  auto queries = node.integers(1, "a number of queries"), keys = node.integers(2, "a number of keys");
  if (!table || !queries || !keys)
    return failure();
  Dims shape(nn::shapeOf(table));
  const bool both = node.attributes.integer("is_bidirectional", 0);
  const int64_t furthest = node.attributes.integer("max_distance", 128);
  constexpr int64_t kLargest = int64_t(1) << 31;
  auto isLength = [](const std::vector<int64_t> &of) { return of.size() == 1 && of[0] > 0 && of[0] <= kLargest; };
  if (shape.size() != 2 || !isLength(*queries) || !isLength(*keys))
    return node.fail("its table must have the shape [buckets, heads], and its lengths must be positive");
  const int64_t buckets = both ? shape[0] / 2 : shape[0], single = buckets / 2;
  if (single < 1 || furthest <= single || furthest > kLargest)
    return node.fail("its max_distance of {} must be more than the {} distances that have a bucket each", furthest,
                     single);
  Type integer = node.builder.getI64Type(), real = node.builder.getF32Type();
  Value ahead = node.sub(node.iota({(*queries)[0], (*keys)[0]}, integer, 1, 0, 1),
                         node.iota({(*queries)[0], (*keys)[0]}, integer, 0, 0, 1));
  Value distance = both ? node.emit<nn::AbsOp>({ahead})
                        : node.emit<nn::NegOp>({node.emit<nn::MinimumOp>({ahead, node.scalar(ahead, 0)})});
  Value share = node.cast(node.emit<nn::MaximumOp>({distance, node.scalar(distance, 1)}), real);
  share = node.emit<nn::LogOp>({node.div(share, node.scalar(share, static_cast<double>(single)))});
  share = node.div(share, node.scalar(share, std::log(static_cast<double>(furthest) / static_cast<double>(single))));
  Value far = node.cast(node.mul(share, node.scalar(share, static_cast<double>(buckets - single))), integer);
  far = node.add(far, node.scalar(far, static_cast<double>(single)));
  far = node.emit<nn::MinimumOp>({far, node.scalar(far, static_cast<double>(buckets - 1))});
  Value bucket = node.emit<nn::SelectOp>(
      {node.compare(distance, node.scalar(distance, static_cast<double>(single)), "lt"), distance, far});
  if (both)
    bucket = node.add(bucket, node.mul(node.cast(node.compare(ahead, node.scalar(ahead, 0), "gt"), integer),
                                       node.scalar(bucket, static_cast<double>(buckets))));
  Value rows = node.transpose(node.reshape(table, {shape[1], shape[0]}), {1, 0});
  Value bias = node.transpose(node.emit<nn::GatherOp>({rows, bucket}, {node.intAttr("axis", 0)}), {2, 0, 1});
  return node.result(node.reshape(bias, {1, shape[1], (*queries)[0], (*keys)[0]}));
}

// Causal by definition, and without a cache: every row is a whole sequence. How much of each counts (seqlens_k) is not
// looked at: queries that count see none of the keys behind, and what the others give no label counts.
LogicalResult groupQueryAttention(NodeContext &node) {
  Value query = node.input(0);
  if (!query)
    return failure();
  bool has = node.has(3) && !llvm::is_contained(nn::shapeOf(node.input(3)), 0);
  for (size_t i = 9; i < node.inputCount(); ++i)
    has |= node.has(i);
  if (has || node.attributes.integer("smooth_softmax", 0) > 0)
    return node.fail("has a key-value cache, position ids, a bias or a sink: export the model for training, without a "
                     "cache");
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
  call.softCap = node.attributes.real("softcap", 0);
  call.minDistance = kCausal;
  int64_t window = node.attributes.integer("local_window_size", -1);
  if (window > 0)
    call.maxDistance = window - 1;
  for (size_t i = 0; i < 2; ++i)
    if (node.wantsOutput(1 + i) &&
        failed(node.result(1 + i, node.transpose(i == 0 ? call.key : call.value, {0, 2, 1, 3}))))
      return failure();
  return attend(node, call, kNone, kNone);
}

} // namespace

void addContribAttention(Converters &table) {
  table.addContrib("RotaryEmbedding", contribRotaryEmbedding);
  table.addContrib("MultiHeadAttention", multiHeadAttention);
  table.addContrib("Attention", attentionOfInput);
  table.addContrib("RelativePositionBias", relativePositionBias);
  table.addContrib("GroupQueryAttention", groupQueryAttention);
}

} // namespace mt::onnx
