// attention_grad: blocks of keys against blocks of queries, probabilities recomputed from the logsumexp (Dao, arXiv
// 2307.08691, algorithm 2). Keys and queries of a group of heads are cut into as many stripes each, and in every round
// each stripe of keys meets another one of queries: no two tasks of a round add to the same gradient, and the order of
// sums is that of the rounds. Where that takes no longer, a thread
// has all stripes of one group, in that order. What is not f32 is widened for a task, but where units of the processor
// multiply bf16, and gradients are summed in f32 and rounded once. Where keys are few, or a bias wants its gradient, a
// task has all stripes of its group.
#include "kernels/cpu/AttentionGrad.h"

#include "kernels/Blocks.h"
#include "kernels/cpu/Bf16Panels.h"
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
  int64_t line() const { return own * width; } ///< elements of a group in a row
  int64_t offset(int64_t batch, int64_t row, int64_t group) const {
    return ((batch * rows + row) * all + group * own) * width;
  }
};

struct AttentionGrad {
  AttentionCall call;
  RowIn gradient, output;
  RowOut dquery, dkey, dvalue, dbias, dsink;
  Chunks queryStripes, keyStripes;

  explicit AttentionGrad(const Signature &signature)
      : call(signature, true), gradient(signature, AttentionOperands::kGradient), output(signature, call.at.output),
        dquery(signature, call.at.dquery), dkey(signature, call.at.dkey), dvalue(signature, call.at.dvalue),
        dbias(signature, call.at.dbias), dsink(signature, call.at.dsink),
        queryStripes(call.queries, dbias.present ? 1 : AttentionStripes::of(call.keys), kQ),
        keyStripes(call.keys, dbias.present ? 1 : AttentionStripes::of(call.keys), kK) {
    call.narrow = call.narrow && signature.operands[AttentionOperands::kGradient].type == DType::bf16;
  }

  Group groupOf(int64_t batch, int64_t index) const { return {batch, index, index * call.headsOfGroup()}; }

  struct Buffers {
    float *probabilities, *scores, *capped; ///< [queries, keys] each
    float *line;                            ///< of a bias by place
  };

  Layout queryLayout() const { return {call.queries, call.heads, call.headsOfGroup(), call.width}; }
  Layout outputLayout() const { return {call.queries, call.heads, call.headsOfGroup(), call.valueWidth}; }
  Layout keyLayout() const { return {call.keys, call.groups, 1, call.width}; }
  Layout valueLayout() const { return {call.keys, call.groups, 1, call.valueWidth}; }

  void pair(const Launch &launch, const Group &group, const ScoreBlock &block, const Buffers &buffers) const {
    int64_t q = block.queries, k = block.keys, head = block.head - group.firstHead;
    const float *back = group.gradient.at(block.query, head), *query = group.query.at(block.query, head);
    const float *key = group.key.at(block.key, 0), *value = group.value.at(block.key, 0);
    call.multiplyScores(block, {query, group.query.rowStep}, {key, group.key.rowStep}, buffers.probabilities);
    call.finishScores(launch, block, buffers.probabilities, buffers.capped, buffers.line);
    multiply({false, true, q, k, call.valueWidth, group.gradient.rowStep, group.value.rowStep, block.step}, 1, back, value,
             0, buffers.scores);
    sendBlockBack(call, launch, group, block, buffers.probabilities, 1, buffers.capped, buffers.scores);
    if (group.dvalue.data)
      multiply({true, false, k, call.valueWidth, q, block.step, group.gradient.rowStep, group.dvalue.rowStep}, 1,
               buffers.probabilities, back, 1, group.dvalue.at(block.key, 0));
    if (group.dkey.data)
      multiply({true, false, k, call.width, q, block.step, group.query.rowStep, group.dkey.rowStep}, call.scale,
               buffers.scores, query, 1, group.dkey.at(block.key, 0));
    if (group.dquery.data)
      multiply({false, false, q, call.width, k, block.step, group.key.rowStep, group.dquery.rowStep}, call.scale,
               buffers.scores, key, 1, group.dquery.at(block.query, head));
  }

  /// Of all heads, in the order in which they lie.
  void fillDeltas(const Launch &launch) const {
    const int64_t blocks = ceilDivide(call.queries, kQ);
    launch.pool.parallelFor(call.batch * blocks, [&](int64_t chunk) {
      float *rows = ThreadPool::scratchOf<float>(scratchFloats());
      const int64_t batch = chunk / blocks, begin = chunk % blocks * kQ, end = std::min(begin + kQ, call.queries);
      for (int64_t q = begin; q < end; ++q)
        for (int64_t head = 0; head < call.heads; ++head)
          deltasOf(call, launch, batch, head)[q] = static_cast<float>(delta(launch, batch, q, head, rows));
    });
  }

