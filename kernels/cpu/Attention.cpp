// attention: a block of queries of one head against blocks of keys, with a running maximum and sum (Milakov and
// Gimelshein, arXiv 1805.02867; Dao, arXiv 2307.08691). Never more than a block of scores.
#include "kernels/cpu/Attention.h"

#include "kernels/Blocks.h"
#include "kernels/cpu/Bf16Panels.h"
#include "kernels/cpu/Carver.h"
#include "kernels/cpu/Gemm.h"
#include "kernels/cpu/Vector.h"

#include <cmath>
#include <limits>

namespace mt::kernels::cpu {
namespace {

/// What queries have gathered so far.
struct Running {
  float *sums;    ///< [queries, step], not yet divided
  int64_t step;   ///< value width, or more
  double *totals; ///< [queries] sum of e^(score - most)
  float *most;    ///< [queries] largest score
  float *factors; ///< [queries] of what was gathered before the last block of keys

  Running from(int64_t row) const { return {sums + row * step, step, totals + row, most + row, factors + row}; }
};

struct Attention {
  AttentionCall call;
  RowOut result;
  size_t logsumexp;

  /// Scores become probabilities before division; what was gathered before is scaled to the new maximum.
  void fold(const ScoreBlock &block, float *scores, float scale, const Running &running) const {
    RowRange seen[AttentionCall::kQueries];
    foldScores(call.rowsOf(block, scores, seen), scale, running.most, running.totals, running.factors);
    for (int64_t row = 0; row < block.queries; ++row)
      if (float *sums = running.sums + row * running.step; running.factors[row] != 1)
        vec::scale(sums, running.factors[row], sums, call.valueWidth, false);
  }

  /// As if a sink had been met first.
  void begin(const Launch &launch, int64_t head, int64_t queries, const Running &running) const {
    float ownSink = 0;
    const float *sink = call.sink.at(launch, head, 1, &ownSink);
    std::fill_n(running.totals, queries, sink ? 1.0 : 0.0);
    std::fill_n(running.most, queries, sink ? *sink : -std::numeric_limits<float>::infinity());
    std::fill_n(running.sums, queries * running.step, 0.0F);
  }

  void finish(const Launch &launch, const ScoreBlock &block, const Running &running) const {
    for (int64_t row = 0; row < block.queries; ++row) {
      int64_t place = (block.batch * call.queries + block.query + row) * call.heads + block.head;
      float factor = running.totals[row] > 0 ? static_cast<float>(1 / running.totals[row]) : 0;
      if (std::isnan(running.totals[row]))
        factor = std::numeric_limits<float>::quiet_NaN();
      if (result.present) {
        float *sums = running.sums + row * running.step, *out = result.place(launch, place * call.valueWidth, sums);
        vec::scale(sums, factor, out, call.valueWidth, result.adds(launch));
        result.finish(launch, place * call.valueWidth, call.valueWidth, out);
      }
      if (launch.operands[logsumexp])
        launch.at<float>(logsumexp)[(block.batch * call.heads + block.head) * call.queries + block.query + row] =
            running.most[row] + static_cast<float>(std::log(running.totals[row]));
    }
  }

  /// `count` rows of one head, every `step`-th from row `first` on: in place, or widened into `buffer`.
  static FloatPanel panel(const Launch &launch, const RowIn &in, int64_t first, int64_t count, int64_t step,
                          int64_t width, float *buffer) {
    if (in.native)
      return {launch.at<const float>(in.operand) + first * width, step * width};
    for (int64_t i = 0; i < count; ++i)
      in.at(launch, (first + i * step) * width, width, buffer + i * width);
    return {buffer, width};
  }

  static constexpr int64_t kQ = AttentionCall::kQueries, kK = AttentionCall::kKeys;

  /// What a block of queries has in the scratch of a thread.
  struct Buffers {
    float *scores;
    Running running;
    float *query, *panel, *line;

    Buffers(const AttentionCall &call, Carver &from)
        : scores(from.take<float>(kQ * kK)), running{from.take<float>(kQ * call.valueWidth), call.valueWidth,
                                                     from.take<double>(kQ), from.take<float>(kQ), from.take<float>(kQ)},
          query(from.take<float>(kQ * call.width)), panel(from.take<float>(kK * std::max(call.width, call.valueWidth))),
          line(from.take<float>(call.lineFloats())) {}
  };

  Scratch scratch() const {
    if (call.narrow)
      return {.own = Carver::bytes([&](Carver &from) { NarrowBuffers(call, from); })};
    return {.own = Carver::bytes([&](Carver &from) { Buffers(call, from); }),
            .library = std::max(libraryScratch(kQ, kK, call.width), libraryScratch(kQ, call.valueWidth, kK))};
  }

  void queries(const Launch &launch, ScoreBlock block) const {
    Carver from(ThreadPool::scratch(scratch().own));
    const Buffers buffers(call, from);
    const Running &running = buffers.running;
    float *scores = buffers.scores;
    int64_t group = block.head / call.headsOfGroup();
    FloatPanel query = panel(launch, call.query, (block.batch * call.queries + block.query) * call.heads + block.head,
                             block.queries, call.heads, call.width, buffers.query);
    begin(launch, block.head, block.queries, running);
    RowRange seen = call.hull(block.query, block.queries);
    for (block.key = seen.begin / kK * kK; block.key < seen.end; block.key += kK) {
      block.keys = std::min(kK, seen.end - block.key), block.step = padded(block.keys);
      if (!call.anySeen(block))
        continue;
      int64_t place = (block.batch * call.keys + block.key) * call.groups + group;
      FloatPanel key = panel(launch, call.key, place, block.keys, call.groups, call.width, buffers.panel);
      call.multiplyScores(block, query, key, scores);
      call.finishScores(launch, block, scores, nullptr, buffers.line);
      fold(block, scores, 1, running);
      FloatPanel value = panel(launch, call.value, place, block.keys, call.groups, call.valueWidth, buffers.panel);
      multiply({false, false, block.queries, call.valueWidth, block.keys, block.step, value.step, running.step}, 1,
               scores, value.data, 1, running.sums);
    }
    finish(launch, block, running);
  }

