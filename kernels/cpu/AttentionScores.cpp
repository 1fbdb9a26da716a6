#include "kernels/cpu/Attention.h"

#include "kernels/cpu/Gemm.h"
#include "kernels/cpu/Vector.h"
#include "kernels/cpu/View.h"

#include <algorithm>
#include <limits>

namespace mt::kernels::cpu {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr int64_t kFar = int64_t{1} << 60; // beyond every position, with room to add

} // namespace

AttentionCall::AttentionCall(const Signature &call, size_t first)
    : first(first), query(call, first), key(call, first + 1), value(call, first + 2), bias(call, first + 3) {
  const Dims &queryDims = call.operands[first].dims, &keyDims = call.operands[first + 1].dims;
  batch = queryDims[0], queries = queryDims[1], heads = queryDims[2], width = queryDims[3];
  keys = keyDims[1], groups = keyDims[2], valueWidth = call.operands[first + 2].dims[3];
  scale = static_cast<float>(call.real("scale"));
  cap = static_cast<float>(call.real("softCap"));
  low = std::clamp(call.integer("minDistance", INT64_MIN), -kFar, kFar);
  high = std::clamp(call.integer("maxDistance", INT64_MAX), -kFar, kFar);
  offset = call.integer("offset"), prefix = call.integer("prefix"), chunk = call.integer("chunk");
  const OperandType &biasType = call.operands[first + 3];
  hasBias = biasType.present;
  hasKeyMask = call.operands[first + 4].present;
  hasSegments = call.operands[first + 5].present;
  wideQuerySegment = call.operands[first + 5].type == DType::i64;
  wideKeySegment = call.operands[first + 6].type == DType::i64;
  if (hasBias) {
    biasDims = biasType.dims, biasStrides = rowMajor(biasType.dims);
    for (size_t i = 0; i < 3; ++i)
      biasStrides[i] = biasDims[i] == 1 ? 0 : biasStrides[i];
    if (biasDims[3] != keys) // by distance: the line of the next query begins one entry earlier
      biasStrides[2] = -1, firstBias = queries - 1;
  }
}

KeyRange AttentionCall::near(int64_t query) const {
  return {std::max<int64_t>(0, query + offset - high), std::min(keys, query + offset - low + 1)};
}

KeyRange AttentionCall::inChunk(int64_t query) const {
  if (chunk == 0)
    return {0, keys};
  int64_t begin = query / chunk * chunk;
  return {std::min(begin, keys), chunk > keys - begin ? keys : begin + chunk};
}

KeyRange AttentionCall::seen(int64_t query) const {
  KeyRange range = near(query), limit = inChunk(query);
  if (range.empty())
    range = {0, 0};
  if (prefix > 0)
    range = {0, std::max(range.end, std::min(prefix, keys))};
  return {std::max(range.begin, limit.begin), std::min(range.end, limit.end)};
}

KeyRange AttentionCall::hull(int64_t query, int64_t count) const {
  KeyRange all{keys, 0};
  for (int64_t q = query; q < query + count; ++q)
    if (KeyRange range = seen(q); !range.empty())
      all = {std::min(all.begin, range.begin), std::max(all.end, range.end)};
  return all;
}

KeyRange AttentionCall::columns(const ScoreBlock &block, int64_t row) const {
  KeyRange range = seen(block.query + row);
  int64_t begin = std::max(range.begin - block.key, int64_t{0}), end = std::min(range.end - block.key, block.keys);
  return begin < end ? KeyRange{begin, end} : KeyRange{0, 0};
}

bool AttentionCall::anySeen(const ScoreBlock &block) const {
  for (int64_t q = block.query; q < block.query + block.queries; ++q) {
    KeyRange limit = inChunk(q), range = near(q);
    int64_t begin = std::max(limit.begin, block.key), end = std::min(limit.end, block.key + block.keys);
    if (std::max(begin, range.begin) < std::min(end, range.end) || begin < std::min(end, prefix))
      return true;
  }
  return false;
}

void AttentionCall::hideRow(const ScoreBlock &block, int64_t row, float *scores) const {
  KeyRange range = near(block.query + row), limit = inChunk(block.query + row);
  auto place = [&](int64_t key) { return std::clamp<int64_t>(key - block.key, 0, block.keys); };
  int64_t always = place(prefix);
  std::fill(scores + always, scores + std::max(always, place(range.begin)), kHidden);
  std::fill(scores + std::max(always, place(range.end)), scores + block.keys, kHidden);
  std::fill(scores, scores + place(limit.begin), kHidden);
  std::fill(scores + place(limit.end), scores + block.keys, kHidden);
}

void AttentionCall::hide(const Launch &launch, const ScoreBlock &block, float *scores) const {
  const uint8_t *mask = hasKeyMask ? launch.at<const uint8_t>(first + 4) + block.batch * keys + block.key : nullptr;
  for (int64_t row = 0; row < block.queries; ++row) {
    float *line = scores + row * block.keys;
    hideRow(block, row, line);
    for (int64_t k = 0; mask && k < block.keys; ++k)
      line[k] = mask[k] ? line[k] : kHidden;
    if (!hasSegments)
      continue;
    int64_t own = segment(launch, first + 5, wideQuerySegment, block.batch * queries + block.query + row);
    for (int64_t k = 0; k < block.keys; ++k)
      if (segment(launch, first + 6, wideKeySegment, block.batch * keys + block.key + k) != own)
        line[k] = kHidden;
  }
}

void AttentionCall::scores(const Launch &launch, const ScoreBlock &block, FloatPanel queryRows, FloatPanel keyRows,
                           float *out, float *capped) const {
  Gemm gemm{false, true, block.queries, block.keys, width, queryRows.step, keyRows.step, block.keys};
  multiply(gemm, scale, queryRows.data, keyRows.data, 0, out);
  int64_t count = block.queries * block.keys;
  if (cap > 0)
    vec::capped(out, 1, cap, out, count);
  if (cap > 0 && capped)
    std::copy(out, out + count, capped);
  float buffer[kKeys];
  for (int64_t row = 0; hasBias && row < block.queries; ++row)
    vec::add(bias.at(launch, biasOffset(block, row), block.keys, buffer), out + row * block.keys, block.keys);
  hide(launch, block, out);
}

} // namespace mt::kernels::cpu