  double delta(const Launch &launch, int64_t batch, int64_t query, int64_t head, float *rows) const {
    const int64_t place = ((batch * call.queries + query) * call.heads + head) * call.valueWidth;
    return vec::dot(gradient.at(launch, place, call.valueWidth, rows),
                    output.at(launch, place, call.valueWidth, rows + call.valueWidth), call.valueWidth);
  }

  /// `buffer` moves on by what was used of it.
  static Side<const float> read(const Launch &launch, const RowIn &in, const Layout &layout, const Group &group,
                                RowRange rows, float *&buffer) {
    if (in.native)
      return {launch.at<const float>(in.operand) + layout.offset(group.batch, 0, group.index), 0,
              layout.all * layout.width, layout.width};
    const int64_t line = layout.line();
    for (int64_t row = rows.begin; row < rows.end; ++row)
      in.at(launch, layout.offset(group.batch, row, group.index), line, buffer + (row - rows.begin) * line);
    return {std::exchange(buffer, buffer + (rows.end - rows.begin) * line), rows.begin, line, layout.width};
  }

  /// Where a group's gradient is summed: in place, or where `sums` has those of batch rows from `first` on.
  static Side<float> sumsOf(const Launch &launch, const RowOut &out, const Layout &layout, const Group &group,
                            float *sums, int64_t first) {
    if (!out.present)
      return {};
    float *data = out.native ? launch.at<float>(out.operand) + layout.offset(group.batch, 0, group.index)
                             : sums + layout.offset(group.batch - first, 0, group.index);
    return {data, 0, layout.all * layout.width, layout.width};
  }

  /// Zeros, or what is added to.
  static void open(const Launch &launch, const RowOut &out, const Layout &layout, const Side<float> &side,
                   RowRange rows) {
    for (int64_t row = rows.begin; row < rows.end && out.present && !out.adds(launch); ++row)
      std::fill_n(side.at(row, 0), layout.line(), 0.0f);
  }

  static void close(const Launch &launch, const RowOut &out, const Layout &layout, const Group &group,
                    const Side<float> &side, RowRange rows) {
    for (int64_t row = rows.begin; row < rows.end && out.present && !out.native; ++row)
      out.finish(launch, layout.offset(group.batch, row, group.index), layout.line(), side.at(row, 0));
  }

  /// Floats that a task takes: three blocks of scores, a line of the bias and what is widened, or what narrow ones take;
  /// at other times two rows.
  int64_t taskFloats() const {
    if (call.narrow)
      return std::max(static_cast<int64_t>(narrowGradBytes(call) / sizeof(float)), 2 * call.valueWidth);
    auto size = [](bool inPlace, const Layout &layout, int64_t rows) { return inPlace ? 0 : rows * layout.line(); };
    const int64_t widened = size(gradient.native, outputLayout(), queryStripes.size) +
                            size(call.query.native, queryLayout(), queryStripes.size) +
                            size(call.key.native, keyLayout(), keyStripes.size) +
                            size(call.value.native, valueLayout(), keyStripes.size);
    return std::max(3 * kQ * kK + call.lineFloats() + widened, 2 * call.valueWidth);
  }
  /// Floats of the sums of a group that are not in place.
  int64_t sumFloats() const {
    return (dquery.native ? 0 : call.queries * queryLayout().line()) +
           (dkey.native ? 0 : call.keys * keyLayout().line()) + (dvalue.native ? 0 : call.keys * valueLayout().line());
  }

  /// What keys of one stripe and queries of another are to each other.
  void compute(const Launch &launch, Group group, RowRange keys, RowRange queries, float *scratch) const {
    if (call.narrow)
      return computeNarrow(call, launch, group, keys, queries, reinterpret_cast<std::byte *>(scratch));
    Buffers buffers{scratch, scratch + kQ * kK, scratch + 2 * kQ * kK, scratch + 3 * kQ * kK};
    float *buffer = buffers.line + call.lineFloats();
    group.gradient = read(launch, gradient, outputLayout(), group, queries, buffer);
    group.query = read(launch, call.query, queryLayout(), group, queries, buffer);
    group.key = read(launch, call.key, keyLayout(), group, keys, buffer);
    group.value = read(launch, call.value, valueLayout(), group, keys, buffer);
    for (int64_t key = keys.begin; key < keys.end; key += kK)
      for (int64_t h = group.firstHead; h < group.firstHead + call.headsOfGroup(); ++h)
        for (int64_t query = queries.begin; query < queries.end; query += kQ) {
          ScoreBlock block{group.batch, h, query, std::min(kQ, queries.end - query), key, std::min(kK, keys.end - key), 0};
          block.keys = std::min(block.keys, call.hull(query, block.queries).end - key); // those behind have no slope
          block.step = padded(block.keys);
          if (block.keys > 0 && call.anySeen(block))
            pair(launch, group, block, buffers);
        }
  }

