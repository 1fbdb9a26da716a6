// Cuts a call of attention as the catalogue says and runs the graph of each part: batch rows, groups of heads, heads of
// a group, blocks of queries. Where heads of a group or queries are cut, keys' and values' gradients of the parts are
// rounded to 16 bits by the graph, as it does itself between heads of a group, and summed in 32 bits in one order.
#include "kernels/cuda/GraphAttention.h"

#include "kernels/AttentionOperands.h"
#include "kernels/Visibility.h"
#include "kernels/cuda/CastElements.h"
#include "kernels/cuda/Dnn.h"
#include "kernels/cuda/Family.h"
#include "kernels/cuda/ScoreRows.h"
#include "kernels/cuda/Scratch.h"

#include <algorithm>

namespace mt::kernels::cuda {

std::vector<GraphPart> graphParts(const Signature &call, const FusedAttention &cut) {
  const AttentionBlocks shape = AttentionBlocks::of(call);
  const AttentionOperands at(shape.gradient);
  const Visibility seen = Visibility::of(call, shape.keys);
  const bool bandLeft = seen.hidesEarly(shape.queries), bandRight = seen.hidesLate();
  AttentionGraph graph = {.type = shape.type,
                          .gradient = shape.gradient,
                          .statistics = !shape.gradient &&
                                        (call.operands[at.logsumexp].present || call.operands[at.sink].present),
                          .scale = static_cast<float>(call.real("scale")),
                          .rows = cut.rows,
                          .heads = cut.heads * cut.groups,
                          .groups = cut.groups,
                          .width = shape.width,
                          .valueWidth = shape.valueWidth,
                          .allHeads = shape.heads,
                          .allGroups = shape.groups,
                          .allQueries = shape.queries,
                          .allKeys = shape.keys,
                          .apart = cut.sums()};
  std::vector<GraphPart> parts;
  for (int64_t query = 0; query < shape.queries; query += cut.queries) {
    GraphPart &part = parts.emplace_back(GraphPart{query, 0, graph});
    part.graph.queries = std::min(cut.queries, shape.queries - query), part.graph.keys = shape.keys;
    if (cut.queries < shape.queries) { // the keys it sees, and to the next multiple of 128 such as it does not
      KeyInterval hull = seen.hull(query, part.graph.queries);
      int64_t end = bandRight ? hull.end : shape.keys;
      part.key = bandLeft ? hull.begin : 0;
      part.graph.keys = std::min(shape.keys - part.key, ceilDivide(end - part.key, 128) * 128);
    }
    const int64_t offset = seen.offset + query - part.key;
    if (bandLeft)
      part.graph.left = seen.high - offset + 1;
    if (bandRight)
      part.graph.right = offset - seen.low;
  }
  return parts;
}

namespace {

struct GraphAttention {
  AttentionBlocks shape;
  AttentionOperands operand;
  DType sinkType, dsinkType;
  FusedAttention cut;
  std::vector<GraphPart> parts;
  std::vector<GraphRun> graphs; ///< of the parts
  Run adding;

  struct Buffers {
    void *library;
    float *keySums, *valueSums;
    void *keyPart, *valuePart;
    float *logsumexp, *deltas;
  };

  /// The address of an element of an operand of the call's type.
  void *place(const Launch &launch, size_t operand, int64_t element) const {
    return launch.at<char>(operand) + element * static_cast<int64_t>(byteSize(shape.type));
  }

