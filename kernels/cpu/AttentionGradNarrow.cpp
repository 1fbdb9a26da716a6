// attention_grad in bf16 on the processor's units: panels of a block of keys meet those of blocks of queries, which do so
// in strips. Gradients of keys and values are summed turned, so that probabilities and slopes are laid out for both products
// as they come.
#include "kernels/cpu/AttentionGrad.h"
#include "kernels/cpu/Bf16Panels.h"
#include "kernels/cpu/Carver.h"
#include "kernels/cpu/Vector.h"

#include <algorithm>
#include <array>
#include <optional>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kBlock = 128, kStrip = kPanel, kStrips = kBlock / kStrip; ///< queries, or keys, of a block and of a strip
constexpr size_t kBlocks = 2;                                               ///< of keys that are laid out at a time

struct Buffers {
  struct OfKeys {
    Bf16 *key, *keyTurned, *valueTurned; ///< what queries are multiplied with
    float *dkeyTurned, *dvalueTurned;    ///< [width, keys]
  };
  std::array<OfKeys, kBlocks> blocks;
  Bf16 *query, *queryTurned, *back, *backTurned;           ///< of a block of queries; back: the gradient of the output
  float *scores, *slopes, *capped, *line;                  ///< of a strip; line: of a bias by place
  Bf16 *probabilityPairs, *slopePairs;                     ///< of a block of queries and one of keys
  float *dquery;                                           ///< [queries of a strip, width]

  Buffers(const AttentionCall &call, Carver &from) {
    const int64_t ofWidth = Packed::elements(call.width, kBlock), ofValue = Packed::elements(call.valueWidth, kBlock);
    for (OfKeys &block : blocks)
      block = {from.take<Bf16>(ofWidth), from.take<Bf16>(ofWidth), from.take<Bf16>(ofValue), from.take<float>(ofWidth),
               from.take<float>(ofValue)};
    query = from.take<Bf16>(ofWidth), queryTurned = from.take<Bf16>(ofWidth);
    back = from.take<Bf16>(ofValue), backTurned = from.take<Bf16>(ofValue);
    scores = from.take<float>(kStrip * kBlock), slopes = from.take<float>(kStrip * kBlock);
    capped = from.take<float>(call.cap > 0 ? kStrip * kBlock : 0), line = from.take<float>(call.lineFloats());
    probabilityPairs = from.take<Bf16>(kBlock * kBlock), slopePairs = from.take<Bf16>(kBlock * kBlock);
    dquery = from.take<float>(kStrip * padded(call.width));
  }
};

/// A block of keys, [begin, + count), laid out.
struct Keys {
  int64_t begin, count;
  Packed plain, turned, values; ///< as keys and values are multiplied
  float *dkey, *dvalue;         ///< sums, turned

  Keys(const AttentionCall &call, const Launch &launch, const Group &group, const PanelUnits &units,
       const Buffers::OfKeys &to, int64_t begin, int64_t count)
      : begin(begin), count(count), dkey(to.dkeyTurned), dvalue(to.dvalueTurned) {
    const int64_t row = (group.batch * call.keys + begin) * call.groups + group.index,
                  keyStep = call.groups * call.width, valueStep = call.groups * call.valueWidth;
    const Bf16 *ofKey = AttentionCall::rowsOf(launch, call.key, row, call.width),
               *ofValue = AttentionCall::rowsOf(launch, call.value, row, call.valueWidth);
    plain = units.packRight({ofKey, keyStep, true, call.width, count}, to.key);
    turned = units.packRight({ofKey, keyStep, false, count, call.width}, to.keyTurned);
    values = units.packRight({ofValue, valueStep, false, count, call.valueWidth}, to.valueTurned);
    std::fill_n(dkey, padded(call.width) * kBlock, 0.0F);
    std::fill_n(dvalue, padded(call.valueWidth) * kBlock, 0.0F);
  }

  void finish(const AttentionCall &call, const Group &group) const {
    if (group.dvalue.data)
      addTurned(dvalue, kBlock, call.valueWidth, count, 1, group.dvalue.at(begin, 0), group.dvalue.rowStep);
    if (group.dkey.data)
      addTurned(dkey, kBlock, call.width, count, call.scale, group.dkey.at(begin, 0), group.dkey.rowStep);
  }
};

/// A block of queries of a head, laid out; back: the gradient of the output.
struct Queries {
  LeftRows query, back;
  Packed queryTurned, backTurned;

  Queries(const AttentionCall &call, const Launch &launch, const PanelUnits &units, const Buffers &to,
          const ScoreBlock &block) {
    const int64_t row = (block.batch * call.queries + block.query) * call.heads + block.head,
                  queryStep = call.heads * call.width, backStep = call.heads * call.valueWidth;
    const Bf16 *ofQuery = AttentionCall::rowsOf(launch, call.query, row, call.width),
               *ofBack = launch.at<const Bf16>(AttentionOperands::kGradient) + row * call.valueWidth;
    query = copyRows(ofQuery, queryStep, block.queries, call.width, to.query);
    back = copyRows(ofBack, backStep, block.queries, call.valueWidth, to.back);
    queryTurned = units.packLeft({ofQuery, queryStep, true, call.width, block.queries}, to.queryTurned);
    backTurned = units.packLeft({ofBack, backStep, true, call.valueWidth, block.queries}, to.backTurned);
  }
};

/// Both, and what all of these queries see of these keys.
struct Meeting {
  const AttentionCall &call;
  const Launch &launch;
  const Group &group;
  const PanelUnits &units;
  const Buffers &buffers;
  const Keys &keys;
  const Queries &queries;
  ScoreBlock block;
  Packed probabilities{buffers.probabilityPairs, kBlock, true}, slopes{buffers.slopePairs, kBlock, true};
  std::array<RowRange, kStrips> seeing = {}; ///< of each 32 keys the strips that see some