  bool anySeen(RowRange keys, RowRange queries) const {
    const RowRange hull = call.hull(queries.begin, queries.end - queries.begin);
    return hull.begin < keys.end && keys.begin < hull.end;
  }

  /// Floats of a thread: a task's, and, where it may have whole groups, their sums and its part of dbias.
  int64_t scratchFloats() const {
    return taskFloats() + (mayBeInGroups() ? sumFloats() + (dbias.native ? 0 : biasPart(0, 0).elements) : 0);
  }

  Scratch scratch() const {
    int64_t widest = std::max(call.width, call.valueWidth);
    return {.own = sizeof(float) * static_cast<uint64_t>(scratchFloats()),
            .library = call.narrow ? 0
                                   : std::max({libraryScratch(kQ, kK, widest), libraryScratch(kK, widest, kQ),
                                               libraryScratch(kQ, widest, kK)})};
  }

  /// A sink weighs no value, so that its gradient is that of a probability times what all probabilities share.
  void sendSinkBack(const Launch &launch, int64_t head) const {
    float ownSink = 0, *rows = ThreadPool::scratchOf<float>(scratchFloats());
    const float sink = *call.sink.at(launch, head, 1, &ownSink), *lse = launch.at<const float>(call.at.logsumexp);
    double total = 0;
    for (int64_t b = 0; b < call.batch; ++b)
      for (int64_t q = 0; q < call.queries; ++q)
        total -= static_cast<double>(std::exp(sink - lse[(b * call.heads + head) * call.queries + q])) *
                 delta(launch, b, q, head, rows);
    float *out = dsink.place(launch, head, &ownSink);
    *out = static_cast<float>(total) + (dsink.adds(launch) ? *out : 0);
    dsink.finish(launch, head, 1, out);
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(call.checkPlaces(launch));
    fillDeltas(launch);
    if (inGroups(launch.pool))
      sendGroupsBack(launch);
    else
      sendStripesBack(launch);
    if (dsink.present)
      launch.pool.parallelFor(call.heads, [&](int64_t head) { sendSinkBack(launch, head); });
    return {};
  }

  int64_t stripes() const { return std::max(keyStripes.count, queryStripes.count); }
  static RowRange stripe(const Chunks &chunks, int64_t i) {
    return i < chunks.count ? RowRange{chunks.begin(i), chunks.end(i)} : RowRange{0, 0};
  }
  /// Whether a thread may have all stripes of a group: its sums stay in a cache.
  bool mayBeInGroups() const {
    constexpr int64_t kSums = 1 << 19;
    return stripes() == 1 || sumFloats() <= kSums;
  }
  /// Whether each does, which takes no longer. No bit depends on it.
  bool inGroups(const ThreadPool &pool) const {
    constexpr double kApart = 1.75; // what stripes take, with threads that wait for a round's last, over what groups do
    const int64_t groups = call.batch * call.groups, busy = ceilDivide(groups, pool.threads()) * pool.threads();
    return stripes() == 1 || (mayBeInGroups() && static_cast<double>(busy) <= kApart * static_cast<double>(groups));
  }
  void computeRound(const Launch &launch, const Group &group, int64_t round, int64_t i, float *scratch) const {
    const RowRange keys = stripe(keyStripes, i), queries = stripe(queryStripes, (i + round) % stripes());
    if (!keys.empty() && !queries.empty() && anySeen(keys, queries))
      compute(launch, group, keys, queries, scratch);
  }

  /// So many batch rows at a time that there are tasks for many threads, whose sums are not too many.
  void sendStripesBack(const Launch &launch) const {
    const int64_t stripes = this->stripes();
    const int64_t together = AttentionStripes::together(call.batch, call.groups, call.keys);
    float *dquerySums = static_cast<float *>(launch.operands.back()) + call.batch * call.heads * call.queries;
    float *dkeySums =
        dquerySums + (dquery.present && !dquery.native ? together * call.queries * call.heads * call.width : 0);
    float *dvalueSums = dkeySums + (dkey.present && !dkey.native ? together * call.keys * call.groups * call.width : 0);
    for (int64_t first = 0; first < call.batch; first += together) {
      auto each = [&](const auto &body) {
        const int64_t rows = std::min(together, call.batch - first);
        launch.pool.parallelFor(rows * call.groups * stripes, [&](int64_t task) {
          Group group = groupOf(first + task / call.groups % rows, task % call.groups);
          group.dquery = sumsOf(launch, dquery, queryLayout(), group, dquerySums, first);
          group.dkey = sumsOf(launch, dkey, keyLayout(), group, dkeySums, first);
          group.dvalue = sumsOf(launch, dvalue, valueLayout(), group, dvalueSums, first);
          body(group, task / call.groups / rows);
        });
      };
      each([&](const Group &group, int64_t i) {
        const RowRange keys = stripe(keyStripes, i), queries = stripe(queryStripes, i);
        open(launch, dquery, queryLayout(), group.dquery, queries);
        open(launch, dkey, keyLayout(), group.dkey, keys);
        open(launch, dvalue, valueLayout(), group.dvalue, keys);
      });
      for (int64_t round = 0; round < stripes; ++round)
        each([&](const Group &group, int64_t i) {
          computeRound(launch, group, round, i, ThreadPool::scratchOf<float>(scratchFloats()));
        });
      if (!dquery.native || !dkey.native || !dvalue.native)
        each([&](const Group &group, int64_t i) {
          closeAll(launch, group, stripe(keyStripes, i), stripe(queryStripes, i));
        });
    }
  }