  /// Addresses of a part that begins at a batch row, a group of heads and a head of it.
  GraphAddresses addresses(const Launch &launch, const GraphPart &part, int64_t b, int64_t group, int64_t headOfGroup,
                           const Buffers &in) const {
    const AttentionBlocks &s = shape;
    int64_t head = s.heads / s.groups * group + headOfGroup;
    auto ofQuery = [&](size_t operand, int64_t width) {
      return place(launch, operand, ((b * s.queries + part.query) * s.heads + head) * width);
    };
    auto ofKey = [&](size_t operand, int64_t width) {
      return place(launch, operand, ((b * s.keys + part.key) * s.groups + group) * width);
    };
    void *statistic = in.logsumexp ? in.logsumexp + (b * s.heads + head) * s.queries + part.query : nullptr;
    void *query = ofQuery(operand.query, s.width), *key = ofKey(operand.key, s.width),
         *value = ofKey(operand.value, s.valueWidth), *output = ofQuery(operand.output, s.valueWidth);
    if (!s.gradient)
      return {query, key, value, output, part.graph.statistics ? statistic : nullptr};
    return {query,
            key,
            value,
            output,
            statistic,
            ofQuery(AttentionOperands::kGradient, s.valueWidth),
            ofQuery(operand.dquery, s.width),
            part.graph.apart ? in.keyPart : ofKey(operand.dkey, s.width),
            part.graph.apart ? in.valuePart : ofKey(operand.dvalue, s.valueWidth)};
  }

  static Status add(const Launch &launch, const GraphPart &part, const void *from, float *sums, int64_t width) {
    return castElements(launch.stream, from, part.graph.type, sums + part.key * width, DType::f32,
                        part.graph.keys * width, true);
  }
  /// Sums of a group's keys or values become its columns of the operand.
  Status settle(const Launch &launch, const float *sums, void *part, void *to, int64_t width) const {
    const bool alone = shape.groups == 1;
    MT_TRY(castElements(launch.stream, sums, DType::f32, alone ? to : part, shape.type, shape.keys * width, false));
    if (alone)
      return {};
    const uint64_t line = static_cast<uint64_t>(width) * byteSize(shape.type);
    MT_TRY(launch.stream.launching(1));
    return check(cudaMemcpy2DAsync(to, static_cast<uint64_t>(shape.groups) * line, part, line, line,
                                   static_cast<uint64_t>(shape.keys), cudaMemcpyDeviceToDevice, launch.stream),
                 "moving gradients of keys");
  }

  /// All parts of some groups of heads.
  Status runGroups(const Launch &launch, int64_t b, int64_t group, const Buffers &in) const {
    if (cut.sums()) {
      MT_TRY(clearBytes(launch.stream, in.keySums, cut.keySums));
      MT_TRY(clearBytes(launch.stream, in.valueSums, cut.valueSums));
    }
    for (int64_t head = 0; head < shape.heads / shape.groups; head += cut.heads)
      for (size_t i = 0; i < parts.size(); ++i) {
        MT_TRY(graphs[i](launch.stream, addresses(launch, parts[i], b, group, head, in), in.library));
        if (cut.sums()) {
          MT_TRY(add(launch, parts[i], in.keyPart, in.keySums, shape.width));
          MT_TRY(add(launch, parts[i], in.valuePart, in.valueSums, shape.valueWidth));
        }
      }
    if (!cut.sums())
      return {};
    const int64_t first = b * shape.keys * shape.groups + group;
    MT_TRY(settle(launch, in.keySums, in.keyPart, place(launch, operand.dkey, first * shape.width), shape.width));
    return settle(launch, in.valueSums, in.valuePart, place(launch, operand.dvalue, first * shape.valueWidth),
                  shape.valueWidth);
  }

  /// What the graph leaves out: it knows no sinks, and needs none for gradients, where the logsumexp has it.
  Status settleSink(const Launch &launch, const Buffers &in) const {
    void *sink = launch.operands[operand.sink];
    if (!shape.gradient)
      return foldSink(launch.stream, {.sink = sink,
                                      .sinkType = sinkType,
                                      .logsumexp = in.logsumexp,
                                      .output = launch.operands[operand.output],
                                      .type = shape.type,
                                      .batch = shape.batch,
                                      .queries = shape.queries,
                                      .heads = shape.heads,
                                      .width = shape.valueWidth});
    if (!launch.operands[operand.dsink])
      return {};
    const int64_t row = shape.queries * shape.heads;
    for (int64_t b = 0; b < shape.batch; ++b)
      MT_TRY(rowProducts(launch.stream, place(launch, AttentionOperands::kGradient, b * row * shape.valueWidth),
                         place(launch, operand.output, b * row * shape.valueWidth), shape.type, shape.queries,
                         shape.heads, shape.valueWidth, in.deltas + b * row));
    return addSinkSlopes(launch.stream, {.sink = sink,
                                         .sinkType = sinkType,
                                         .logsumexp = in.logsumexp,
                                         .deltas = in.deltas,
                                         .dsink = launch.operands[operand.dsink],
                                         .dsinkType = dsinkType,
                                         .adds = launch.accumulates(operand.dsink),
                                         .batch = shape.batch,
                                         .heads = shape.heads,
                                         .queries = shape.queries});
  }

