// attention_grad: blocks of keys against blocks of queries, probabilities recomputed from the logsumexp (Dao, arXiv
// 2307.08691, algorithm 2). One task owns the key and value gradients of a group of heads, and adds in a fixed order.
// What is not f32 is widened for a group at a time, but where units of the processor multiply bf16, and gradients are
// summed in f32 and rounded once.
#include "kernels/cpu/Attention.h"
#include "kernels/cpu/Gemm.h"
#include "kernels/cpu/Vector.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kQ = AttentionCall::kQueries, kK = AttentionCall::kKeys;

/// How a tensor [batch, rows, all heads, width] divides into groups of `own` heads.
struct Layout {
  int64_t rows, all, own, width;
  int64_t elements() const { return rows * own * width; } ///< of a group
  int64_t offset(int64_t batch, int64_t row, int64_t group) const {
    return ((batch * rows + row) * all + group * own) * width;
  }
};

/// A group's part of a tensor in f32: in place, or in a buffer. Null data: the tensor is absent.
template <typename T> struct Side {
  T *data = nullptr;
  int64_t rowStep = 0, headStep = 0;
  T *at(int64_t row, int64_t head) const { return data + row * rowStep + head * headStep; }
};

/// One group of heads of one batch row, and the dbias of its task, whose first element is `dbiasOrigin`.
struct Group {
  int64_t batch, index, firstHead;
  Side<const float> gradient, query, key, value, output;
  Side<float> dquery, dkey, dvalue;
  float *dbias = nullptr;
  int64_t dbiasOrigin = 0;
};

struct AttentionGrad {
  AttentionCall call;
  RowIn gradient, output;
  RowOut dquery, dkey, dvalue, dbias, dsink;

  explicit AttentionGrad(const Signature &signature)
      : call(signature, true), gradient(signature, AttentionOperands::kGradient), output(signature, call.at.output),
        dquery(signature, call.at.dquery), dkey(signature, call.at.dkey), dvalue(signature, call.at.dvalue),
        dbias(signature, call.at.dbias), dsink(signature, call.at.dsink) {
    call.narrow = call.narrow && signature.operands[AttentionOperands::kGradient].type == DType::bf16;
  }

  struct Buffers {
    float *probabilities, *scores, *capped; ///< [queries, keys] each
    float *line;                            ///< of a bias by place
    Bf16 *rounded;                          ///< [queries, keys], what is multiplied of them where that is in bf16
  };

  Layout queryLayout() const { return {call.queries, call.heads, call.headsOfGroup(), call.width}; }
  Layout outputLayout() const { return {call.queries, call.heads, call.headsOfGroup(), call.valueWidth}; }
  Layout keyLayout() const { return {call.keys, call.groups, 1, call.width}; }
  Layout valueLayout() const { return {call.keys, call.groups, 1, call.valueWidth}; }

  /// Scores -> probabilities; zero for a query that sees nothing.
  void normalize(const Launch &launch, const ScoreBlock &block, float *scores) const {
    const float *lse = launch.at<const float>(call.at.logsumexp) +
                       (block.batch * call.heads + block.head) * call.queries + block.query;
    for (int64_t row = 0; row < block.queries; ++row) {
      float *line = scores + row * block.keys;
      KeyRange columns = call.columns(block, row);
      if (std::isinf(lse[row]) && lse[row] < 0)
        columns = {0, 0};
      vec::exponentials(line + columns.begin, lse[row], 1, 0, line + columns.begin, columns.end - columns.begin);
      std::fill(line, line + columns.begin, 0.0f);
      std::fill(line + columns.end, line + block.keys, 0.0f);
    }
  }

  /// buffers.scores: gradient of the probabilities -> gradient of the scores before scale; dbias on the way.
  void sendBack(const Launch &launch, const Group &group, const ScoreBlock &block, const Buffers &buffers) const {
    int64_t head = block.head - group.firstHead;
    for (int64_t row = 0; row < block.queries; ++row) {
      float *line = buffers.scores + row * block.keys;
      double delta = vec::dot(group.gradient.at(block.query + row, head), group.output.at(block.query + row, head),
                              call.valueWidth);
      vec::softmaxGrad(line, buffers.probabilities + row * block.keys, static_cast<float>(delta), line, block.keys,
                       false);
      if (group.dbias)
        addToBias(launch, group, block, row, line);
    }
    float inverse = call.cap > 0 ? 1 / call.cap : 0;
    for (int64_t i = 0; call.cap > 0 && i < block.queries * block.keys; ++i) {
      float share = buffers.capped[i] * inverse;
      buffers.scores[i] *= 1 - share * share;
    }
  }