  void closeAll(const Launch &launch, const Group &group, RowRange keys, RowRange queries) const {
    close(launch, dquery, queryLayout(), group, group.dquery, queries);
    close(launch, dkey, keyLayout(), group, group.dkey, keys);
    close(launch, dvalue, valueLayout(), group, group.dvalue, keys);
  }

  /// All of a group by one thread, which has room for its sums.
  void sendBack(const Launch &launch, Group group, float *scratch) const {
    const RowRange keys{0, call.keys}, queries{0, call.queries};
    float *sums = scratch + taskFloats();
    auto place = [&](const RowOut &out, const Layout &layout) -> Side<float> {
      if (!out.present || out.native)
        return sumsOf(launch, out, layout, group, nullptr, 0);
      return {std::exchange(sums, sums + layout.rows * layout.line()), 0, layout.line(), layout.width};
    };
    group.dquery = place(dquery, queryLayout()), group.dkey = place(dkey, keyLayout()),
    group.dvalue = place(dvalue, valueLayout());
    open(launch, dquery, queryLayout(), group.dquery, queries);
    open(launch, dkey, keyLayout(), group.dkey, keys);
    open(launch, dvalue, valueLayout(), group.dvalue, keys);
    for (int64_t round = 0; round < stripes(); ++round)
      for (int64_t i = 0; i < stripes(); ++i)
        computeRound(launch, group, round, i, scratch);
    closeAll(launch, group, keys, queries);
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
      float *sums = dbias.present ? dbias.place(launch, part.first, scratch + taskFloats() + sumFloats()) : nullptr;
      if (sums && !dbias.adds(launch))
        std::fill(sums, sums + part.elements, 0.0f);
      for (int64_t b = b0; b < b1; ++b)
        for (int64_t g = g0; g < g1; ++g) {
          Group group = groupOf(b, g);
          group.dbias = sums, group.dbiasOrigin = part.first;
          sendBack(launch, group, scratch);
        }
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

void addToBias(const AttentionCall &call, const Launch &launch, const Group &group, const ScoreBlock &block, int64_t row,
               const float *slopes) {
  if (!call.hasPlaces)
    return vec::add(slopes, group.dbias + (call.biasOffset(block, row) - group.dbiasOrigin), block.keys);
  float *line = group.dbias + (call.lineOffset(block) - group.dbiasOrigin);
  call.forEachPlace(launch, block, row, [&](int64_t k, int64_t entry) { line[entry] += slopes[k]; });
}

void sendThroughCap(float cap, const float *capped, int64_t count, float *slopes) {
  const float inverse = 1 / cap;
  for (int64_t i = 0; i < count; ++i) {
    const float share = capped[i] * inverse;
    slopes[i] *= 1 - share * share;
  }
}

} // namespace

float *deltasOf(const AttentionCall &call, const Launch &launch, int64_t batch, int64_t head) {
  return static_cast<float *>(launch.operands.back()) + (batch * call.heads + head) * call.queries;
}

void sendBlockBack(const AttentionCall &call, const Launch &launch, const Group &group, const ScoreBlock &block, float *scores,
              float scale, const float *capped, float *slopes) {
  RowRange seen[AttentionCall::kQueries];
  const float *lse = launch.at<const float>(call.at.logsumexp) + (block.batch * call.heads + block.head) * call.queries;
  sendBackScores(call.rowsOf(block, scores, seen), scale, lse + block.query,
                 deltasOf(call, launch, block.batch, block.head) + block.query, slopes);
  for (int64_t row = 0; row < block.queries; ++row) {
    float *line = slopes + row * block.step;
    if (group.dbias)
      addToBias(call, launch, group, block, row, line);
    if (call.cap > 0)
      sendThroughCap(call.cap, capped + row * block.step, block.keys, line);
  }
}

Result<Run> prepareAttentionGrad(const Signature &call) {
  return Run(AttentionGrad(call));
}

} // namespace mt::kernels::cpu