  /// Whether the launch adds to what the graph replaces.
  bool isAdding(const Launch &launch) const {
    if (!shape.gradient)
      return launch.accumulates(operand.output);
    return launch.accumulates(operand.dquery) || launch.accumulates(operand.dkey) || launch.accumulates(operand.dvalue);
  }

  bool isAligned(const Launch &launch) const {
    const auto are = [&](std::initializer_list<size_t> operands) {
      return std::ranges::all_of(operands, [&](size_t i) { return isGraphAligned(launch.operands[i]); });
    };
    return are({operand.query, operand.key, operand.value, operand.output}) &&
           (!shape.gradient || are({AttentionOperands::kGradient, operand.dquery, operand.dkey, operand.dvalue}));
  }

  Status operator()(const Launch &launch) const {
    if (isAdding(launch) || !isAligned(launch))
      return adding(launch);
    Scratch scratch(launch.operands.back());
    Buffers in = {};
    in.library = scratch.take(cut.library);
    in.keySums = scratch.take<float>(cut.keySums), in.valueSums = scratch.take<float>(cut.valueSums);
    in.keyPart = scratch.take(cut.keyPart), in.valuePart = scratch.take(cut.valuePart);
    auto *ofSink = scratch.take<float>(cut.ofSink);
    in.logsumexp = launch.at<float>(operand.logsumexp), in.deltas = ofSink;
    if (!shape.gradient && ofSink)
      in.logsumexp = ofSink;
    for (int64_t b = 0; b < shape.batch; b += cut.rows)
      for (int64_t group = 0; group < shape.groups; group += cut.groups)
        MT_TRY(runGroups(launch, b, group, in));
    return launch.operands[operand.sink] ? settleSink(launch, in) : Status();
  }
};

/// The graph writes all of its results.
bool wantsAll(const Signature &call) {
  const bool gradient = call.kernel == "attention_grad";
  const AttentionOperands at(gradient);
  for (size_t operand : gradient ? std::vector<size_t>{at.dquery, at.dkey, at.dvalue} : std::vector<size_t>{at.output})
    if (!call.operands[operand].present)
      return false;
  return true;
}

Result<Run> prepareCut(const Signature &call, const FusedAttention &cut, Library &library, const Run &adding) {
  const AttentionBlocks shape = AttentionBlocks::of(call);
  const AttentionOperands at(shape.gradient);
  GraphAttention made{shape,
                      at,
                      call.operands[at.sink].type,
                      shape.gradient ? call.operands[at.dsink].type : DType::f32,
                      cut,
                      graphParts(call, cut),
                      {},
                      adding};
  for (const GraphPart &part : made.parts) {
    MT_ASSIGN(GraphRun run, prepareGraph(part.graph, cut.library, library));
    made.graphs.push_back(std::move(run));
  }
  return Run(std::move(made));
}

} // namespace

Result<Run> prepareGraphAttention(const Signature &call, Library &library, Run adding) {
  if (!wantsAll(call))
    return fail("cuDNN's attention writes all of its results, and not all are wanted");
  const FusedAttention cut = FusedAttention::of(call);
  if (cut.sums()) // where cuDNN needs no room for pairs, nothing need be cut and summed
    if (Result<Run> whole = prepareCut(call, FusedAttention::linear(call, cut), library, adding))
      return whole;
  return prepareCut(call, cut, library, adding);
}

} // namespace mt::kernels::cuda