  void addToBias(const Launch &launch, const Group &group, const ScoreBlock &block, int64_t row,
                 const float *slopes) const {
    if (!call.hasPlaces)
      return vec::add(slopes, group.dbias + (call.biasOffset(block, row) - group.dbiasOrigin), block.keys);
    float *line = group.dbias + (call.lineOffset(block) - group.dbiasOrigin);
    call.forEachPlace(launch, block, row, [&](int64_t k, int64_t entry) { line[entry] += slopes[k]; });
  }

  static const Bf16 *round(const ScoreBlock &block, const float *from, Bf16 *to) {
    vec::narrow(from, block.queries * block.keys, false, to);
    return to;
  }

  /// As pair(), with products of bf16; gradients are summed in f32.
  void narrowPair(const Launch &launch, const Group &group, const ScoreBlock &block, const Buffers &buffers) const {
    const int64_t q = block.queries, k = block.keys, head = block.head - group.firstHead;
    const int64_t queryRow = (block.batch * call.queries + block.query) * call.heads + block.head;
    const int64_t keyRow = (block.batch * call.keys + block.key) * call.groups + group.index;
    const int64_t queryStep = call.heads * call.width, keyStep = call.groups * call.width,
                  valueStep = call.groups * call.valueWidth, backStep = call.heads * call.valueWidth;
    const Bf16 *back = AttentionCall::rowsOf(launch, gradient, queryRow, call.valueWidth);
    call.multiplyScores(launch, block, buffers.probabilities);
    call.finishScores(launch, block, buffers.probabilities, buffers.capped, buffers.line);
    normalize(launch, block, buffers.probabilities);
    if (group.dvalue.data)
      multiply({true, false, k, call.valueWidth, q, k, backStep, group.dvalue.rowStep}, 1,
               round(block, buffers.probabilities, buffers.rounded), back, 1, group.dvalue.at(block.key, 0));
    multiply({false, true, q, k, call.valueWidth, backStep, valueStep, k}, 1, back,
             AttentionCall::rowsOf(launch, call.value, keyRow, call.valueWidth), 0, buffers.scores);
    sendBack(launch, group, block, buffers);
    const Bf16 *slopes = round(block, buffers.scores, buffers.rounded);
    if (group.dkey.data)
      multiply({true, false, k, call.width, q, k, queryStep, group.dkey.rowStep}, call.scale, slopes,
               AttentionCall::rowsOf(launch, call.query, queryRow, call.width), 1, group.dkey.at(block.key, 0));
    if (group.dquery.data)
      multiply({false, false, q, call.width, k, k, keyStep, group.dquery.rowStep}, call.scale, slopes,
               AttentionCall::rowsOf(launch, call.key, keyRow, call.width), 1, group.dquery.at(block.query, head));
  }

  void pair(const Launch &launch, const Group &group, const ScoreBlock &block, const Buffers &buffers) const {
    int64_t q = block.queries, k = block.keys, head = block.head - group.firstHead;
    const float *back = group.gradient.at(block.query, head), *query = group.query.at(block.query, head);
    const float *key = group.key.at(block.key, 0), *value = group.value.at(block.key, 0);
    call.multiplyScores(block, {query, group.query.rowStep}, {key, group.key.rowStep}, buffers.probabilities);
    call.finishScores(launch, block, buffers.probabilities, buffers.capped, buffers.line);
    normalize(launch, block, buffers.probabilities);
    if (group.dvalue.data)
      multiply({true, false, k, call.valueWidth, q, k, group.gradient.rowStep, group.dvalue.rowStep}, 1,
               buffers.probabilities, back, 1, group.dvalue.at(block.key, 0));
    multiply({false, true, q, k, call.valueWidth, group.gradient.rowStep, group.value.rowStep, k}, 1, back, value, 0,
             buffers.scores);
    sendBack(launch, group, block, buffers);
    if (group.dkey.data)
      multiply({true, false, k, call.width, q, k, group.query.rowStep, group.dkey.rowStep}, call.scale, buffers.scores,
               query, 1, group.dkey.at(block.key, 0));
    if (group.dquery.data)
      multiply({false, false, q, call.width, k, k, group.key.rowStep, group.dquery.rowStep}, call.scale, buffers.scores,
               key, 1, group.dquery.at(block.query, head));
  }

