#include "kernels/cpu/Attention.h"

#include "kernels/cpu/Bf16Panels.h"
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

AttentionCall::AttentionCall(const Signature &call, bool gradient)
    : at(gradient), query(call, at.query), key(call, at.key), value(call, at.value), bias(call, at.bias),
      sink(call, at.sink) {
  const Dims &queryDims = call.operands[at.query].dims, &keyDims = call.operands[at.key].dims;
  batch = queryDims[0], queries = queryDims[1], heads = queryDims[2], width = queryDims[3];
  keys = keyDims[1], groups = keyDims[2], valueWidth = call.operands[at.value].dims[3];
  scale = static_cast<float>(call.real("scale"));
  cap = static_cast<float>(call.real("softCap"));
  low = std::clamp(call.integer("minDistance", INT64_MIN), -kFar, kFar);
  high = std::clamp(call.integer("maxDistance", INT64_MAX), -kFar, kFar);
  offset = call.integer("offset"), prefix = call.integer("prefix"), chunk = call.integer("chunk");
  dilation = call.integer("dilation", 1), segmentBias = static_cast<float>(call.real("segmentBias"));
  const OperandType &biasType = call.operands[at.bias];
  hasBias = biasType.present;
  narrow = hasBf16Units();
  for (const size_t operand : {at.query, at.key, at.value})
    narrow = narrow && call.operands[operand].type == DType::bf16;
  hasKeyMask = call.operands[at.keyMask].present;
  hasSegments = call.operands[at.querySegment].present;
  hasPlaces = call.operands[at.queryPlace].present;
  for (size_t i = 0; i < wide.size(); ++i)
    wide[i] = call.operands[at.querySegment + i].type == DType::i64;
  if (hasBias) {
    biasDims = biasType.dims, biasStrides = rowMajor(biasType.dims);
    for (size_t i = 0; i < 3; ++i)
      biasStrides[i] = biasDims[i] == 1 ? 0 : biasStrides[i];
    if (!hasPlaces && biasDims[3] != keys) // by distance: the line of the next query begins one entry earlier
      biasStrides[2] = -1, firstBias = queries - 1;
  }
}

RowRange AttentionCall::near(int64_t query) const {
  return {std::max<int64_t>(0, query + offset - high), std::min(keys, query + offset - low + 1)};
}

RowRange AttentionCall::inChunk(int64_t query) const {
  if (chunk == 0)
    return {0, keys};
  int64_t begin = query / chunk * chunk;
  return {std::min(begin, keys), chunk > keys - begin ? keys : begin + chunk};
}

RowRange AttentionCall::seen(int64_t query) const {
  RowRange range = near(query), limit = inChunk(query);
  if (range.empty())
    range = {0, 0};
  if (prefix > 0)
    range = {0, std::max(range.end, std::min(prefix, keys))};
  return {std::max(range.begin, limit.begin), std::min(range.end, limit.end)};
}

RowRange AttentionCall::hull(int64_t query, int64_t count) const {
  RowRange all{keys, 0};
  for (int64_t q = query; q < query + count; ++q)
    if (RowRange range = seen(q); !range.empty())
      all = {std::min(all.begin, range.begin), std::max(all.end, range.end)};
  return all;
}

RowRange AttentionCall::columns(const ScoreBlock &block, int64_t row) const {
  RowRange range = seen(block.query + row);
  int64_t begin = std::max(range.begin - block.key, int64_t{0}), end = std::min(range.end - block.key, block.keys);
  return begin < end ? RowRange{begin, end} : RowRange{0, 0};
}

bool AttentionCall::anySeen(const ScoreBlock &block) const {
  for (int64_t q = block.query; q < block.query + block.queries; ++q) {
    RowRange limit = inChunk(q), range = near(q);
    int64_t begin = std::max(limit.begin, block.key), end = std::min(limit.end, block.key + block.keys);
    if (std::max(begin, range.begin) < std::min(end, range.end) || begin < std::min(end, prefix))
      return true;
  }
  return false;
}

ScoreRows AttentionCall::rowsOf(const ScoreBlock &block, float *scores, RowRange *seen) const {
  for (int64_t row = 0; row < block.queries; ++row)
    seen[row] = columns(block, row);
  return {scores, block.queries, block.step, seen};
}

