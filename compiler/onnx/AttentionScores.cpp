#include "compiler/onnx/AttentionParts.h"
#include "compiler/onnx/ProductParts.h"

using namespace mlir;

namespace mt::onnx {
namespace {

// [B, S, G, D] as [B, H, S, D], each of the G heads repeated for the queries' heads that share it.
Value repeatedHeads(NodeContext &node, Value value, int64_t heads) {
  ArrayRef<int64_t> shape = nn::shapeOf(value);
  int64_t batch = shape[0], length = shape[1], groups = shape[2], width = shape[3];
  Value moved = node.transpose(value, {0, 2, 1, 3});
  if (groups == heads)
    return moved;
  if (groups == 0 || heads % groups != 0) {
    (void)node.fail("{} heads of queries cannot share {} of keys", heads, groups);
    return {};
  }
  Value wide = node.broadcast(node.reshape(moved, {batch, groups, 1, length, width}),
                              {batch, groups, heads / groups, length, width});
  return node.reshape(wide, {batch, heads, length, width});
}

// Which scores the window and the keys' mask let through, broadcast; null where all.
Value visible(NodeContext &node, const AttentionCall &call) {
  int64_t batch = nn::shapeOf(call.key)[0], keys = nn::shapeOf(call.key)[1], queries = nn::shapeOf(call.query)[1];
  Type integer = node.builder.getI64Type();
  Value query = node.iota({1, 1, queries, 1}, integer, 2, static_cast<double>(call.offset), 1);
  Value distance = node.sub(query, node.iota({1, 1, 1, keys}, integer, 3, 0, 1)), seen;
  auto restrict = [&](Value more) { seen = seen ? node.emit<nn::AndOp>({seen, more}) : more; };
  if (call.minDistance != INT64_MIN)
    restrict(node.compare(distance, node.scalar(distance, static_cast<double>(call.minDistance)), "ge"));
  if (call.maxDistance != INT64_MAX)
    restrict(node.compare(distance, node.scalar(distance, static_cast<double>(call.maxDistance)), "le"));
  if (call.keyMask)
    restrict(node.reshape(call.keyMask, {batch, 1, 1, keys}));
  return seen;
}

// A softmax, zero in rows that see nothing.
Value probabilitiesOf(NodeContext &node, Value scores) {
  Value lowest = node.scalar(scores, -std::numeric_limits<double>::infinity());
  Value sees = node.compare(node.reduce(scores, "max", {3}, true), lowest, "gt"), zero = node.scalar(scores, 0);
  Value rows = node.emit<nn::SoftmaxOp>({node.emit<nn::SelectOp>({sees, scores, zero})});
  return node.emit<nn::SelectOp>({sees, rows, zero});
}

} // namespace

Value scoresOf(NodeContext &node, const AttentionCall &call, ScoreForm form) {
  int64_t heads = nn::shapeOf(call.query)[2];
  Value query = node.transpose(call.query, {0, 2, 1, 3}), key = repeatedHeads(node, call.key, heads);
  if (!query || !key)
    return {};
  Value scores = plainMatmul(node, query, key, {}, false, true);
  scores = node.mul(scores, node.scalar(scores, call.scale));
  if (form == ScoreForm::products)
    return scores;
  if (call.softCap > 0) {
    Value cap = node.scalar(scores, call.softCap);
    scores = node.mul(node.emit<nn::TanhOp>({node.div(scores, cap)}), cap);
  }
  if (form == ScoreForm::capped)
    return scores;
  if (call.bias)
    scores = node.add(scores, call.bias);
  if (Value seen = visible(node, call))
    scores = node.emit<nn::SelectOp>({seen, scores, node.scalar(scores, -std::numeric_limits<double>::infinity())});
  return form == ScoreForm::biased || !scores ? scores : probabilitiesOf(node, scores);
}

} // namespace mt::onnx