  // In bf16: keys and values are packed once for all queries of a task, which meet them in strips.

  static constexpr int64_t kTall = 512, kStrip = kPanel; ///< queries of a task at most, and of a strip

  struct NarrowBuffers {
    float *scores; ///< of a strip, and the same rounded in their place
    Running running;
    Bf16 *query, *key, *value;
    float *line;

    NarrowBuffers(const AttentionCall &call, Carver &from)
        : scores(from.take<float>(kStrip * kK)),
          running{from.take<float>(kTall * padded(call.valueWidth)), padded(call.valueWidth), from.take<double>(kTall),
                  from.take<float>(kTall), from.take<float>(kTall)},
          query(from.take<Bf16>(Packed::elements(kTall, call.width))), key(from.take<Bf16>(Packed::elements(kK, call.width))),
          value(from.take<Bf16>(Packed::elements(call.valueWidth, kK))), line(from.take<float>(call.lineFloats())) {}
  };

  /// Queries of a strip against the keys of a block that they see.
  void meet(const Launch &launch, const PanelUnits &units, ScoreBlock strip, LeftRows query, Packed key, Packed value,
            const NarrowBuffers &buffers, const Running &running) const {
    const int64_t first = strip.key;
    if (!call.narrowToSeen(strip))
      return;
    const int64_t from = strip.key - first;
    units.multiply(kStrip, strip.step, padded(call.width), query, key.at(from, 0), false, buffers.scores, strip.step);
    call.scaleEarly(strip, buffers.scores);
    call.finishScores(launch, strip, buffers.scores, nullptr, buffers.line);
    fold(strip, buffers.scores, call.lateScale(), running);
    auto *rounded = reinterpret_cast<Bf16 *>(buffers.scores);
    roundRows(buffers.scores, strip.step, strip.step, rounded, 2 * strip.step);
    units.multiply(kStrip, running.step, strip.step, LeftRows{rounded, 2 * strip.step}, value.at(0, from), true,
                   running.sums, running.step);
  }

  void narrowQueries(const Launch &launch, const ScoreBlock &task) const {
    Carver from(ThreadPool::scratch(scratch().own));
    const NarrowBuffers buffers(call, from);
    const PanelUnits units;
    const int64_t group = task.head / call.headsOfGroup(), keyStep = call.groups * call.width,
                  valueStep = call.groups * call.valueWidth, queryRow = (task.batch * call.queries + task.query) * call.heads + task.head;
    const LeftRows query = copyRows(AttentionCall::rowsOf(launch, call.query, queryRow, call.width), call.heads * call.width,
                                    task.queries, call.width, buffers.query);
    begin(launch, task.head, padded(task.queries), buffers.running);
    const RowRange seen = call.hull(task.query, task.queries);
    for (int64_t key = seen.begin / kK * kK; key < seen.end; key += kK) {
      const int64_t keys = std::min(kK, seen.end - key), keyRow = (task.batch * call.keys + key) * call.groups + group;
      const Packed keyPanel = units.packRight({AttentionCall::rowsOf(launch, call.key, keyRow, call.width), keyStep, false,
                                               keys, call.width}, buffers.key);
      const Packed valuePanel = units.packRight({AttentionCall::rowsOf(launch, call.value, keyRow, call.valueWidth), valueStep,
                                                 true, call.valueWidth, keys}, buffers.value);
      for (int64_t row = 0; row < task.queries; row += kStrip)
        meet(launch, units,
             {task.batch, task.head, task.query + row, std::min(kStrip, task.queries - row), key, keys, 0},
             query.at(row), keyPanel, valuePanel, buffers, buffers.running.from(row));
    }
    finish(launch, task, buffers.running);
  }

  /// Queries of a task: as many as leave some tasks for each thread. No bit depends on it.
  int64_t tall(const ThreadPool &pool) const {
    constexpr int64_t kEach = 3;
    int64_t rows = kTall;
    while (rows > kStrip && call.batch * call.heads * ceilDivide(call.queries, rows) < kEach * pool.threads())
      rows /= 2;
    return rows;
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(call.checkPlaces(launch));
    const int64_t rows = call.narrow ? tall(launch.pool) : kQ, blocks = ceilDivide(call.queries, rows);
    launch.pool.parallelFor(call.batch * call.heads * blocks, [&](int64_t chunk) {
      const int64_t head = chunk / blocks, query = chunk % blocks * rows;
      const ScoreBlock block{head / call.heads, head % call.heads, query, std::min(rows, call.queries - query), 0, 0, 0};
      call.narrow ? narrowQueries(launch, block) : queries(launch, block);
    });
    return {};
  }
};

Result<Run> prepareAttention(const Signature &call) {
  AttentionCall decoded(call, false);
  return Run(Attention{decoded, RowOut(call, decoded.at.output), decoded.at.logsumexp});
}

constexpr Entry kEntries[] = {{"attention", prepareAttention}, {"attention_grad", prepareAttentionGrad}};

} // namespace

std::span<const Entry> attentionEntries() { return kEntries; }

} // namespace mt::kernels::cpu