/// What lies between the first and the last key that a row sees: behind a prefix, and left out by dilation.
void AttentionCall::hideGaps(const ScoreBlock &block, int64_t row, float *scores) const {
  auto place = [&](int64_t key) { return std::clamp<int64_t>(key - block.key, 0, block.keys); };
  const int64_t always = place(prefix);
  std::fill(scores + always, scores + std::max(always, place(near(block.query + row).begin)), kHidden);
  for (int64_t k = always; dilation > 1 && k < block.keys; ++k)
    if ((block.query + row - block.key - k + offset) % dilation != 0)
      scores[k] = kHidden;
}

void AttentionCall::hide(const Launch &launch, const ScoreBlock &block, float *scores) const {
  const uint8_t *mask = hasKeyMask ? launch.at<const uint8_t>(at.keyMask) + block.batch * keys + block.key : nullptr;
  const bool hasGaps = prefix > 0 || dilation > 1;
  for (int64_t row = 0; row < block.queries && (mask || hasGaps || hasSegments); ++row) {
    float *line = scores + row * block.step;
    if (hasGaps)
      hideGaps(block, row, line);
    for (int64_t k = 0; mask && k < block.keys; ++k)
      line[k] = mask[k] ? line[k] : kHidden;
    if (!hasSegments)
      continue;
    int64_t own = whole(launch, at.querySegment, block.batch * queries + block.query + row);
    for (int64_t k = 0; k < block.keys; ++k)
      if (whole(launch, at.keySegment, block.batch * keys + block.key + k) != own)
        line[k] = segmentBias != 0 ? line[k] + segmentBias : kHidden;
  }
}

void AttentionCall::scaleEarly(const ScoreBlock &block, float *scores) const {
  if (earlyScale() != 1)
    vec::scale(scores, earlyScale(), scores, block.queries * block.step, false);
}

bool AttentionCall::narrowToSeen(ScoreBlock &block) const {
  const RowRange all = hull(block.query, block.queries);
  const int64_t end = std::min(all.end - block.key, block.keys),
                begin = std::max<int64_t>(all.begin - block.key, 0) / kPanel * kPanel;
  block.key += begin, block.keys = end - begin, block.step = padded(block.keys);
  return block.keys > 0 && anySeen(block);
}

void AttentionCall::multiplyScores(const ScoreBlock &block, FloatPanel queryRows, FloatPanel keyRows, float *out) const {
  const Gemm gemm{false, true, block.queries, block.keys, width, queryRows.step, keyRows.step, block.step};
  multiply(gemm, scale, queryRows.data, keyRows.data, 0, out);
}

void AttentionCall::finishScores(const Launch &launch, const ScoreBlock &block, float *out, float *capped,
                                 float *line) const {
  int64_t count = block.queries * block.step;
  if (cap > 0)
    vec::capped(out, 1, cap, out, count);
  if (cap > 0 && capped)
    std::copy(out, out + count, capped);
  if (hasBias)
    addBias(launch, block, out, line);
  hide(launch, block, out);
}

void AttentionCall::addBias(const Launch &launch, const ScoreBlock &block, float *scores, float *line) const {
  float buffer[kKeys];
  const float *entries = hasPlaces ? bias.at(launch, lineOffset(block), biasDims[3], line) : nullptr;
  for (int64_t row = 0; row < block.queries; ++row) {
    float *out = scores + row * block.step;
    if (entries)
      forEachPlace(launch, block, row, [&](int64_t k, int64_t entry) { out[k] += entries[entry]; });
    else
      vec::add(bias.at(launch, biasOffset(block, row), block.keys, buffer), out, block.keys);
  }
}

Status AttentionCall::checkPlaces(const Launch &launch) const {
  if (!hasPlaces)
    return {};
  auto extremes = [&](size_t operand, int64_t count) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t i = 0; i < count; ++i)
      least = std::min(least, whole(launch, operand, i)), most = std::max(most, whole(launch, operand, i));
    return std::pair(least, most);
  };
  auto [leastQuery, mostQuery] = extremes(at.queryPlace, queries);
  auto [leastKey, mostKey] = extremes(at.keyPlace, keys);
  if (leastQuery < 0 || mostQuery > leastKey || mostKey - leastQuery >= biasDims[3])
    return fail("attention: places of queries {} to {} and of keys {} to {} lead beyond a bias of {} entries",
                leastQuery, mostQuery, leastKey, mostKey, biasDims[3]);
  return {};
}

} // namespace mt::kernels::cpu
