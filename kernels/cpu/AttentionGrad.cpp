// attention_grad: blocks of keys against blocks of queries, probabilities recomputed from the logsumexp (Dao, arXiv
// 2307.08691, algorithm 2). One task owns the key and value gradients of a group of heads, and adds in a fixed order.
#include "kernels/cpu/Attention.h"
#include "kernels/cpu/Gemm.h"
#include "kernels/cpu/Vector.h"

#include <algorithm>
#include <cmath>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kQ = AttentionCall::kQueries, kK = AttentionCall::kKeys;

struct AttentionGrad {
  static constexpr size_t kGradient = 0, kOutput = 8, kLogsumexp = 9, kDquery = 10, kDkey = 11, kDvalue = 12,
                          kDbias = 13;
  AttentionCall call;

  struct Buffers {
    float *probabilities, *scores, *capped; ///< [queries, keys] each
  };

  const float *rowOf(const Launch &launch, size_t operand, const ScoreBlock &block, int64_t row) const {
    return launch.at<const float>(operand) +
           ((block.batch * call.queries + block.query + row) * call.heads + block.head) * call.valueWidth;
  }

  /// Scores -> probabilities; zero for a query that sees nothing.
  void normalize(const Launch &launch, const ScoreBlock &block, float *scores) const {
    const float *lse =
        launch.at<const float>(kLogsumexp) + (block.batch * call.heads + block.head) * call.queries + block.query;
    for (int64_t row = 0; row < block.queries; ++row) {
      float *line = scores + row * block.keys;
      KeyRange columns = call.columns(block, row);
      if (std::isinf(lse[row]) && lse[row] < 0)
        columns = {0, 0};
      vec::exponentials(line + columns.begin, lse[row], 1, line + columns.begin, columns.end - columns.begin);
      std::fill(line, line + columns.begin, 0.0f);
      std::fill(line + columns.end, line + block.keys, 0.0f);
    }
  }

  /// buffers.scores: gradient of the probabilities -> gradient of the scores before scale; dbias on the way.
  void sendBack(const Launch &launch, const ScoreBlock &block, const Buffers &buffers) const {
    for (int64_t row = 0; row < block.queries; ++row) {
      float *line = buffers.scores + row * block.keys;
      double delta =
          vec::dot(rowOf(launch, kGradient, block, row), rowOf(launch, kOutput, block, row), call.valueWidth);
      vec::softmaxGrad(line, buffers.probabilities + row * block.keys, static_cast<float>(delta), line, block.keys,
                       false);
      if (launch.operands[kDbias])
        vec::add(line, launch.at<float>(kDbias) + call.biasOffset(block, row), block.keys);
    }
    float inverse = call.cap > 0 ? 1 / call.cap : 0;
    for (int64_t i = 0; call.cap > 0 && i < block.queries * block.keys; ++i) {
      float share = buffers.capped[i] * inverse;
      buffers.scores[i] *= 1 - share * share;
    }
  }

  void pair(const Launch &launch, const ScoreBlock &block, const Buffers &buffers) const {
    int64_t q = block.queries, k = block.keys, group = block.head / call.headsOfGroup();
    const float *gradient = rowOf(launch, kGradient, block, 0);
    call.scores(launch, block, buffers.probabilities, buffers.capped);
    normalize(launch, block, buffers.probabilities);
    if (launch.operands[kDvalue])
      multiply({true, false, k, call.valueWidth, q, k, call.outputStep(), call.valueStep()}, 1, buffers.probabilities,
               gradient, 1, valuePlace(launch, block.batch, group, block.key));
    multiply({false, true, q, k, call.valueWidth, call.outputStep(), call.valueStep(), k}, 1, gradient,
             call.valueAt(launch, block.batch, group, block.key), 0, buffers.scores);
    sendBack(launch, block, buffers);
    if (launch.operands[kDkey])
      multiply({true, false, k, call.width, q, k, call.queryStep(), call.keyStep()}, call.scale, buffers.scores,
               call.queryAt(launch, block.batch, block.head, block.query), 1,
               keyPlace(launch, block.batch, group, block.key));
    if (launch.operands[kDquery])
      multiply({false, false, q, call.width, k, k, call.keyStep(), call.queryStep()}, call.scale, buffers.scores,
               call.keyAt(launch, block.batch, group, block.key), 1,
               queryPlace(launch, block.batch, block.head, block.query));
  }