  /// `buffer` moves on by what was used of it.
  static Side<const float> read(const Launch &launch, const RowIn &in, const Layout &layout, const Group &group,
                                float *&buffer) {
    if (in.native)
      return {launch.at<const float>(in.operand) + layout.offset(group.batch, 0, group.index),
              layout.all * layout.width, layout.width};
    int64_t line = layout.own * layout.width;
    for (int64_t row = 0; row < layout.rows; ++row)
      in.at(launch, layout.offset(group.batch, row, group.index), line, buffer + row * line);
    return {std::exchange(buffer, buffer + layout.elements()), line, layout.width};
  }

  /// Zeros, or what is added to.
  static Side<float> open(const Launch &launch, const RowOut &out, const Layout &layout, const Group &group,
                          float *&buffer) {
    if (!out.present)
      return {};
    int64_t line = layout.own * layout.width;
    Side<float> side{buffer, line, layout.width};
    if (out.native)
      side = {launch.at<float>(out.operand) + layout.offset(group.batch, 0, group.index), layout.all * layout.width,
              layout.width};
    else
      buffer += layout.elements();
    for (int64_t row = 0; row < layout.rows && !out.adds(launch); ++row)
      std::fill(side.at(row, 0), side.at(row, 0) + line, 0.0f);
    return side;
  }

  static void close(const Launch &launch, const RowOut &out, const Layout &layout, const Group &group,
                    const Side<float> &side) {
    for (int64_t row = 0; row < layout.rows && out.present && !out.native; ++row)
      out.finish(launch, layout.offset(group.batch, row, group.index), layout.own * layout.width, side.at(row, 0));
  }

  /// Floats that `read` and `open` take of the buffer.
  int64_t bufferSize() const {
    auto size = [](bool native, const Layout &layout) { return native ? 0 : layout.elements(); };
    const bool direct = call.narrow; // those are only multiplied
    return size(gradient.native, outputLayout()) + size(call.query.native || direct, queryLayout()) +
           size(call.key.native || direct, keyLayout()) + size(call.value.native || direct, valueLayout()) +
           size(output.native, outputLayout()) + size(dquery.native, queryLayout()) + size(dkey.native, keyLayout()) +
           size(dvalue.native, valueLayout());
  }

  /// Floats that compute() takes: three blocks of scores, a line of the bias, a rounded block, and what is widened.
  int64_t groupFloats() const { return 3 * kQ * kK + call.lineFloats() + roundedFloats() + bufferSize(); }
  int64_t roundedFloats() const { return call.narrow ? kQ * kK / 2 : 0; }

  /// Everything of one group.
  void compute(const Launch &launch, Group group, float *scratch) const {
    Buffers buffers{scratch, scratch + kQ * kK, scratch + 2 * kQ * kK, scratch + 3 * kQ * kK, nullptr};
    float *buffer = buffers.line + call.lineFloats();
    buffers.rounded = reinterpret_cast<Bf16 *>(std::exchange(buffer, buffer + roundedFloats()));
    group.gradient = read(launch, gradient, outputLayout(), group, buffer);
    if (!call.narrow) {
      group.query = read(launch, call.query, queryLayout(), group, buffer);
      group.key = read(launch, call.key, keyLayout(), group, buffer);
      group.value = read(launch, call.value, valueLayout(), group, buffer);
    }
    group.output = read(launch, output, outputLayout(), group, buffer);
    group.dquery = open(launch, dquery, queryLayout(), group, buffer);
    group.dkey = open(launch, dkey, keyLayout(), group, buffer);
    group.dvalue = open(launch, dvalue, valueLayout(), group, buffer);
    for (int64_t key = 0; key < call.keys; key += kK)
      for (int64_t h = group.firstHead; h < group.firstHead + call.headsOfGroup(); ++h)
        for (int64_t query = 0; query < call.queries; query += kQ) {
          ScoreBlock block{
              group.batch, h, query, std::min(kQ, call.queries - query), key, std::min(kK, call.keys - key)};
          block.keys = std::min(block.keys, call.hull(query, block.queries).end - key); // those behind have no slope
          if (block.keys > 0 && call.anySeen(block))
            call.narrow ? narrowPair(launch, group, block, buffers) : pair(launch, group, block, buffers);
        }
    close(launch, dquery, queryLayout(), group, group.dquery);
    close(launch, dkey, keyLayout(), group, group.dkey);
    close(launch, dvalue, valueLayout(), group, group.dvalue);
  }