  int64_t head() const { return block.head - group.firstHead; }

  /// Rows [first, + kStrip) of the block: what they are to its keys, and their own gradient.
  void strip(int64_t first) {
    ScoreBlock own = block;
    own.query += first, own.queries = std::min(kStrip, block.queries - first);
    const int64_t columns = padded(block.keys);
    if (!call.narrowToSeen(own)) {
      clear(first, 0, columns);
      return;
    }
    const int64_t from = own.key - block.key, step = own.step;
    units.multiply(kStrip, step, padded(call.width), queries.query.at(first), keys.turned.at(from, 0), false,
                   buffers.scores, step);
    call.scaleEarly(own, buffers.scores);
    call.finishScores(launch, own, buffers.scores, buffers.capped, buffers.line);
    units.multiply(kStrip, step, padded(call.valueWidth), queries.back.at(first), keys.values.at(from, 0), false,
                   buffers.slopes, step);
    sendBlockBack(call, launch, group, own, buffers.scores, call.lateScale(), buffers.capped, buffers.slopes);
    for (float *rows : {buffers.scores, buffers.slopes})
      std::fill(rows + own.queries * step, rows + kStrip * step, 0.0F);
    pairRows(buffers.scores, step, step, probabilities.at(from, 0), first);
    pairRows(buffers.slopes, step, step, slopes.at(from, 0), first);
    clear(first, 0, from);
    clear(first, from + step, columns - from - step);
    for (int64_t i = from / kStrip; i < (from + step) / kStrip; ++i) {
      RowRange &strips = seeing[static_cast<size_t>(i)];
      strips = {strips.empty() ? first / kStrip : strips.begin, first / kStrip + 1};
    }
    if (group.dquery.data)
      sendToQueries(own, from);
  }

  void clear(int64_t first, int64_t column, int64_t columns) const {
    clearPairs(probabilities, first, column, columns);
    clearPairs(slopes, first, column, columns);
  }

  void sendToQueries(const ScoreBlock &own, int64_t from) const {
    auto *rounded = reinterpret_cast<Bf16 *>(buffers.slopes);
    const int64_t wide = padded(call.width);
    roundRows(buffers.slopes, own.step, own.step, rounded, 2 * own.step);
    units.multiply(kStrip, wide, own.step, LeftRows{rounded, 2 * own.step}, keys.plain.at(0, from), false,
                   buffers.dquery, wide);
    for (int64_t row = 0; row < own.queries; ++row)
      vec::scale(buffers.dquery + row * wide, call.scale, group.dquery.at(own.query + row, head()), call.width, true);
  }

  /// The sums of keys and values, turned, gain what the strips have left for them.
  void sendToKeys() const {
    for (int64_t i = 0, end; i < kStrips; i = end) {
      const RowRange strips = seeing[static_cast<size_t>(i)];
      for (end = i + 1; end < kStrips && seeing[static_cast<size_t>(end)].begin == strips.begin &&
                        seeing[static_cast<size_t>(end)].end == strips.end;)
        ++end;
      if (strips.empty())
        continue;
      const int64_t column = i * kStrip, columns = (end - i) * kStrip, first = strips.begin * kStrip,
                    depth = strips.end * kStrip - first;
      if (group.dvalue.data)
        units.multiply(padded(call.valueWidth), columns, depth, queries.backTurned.at(0, first),
                       probabilities.at(column, first), true, keys.dvalue + column, kBlock);
      if (group.dkey.data)
        units.multiply(padded(call.width), columns, depth, queries.queryTurned.at(0, first), slopes.at(column, first),
                       true, keys.dkey + column, kBlock);
    }
  }

  void operator()() {
    for (int64_t first = 0; first < block.queries; first += kStrip)
      strip(first);
    sendToKeys();
  }
};

} // namespace

uint64_t narrowGradBytes(const AttentionCall &call) {
  return Carver::bytes([&](Carver &from) { Buffers(call, from); });
}

void computeNarrow(const AttentionCall &call, const Launch &launch, const Group &group, RowRange keys, RowRange queries,
                   std::byte *scratch) {
  Carver from(scratch);
  const Buffers buffers(call, from);
  const PanelUnits units;
  constexpr int64_t kNear = static_cast<int64_t>(kBlocks) * kBlock;
  for (int64_t first = keys.begin; first < keys.end; first += kNear) {
    const RowRange near{first, std::min(keys.end, first + kNear)};
    std::array<std::optional<Keys>, kBlocks> blocks;
    for (size_t i = 0; i < kBlocks; ++i)
      if (const int64_t key = first + static_cast<int64_t>(i) * kBlock; key < near.end)
        blocks[i].emplace(call, launch, group, units, buffers.blocks[i], key, std::min(kBlock, near.end - key));
    for (int64_t head = group.firstHead; head < group.firstHead + call.headsOfGroup(); ++head)
      for (int64_t query = queries.begin; query < queries.end; query += kBlock) {
        ScoreBlock block{group.batch,           head, query, std::min(kBlock, queries.end - query), near.begin,
                         near.end - near.begin, 0};
        if (!call.anySeen(block))
          continue;
        const Queries laidOut(call, launch, units, buffers, block);
        for (const std::optional<Keys> &own : blocks) {
          if (!own)
            continue;
          block.key = own->begin, block.keys = own->count;
          if (call.anySeen(block))
            Meeting{call, launch, group, units, buffers, *own, laidOut, block}();
        }
      }
    for (const std::optional<Keys> &own : blocks)
      if (own)
        own->finish(call, group);
  }
}

} // namespace mt::kernels::cpu