  float *queryPlace(const Launch &launch, int64_t b, int64_t h, int64_t q) const {
    return launch.at<float>(kDquery) + ((b * call.queries + q) * call.heads + h) * call.width;
  }
  float *keyPlace(const Launch &launch, int64_t b, int64_t g, int64_t k) const {
    return launch.at<float>(kDkey) + ((b * call.keys + k) * call.groups + g) * call.width;
  }
  float *valuePlace(const Launch &launch, int64_t b, int64_t g, int64_t k) const {
    return launch.at<float>(kDvalue) + ((b * call.keys + k) * call.groups + g) * call.valueWidth;
  }

  static void clear(float *rows, int64_t count, int64_t step, int64_t width) {
    for (int64_t i = 0; i < count; ++i)
      std::fill(rows + i * step, rows + i * step + width, 0.0f);
  }
  bool writes(const Launch &launch, size_t operand) const {
    return launch.operands[operand] && !launch.accumulates(operand);
  }

  /// Everything of one group of heads of one batch row.
  void group(const Launch &launch, int64_t b, int64_t g) const {
    int64_t firstHead = g * call.headsOfGroup(), endHead = firstHead + call.headsOfGroup();
    for (int64_t h = firstHead; h < endHead && writes(launch, kDquery); ++h)
      clear(queryPlace(launch, b, h, 0), call.queries, call.queryStep(), call.width);
    if (writes(launch, kDkey))
      clear(keyPlace(launch, b, g, 0), call.keys, call.keyStep(), call.width);
    if (writes(launch, kDvalue))
      clear(valuePlace(launch, b, g, 0), call.keys, call.valueStep(), call.valueWidth);
    float *scratch = ThreadPool::scratchOf<float>(3 * kQ * kK);
    Buffers buffers{scratch, scratch + kQ * kK, scratch + 2 * kQ * kK};
    for (int64_t key = 0; key < call.keys; key += kK)
      for (int64_t h = firstHead; h < endHead; ++h)
        for (int64_t query = 0; query < call.queries; query += kQ) {
          ScoreBlock block{b, h, query, std::min(kQ, call.queries - query), key, std::min(kK, call.keys - key)};
          if (call.anySeen(block))
            pair(launch, block, buffers);
        }
  }

  /// Tasks: batch rows by groups, or, where a dbias is shared among them, those that share nothing.
  Status operator()(const Launch &launch) const {
    bool bias = launch.operands.size() > kDbias && launch.operands[kDbias];
    int64_t batchTasks = bias && call.biasDims[0] == 1 ? 1 : call.batch;
    int64_t groupTasks = bias && call.biasDims[1] == 1 ? 1 : call.groups;
    launch.pool.parallelFor(batchTasks * groupTasks, [&](int64_t task) {
      int64_t b0 = task / groupTasks, g0 = task % groupTasks;
      int64_t b1 = batchTasks == 1 ? call.batch : b0 + 1, g1 = groupTasks == 1 ? call.groups : g0 + 1;
      if (bias && !launch.accumulates(kDbias))
        clearBias(launch, b0, g0);
      for (int64_t b = b0; b < b1; ++b)
        for (int64_t g = g0; g < g1; ++g)
          group(launch, b, g);
    });
    return {};
  }

  /// The part of dbias that a task owns.
  void clearBias(const Launch &launch, int64_t b, int64_t g) const {
    bool shared = call.biasDims[1] == 1;
    int64_t head = call.biasDims[2] * call.biasDims[3], heads = shared ? 1 : call.headsOfGroup();
    float *begin = launch.at<float>(kDbias) + (b * call.biasDims[1] + (shared ? 0 : g * heads)) * head;
    std::fill(begin, begin + heads * head, 0.0f);
  }
};

} // namespace

Result<Run> prepareAttentionGrad(const Signature &call) {
  MT_TRY(requireF32(call));
  return Run(AttentionGrad{AttentionCall(call, 1)});
}

} // namespace mt::kernels::cpu
