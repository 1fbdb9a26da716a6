// attention: a block of queries of one head against blocks of keys, with a running maximum and sum (Milakov and
// Gimelshein, arXiv 1805.02867; Dao, arXiv 2307.08691). Never more than a block of scores.
#include "kernels/cpu/Attention.h"

#include "kernels/Blocks.h"
#include "kernels/cpu/Gemm.h"
#include "kernels/cpu/Vector.h"

#include <cmath>
#include <limits>

namespace mt::kernels::cpu {
namespace {

/// What a block of queries has gathered so far.
struct Running {
  float *sums;   ///< [queries, value width], not yet divided
  double *total; ///< [queries] sum of e^(score - most)
  float *most;   ///< [queries] largest score
};

struct Attention {
  AttentionCall call;
  RowOut result;
  size_t logsumexp;

  /// Scores become probabilities before division, in f32 or rounded in the first halves of their rows' places; what was
  /// gathered before is scaled to the new maximum.
  void fold(const ScoreBlock &block, float *scores, const Running &running) const {
    for (int64_t row = 0; row < block.queries; ++row) {
      float *line = scores + row * block.keys;
      RowRange columns = call.columns(block, row);
      if (!foldRow(line + columns.begin, columns.end - columns.begin, row, running))
        columns = {0, 0};
      std::fill(line, line + columns.begin, 0.0f);
      std::fill(line + columns.end, line + block.keys, 0.0f);
      if (call.narrow)
        vec::narrow(line, block.keys, false, reinterpret_cast<Bf16 *>(line));
    }
  }

  /// False if the row sees none of the keys.
  bool foldRow(float *line, int64_t count, int64_t row, const Running &running) const {
    float before = running.most[row], most = std::max(before, vec::largest(line, count));
    if (std::isinf(most) && most < 0 && !std::isnan(vec::sum(line, count)))
      return false;
    double total = vec::storeExp(line, most, line, count);
    float factor = std::exp(before - most), *sums = running.sums + row * call.valueWidth;
    running.total[row] = running.total[row] * static_cast<double>(factor) + total;
    running.most[row] = most;
    if (factor != 1)
      vec::scale(sums, factor, sums, call.valueWidth, false);
    return true;
  }

  void finish(const Launch &launch, const ScoreBlock &block, const Running &running) const {
    for (int64_t row = 0; row < block.queries; ++row) {
      int64_t place = (block.batch * call.queries + block.query + row) * call.heads + block.head;
      float factor = running.total[row] > 0 ? static_cast<float>(1 / running.total[row]) : 0;
      if (std::isnan(running.total[row]))
        factor = std::numeric_limits<float>::quiet_NaN();
      if (result.present) {
        float *sums = running.sums + row * call.valueWidth, *out = result.place(launch, place * call.valueWidth, sums);
        vec::scale(sums, factor, out, call.valueWidth, result.adds(launch));
        result.finish(launch, place * call.valueWidth, call.valueWidth, out);
      }
      if (launch.operands[logsumexp])
        launch.at<float>(logsumexp)[(block.batch * call.heads + block.head) * call.queries + block.query + row] =
            running.most[row] + static_cast<float>(std::log(running.total[row]));
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

  /// A block of keys from row `place` of the tensors on.
  void narrowBlock(const Launch &launch, const ScoreBlock &block, int64_t place, float *scores, float *line,
                   const Running &running) const {
    call.multiplyScores(launch, block, scores);
    call.finishScores(launch, block, scores, nullptr, line);
    fold(block, scores, running);
    multiply({false, false, block.queries, call.valueWidth, block.keys, 2 * block.keys, call.groups * call.valueWidth,
              call.valueWidth},
             1, reinterpret_cast<const Bf16 *>(scores),
             AttentionCall::rowsOf(launch, call.value, place, call.valueWidth), 1, running.sums);
  }

  static constexpr int64_t kQ = AttentionCall::kQueries, kK = AttentionCall::kKeys;

  int64_t scratchDoubles() const {
    int64_t widest = std::max(call.width, call.valueWidth);
    return kQ + (kQ * kK + kQ * call.valueWidth + kQ + kQ * call.width + kK * widest + call.lineFloats()) / 2 + 1;
  }

  Scratch scratch() const {
    return {.own = sizeof(double) * static_cast<uint64_t>(scratchDoubles()),
            .library = std::max(libraryScratch(kQ, kK, call.width), libraryScratch(kQ, call.valueWidth, kK))};
  }

  void queries(const Launch &launch, ScoreBlock block) const {
    double *total = ThreadPool::scratchOf<double>(scratchDoubles());
    float *scores = reinterpret_cast<float *>(total + kQ), *most = scores + kQ * kK;
    Running running{most + kQ, total, most};
    float *queryBuffer = running.sums + kQ * call.valueWidth, *line = queryBuffer + kQ * call.width;
    float *buffer = line + call.lineFloats(), ownSink = 0;
    int64_t group = block.head / call.headsOfGroup();
    FloatPanel query = {};
    if (!call.narrow)
      query = panel(launch, call.query, (block.batch * call.queries + block.query) * call.heads + block.head,
                    block.queries, call.heads, call.width, queryBuffer);
    const float *sink = call.sink.at(launch, block.head, 1, &ownSink); // as if it had been met first
    std::fill(total, total + block.queries, sink ? 1.0 : 0.0);
    std::fill(most, most + block.queries, sink ? *sink : -std::numeric_limits<float>::infinity());
    std::fill(running.sums, running.sums + block.queries * call.valueWidth, 0.0f);
    RowRange seen = call.hull(block.query, block.queries);
    for (block.key = seen.begin / kK * kK; block.key < seen.end; block.key += kK) {
      block.keys = std::min(kK, seen.end - block.key);
      if (!call.anySeen(block))
        continue;
      int64_t place = (block.batch * call.keys + block.key) * call.groups + group;
      if (call.narrow) {
        narrowBlock(launch, block, place, scores, line, running);
        continue;
      }
      FloatPanel key = panel(launch, call.key, place, block.keys, call.groups, call.width, buffer);
      call.multiplyScores(block, query, key, scores);
      call.finishScores(launch, block, scores, nullptr, line);
      fold(block, scores, running);
      FloatPanel value = panel(launch, call.value, place, block.keys, call.groups, call.valueWidth, buffer);
      multiply({false, false, block.queries, call.valueWidth, block.keys, block.keys, value.step, call.valueWidth}, 1,
               scores, value.data, 1, running.sums);
    }
    finish(launch, block, running);
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(call.checkPlaces(launch));
    int64_t blocks = call.queryBlocks();
    launch.pool.parallelFor(call.batch * call.heads * blocks, [&](int64_t chunk) {
      int64_t head = chunk / blocks, query = chunk % blocks * AttentionCall::kQueries;
      queries(launch, {head / call.heads, head % call.heads, query,
                       std::min(AttentionCall::kQueries, call.queries - query), 0, 0});
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