  /// Floats of a task: a group's, and the task's part of dbias.
  int64_t scratchFloats() const {
    return std::max(groupFloats() + (dbias.native ? 0 : biasPart(0, 0).elements), 2 * call.valueWidth);
  }

  Scratch scratch() const {
    int64_t widest = std::max(call.width, call.valueWidth);
    return {.own = sizeof(float) * static_cast<uint64_t>(scratchFloats()),
            .library = std::max({libraryScratch(kQ, kK, widest), libraryScratch(kK, widest, kQ),
                                 libraryScratch(kQ, widest, kK)})};
  }

  /// A sink weighs no value, so that its gradient is that of a probability times what all probabilities share.
  void sendSinkBack(const Launch &launch, int64_t head) const {
    float ownSink = 0, *buffers = ThreadPool::scratchOf<float>(scratchFloats());
    const float sink = *call.sink.at(launch, head, 1, &ownSink), *lse = launch.at<const float>(call.at.logsumexp);
    double total = 0;
    for (int64_t b = 0; b < call.batch; ++b)
      for (int64_t q = 0; q < call.queries; ++q) {
        int64_t place = ((b * call.queries + q) * call.heads + head) * call.valueWidth;
        double delta = vec::dot(gradient.at(launch, place, call.valueWidth, buffers),
                                output.at(launch, place, call.valueWidth, buffers + call.valueWidth), call.valueWidth);
        total -= static_cast<double>(std::exp(sink - lse[(b * call.heads + head) * call.queries + q])) * delta;
      }
    float *out = dsink.place(launch, head, &ownSink);
    *out = static_cast<float>(total) + (dsink.adds(launch) ? *out : 0);
    dsink.finish(launch, head, 1, out);
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(call.checkPlaces(launch));
    sendGroupsBack(launch);
    if (dsink.present)
      launch.pool.parallelFor(call.heads, [&](int64_t head) { sendSinkBack(launch, head); });
    return {};
  }

  /// Tasks: batch rows by groups, or, where a dbias is shared among them, those that share nothing.
  void sendGroupsBack(const Launch &launch) const {
    int64_t batchTasks = dbias.present && call.biasDims[0] == 1 ? 1 : call.batch;
    int64_t groupTasks = dbias.present && call.biasDims[1] == 1 ? 1 : call.groups;
    launch.pool.parallelFor(batchTasks * groupTasks, [&](int64_t task) {
      int64_t b0 = task / groupTasks, g0 = task % groupTasks;
      int64_t b1 = batchTasks == 1 ? call.batch : b0 + 1, g1 = groupTasks == 1 ? call.groups : g0 + 1;
      BiasPart part = biasPart(b0, g0);
      float *scratch = ThreadPool::scratchOf<float>(scratchFloats());
      float *sums = dbias.present ? dbias.place(launch, part.first, scratch + groupFloats()) : nullptr;
      if (sums && !dbias.adds(launch))
        std::fill(sums, sums + part.elements, 0.0f);
      for (int64_t b = b0; b < b1; ++b)
        for (int64_t g = g0; g < g1; ++g)
          compute(launch,
                  {.batch = b,
                   .index = g,
                   .firstHead = g * call.headsOfGroup(),
                   .gradient = {},
                   .query = {},
                   .key = {},
                   .value = {},
                   .output = {},
                   .dquery = {},
                   .dkey = {},
                   .dvalue = {},
                   .dbias = sums,
                   .dbiasOrigin = part.first},
                  scratch);
      dbias.finish(launch, part.first, part.elements, sums);
    });
  }

  /// The part of dbias that a task owns: elements that lie together.
  struct BiasPart {
    int64_t first = 0, elements = 0;
  };
  BiasPart biasPart(int64_t b, int64_t g) const {
    if (!dbias.present)
      return {};
    bool shared = call.biasDims[1] == 1;
    int64_t head = call.biasDims[2] * call.biasDims[3], heads = shared ? 1 : call.headsOfGroup();
    return {(b * call.biasDims[1] + (shared ? 0 : g * heads)) * head, heads * head};
  }
};

} // namespace

Result<Run> prepareAttentionGrad(const Signature &call) {
  return Run(AttentionGrad(call));
}

} // namespace mt::kernels::cpu
