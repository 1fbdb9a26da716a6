// A block of queries against the keys it may see: scores by cuBLASLt, masked softmax, probabilities times values; back
// from the logsumexp (Dao, arXiv 2307.08691, without its blocks of keys). All groups of heads are one batch, heads of a
// group follow each other, so that sums over them have one order. Half of the products' rate is what it should reach.
#include "kernels/cuda/BlockAttention.h"

#include "kernels/AttentionOperands.h"
#include "kernels/cuda/Blas.h"
#include "kernels/cuda/CastElements.h"
#include "kernels/cuda/Family.h"
#include "kernels/cuda/ScoreRows.h"
#include "kernels/cuda/Scratch.h"

#include <algorithm>
#include <memory>

namespace mt::kernels::cuda {
namespace {

constexpr int64_t kKeyMultiple = 256;

/// A matrix of a product for one batch of groups: distances of rows and of groups.
struct Layout {
  int64_t line, step;
};
struct Layouts {
  Layout query, key, value, output, scores;
  explicit Layouts(const AttentionBlocks &s)
      : query{s.heads * s.width, s.heads / s.groups * s.width}, key{s.groups * s.width, s.width},
        value{s.groups * s.valueWidth, s.valueWidth}, output{s.heads * s.valueWidth, s.heads / s.groups * s.valueWidth},
        scores{s.line, s.heads / s.groups * s.rows * s.line} {}
};

ProductShape productOf(const AttentionBlocks &shape, int64_t m, int64_t n, int64_t k, Layout a, Layout b, Layout c) {
  ProductShape made{.m = m,
                    .n = n,
                    .k = k,
                    .lda = a.line,
                    .ldb = b.line,
                    .ldc = c.line,
                    .batches = shape.groups,
                    .stepA = a.step,
                    .stepB = b.step,
                    .stepC = c.step,
                    .type = shape.type};
  return made;
}

} // namespace

std::vector<QueryBlock> queryBlocks(const AttentionBlocks &shape, const Visibility &visibility) {
  std::vector<QueryBlock> blocks;
  for (int64_t query = 0; query < shape.queries; query += shape.rows) {
    int64_t queries = std::min(shape.rows, shape.queries - query);
    KeyInterval seen = visibility.hull(query, queries);
    int64_t key = seen.begin / kKeyMultiple * kKeyMultiple;
    int64_t end = std::min(shape.keys, ceilDivide(std::max<int64_t>(seen.end, 1), kKeyMultiple) * kKeyMultiple);
    blocks.push_back({query, queries, key, end - key});
  }
  return blocks;
}

ProductShape AttentionProducts::scores(const AttentionBlocks &s, const QueryBlock &b) {
  Layouts at(s);
  ProductShape made = productOf(s, b.queries, b.keys, s.width, at.query, at.key, at.scores);
  made.transposeB = true, made.result = DType::f32;
  return made;
}
ProductShape AttentionProducts::slopes(const AttentionBlocks &s, const QueryBlock &b) {
  Layouts at(s);
  ProductShape made = productOf(s, b.queries, b.keys, s.valueWidth, at.output, at.value, at.scores);
  made.transposeB = true, made.result = DType::f32;
  return made;
}
ProductShape AttentionProducts::result(const AttentionBlocks &s, const QueryBlock &b) {
  Layouts at(s);
  ProductShape made = productOf(s, b.queries, s.valueWidth, b.keys, at.scores, at.value, at.output);
  made.result = s.type;
  return made;
}
ProductShape AttentionProducts::dvalue(const AttentionBlocks &s, const QueryBlock &b) {
  Layouts at(s);
  ProductShape made = productOf(s, b.keys, s.valueWidth, b.queries, at.scores, at.output, at.value);
  made.transposeA = true, made.result = DType::f32;
  return made;
}
ProductShape AttentionProducts::dquery(const AttentionBlocks &s, const QueryBlock &b) {
  Layouts at(s);
  ProductShape made = productOf(s, b.queries, s.width, b.keys, at.scores, at.key, at.query);
  made.result = s.type;
  return made;
}
ProductShape AttentionProducts::dkey(const AttentionBlocks &s, const QueryBlock &b) {
  Layouts at(s);
  ProductShape made = productOf(s, b.keys, s.width, b.queries, at.scores, at.query, at.key);
  made.transposeA = true, made.result = DType::f32;
  return made;
}

namespace {

/// A block with its products; those that a call does not want are left as they are.
struct Step {
  QueryBlock at;
  Product scores, result, slopes, dvalue, dquery, dkey;
};

/// What both directions share: the call decoded, the blocks, places of operands.
struct BlockAttention {
  AttentionBlocks shape;
  Visibility visibility;
  AttentionOperands operand;
  float scale, cap, segmentBias;
  DType biasType, sinkType;
  std::array<bool, 4> wide = {};         ///< whether segments and places have 64 bits, in the order of the operands
  int64_t places = 0;                    ///< entries of a bias by place
  std::array<int64_t, 3> biasSteps = {}; ///< batch, head, query; 0 where shared
  int64_t firstBias = 0;                 ///< of the first query and key
  std::shared_ptr<const std::vector<Step>> steps;

  explicit BlockAttention(const Signature &call)
      : shape(AttentionBlocks::of(call)), visibility(Visibility::of(call, shape.keys)), operand(shape.gradient),
        scale(static_cast<float>(call.real("scale"))), cap(static_cast<float>(call.real("softCap"))),
        segmentBias(static_cast<float>(call.real("segmentBias"))), biasType(call.operands[operand.bias].type),
        sinkType(call.operands[operand.sink].type) {
    for (size_t i = 0; i < wide.size(); ++i)
      wide[i] = call.operands[operand.querySegment + i].type == DType::i64;
    const OperandType &bias = call.operands[operand.bias];
    int64_t step = bias.present ? bias.dims[3] : 0;
    for (size_t i = 3; bias.present && i-- > 0; step *= bias.dims[i])
      biasSteps[i] = bias.dims[i] == 1 ? 0 : step;
    if (call.operands[operand.keyPlace].present)
      places = bias.dims[3];
    else if (bias.present &&
             bias.dims[3] != shape.keys) // by distance: the line of the next query begins one entry earlier
      biasSteps[2] = -1, firstBias = shape.queries - 1;
  }

  int64_t share() const { return shape.heads / shape.groups; }
  /// The element `index` of an operand of the call's type.
  char *at(const Launch &launch, size_t operand, int64_t index) const {
    return offset(launch.operands[operand], index);
  }
  char *offset(void *base, int64_t index) const {
    return static_cast<char *>(base) + index * static_cast<int64_t>(byteSize(shape.type));
  }
  int64_t queryPlace(int64_t b, int64_t query, int64_t head) const {
    return ((b * shape.queries + query) * shape.heads + head) * shape.width;
  }
  int64_t outputPlace(int64_t b, int64_t query, int64_t head) const {
    return ((b * shape.queries + query) * shape.heads + head) * shape.valueWidth;
  }
  int64_t keyPlace(int64_t b, int64_t key) const { return (b * shape.keys + key) * shape.groups * shape.width; }
  int64_t valuePlace(int64_t b, int64_t key) const { return (b * shape.keys + key) * shape.groups * shape.valueWidth; }
  int64_t headScores(int64_t head) const { return head * shape.rows * shape.line; }

  /// All of a block but the buffers.
  ScoreBlock block(const Launch &launch, const QueryBlock &at, int64_t b) const {
    ScoreBlock made{.heads = shape.heads,
                    .query = at.query,
                    .queries = at.queries,
                    .key = at.key,
                    .keys = at.keys,
                    .line = shape.line,
                    .stride = shape.rows * shape.line,
                    .allQueries = shape.queries,
                    .visibility = visibility,
                    .cap = cap,
                    .type = shape.type};
    auto row = [&](size_t operand, int64_t elements, int64_t each) -> const void * {
      const char *base = launch.at<const char>(operand);
      return base ? base + b * elements * each : nullptr;
    };
    const auto biasBytes = static_cast<int64_t>(byteSize(biasType));
    const auto *bias = static_cast<const char *>(row(operand.bias, biasSteps[0], biasBytes));
    made.bias = bias ? bias + firstBias * biasBytes : nullptr;
    made.biasType = biasType, made.biasHead = biasSteps[1], made.biasQuery = biasSteps[2];
    made.keyMask = static_cast<const uint8_t *>(row(operand.keyMask, shape.keys, 1));
    auto wholes = [&](size_t which, int64_t each) {
      bool isWide = wide[which - operand.querySegment];
      return Wholes{row(which, each, isWide ? 8 : 4), isWide};
    };
    made.querySegment = wholes(operand.querySegment, shape.queries);
    made.keySegment = wholes(operand.keySegment, shape.keys);
    made.segmentBias = segmentBias;
    made.queryPlace = wholes(operand.queryPlace, 0), made.keyPlace = wholes(operand.keyPlace, 0), made.places = places;
    made.sink = launch.operands[operand.sink], made.sinkType = sinkType;
    return made;
  }

  /// scores = scale * query . key, of one head of every group after another.
  Status multiplyScores(const Launch &launch, const Step &step, int64_t b, float *scores, void *library) const {
    for (int64_t head = 0; head < share(); ++head)
      MT_TRY(step.scores.run(launch.stream, {.a = at(launch, operand.query, queryPlace(b, step.at.query, head)),
                                             .b = at(launch, operand.key, keyPlace(b, step.at.key)),
                                             .c = scores + headScores(head),
                                             .scratch = library,
                                             .alpha = scale}));
    return {};
  }
};

struct Forward : BlockAttention {
  Status operator()(const Launch &launch) const {
    Scratch scratch(launch.operands.back());
    float *scores = scratch.take<float>(shape.scores);
    void *narrow = scratch.take(shape.narrowScores), *library = scratch.take(shape.library);
    float *logsumexp = launch.at<float>(operand.logsumexp), beta = launch.accumulates(operand.output) ? 1.0f : 0.0f;
    for (int64_t b = 0; b < shape.batch; ++b)
      for (const Step &step : *steps) {
        MT_TRY(multiplyScores(launch, step, b, scores, library));
        ScoreBlock made = block(launch, step.at, b);
        made.scores = scores, made.probabilities = narrow ? narrow : scores;
        made.logsumexp = logsumexp ? logsumexp + b * shape.heads * shape.queries : nullptr;
        MT_TRY(softmaxScores(launch.stream, made));
        for (int64_t head = 0; launch.operands[operand.output] && head < share(); ++head)
          MT_TRY(step.result.run(launch.stream, {.a = offset(made.probabilities, headScores(head)),
                                                 .b = at(launch, operand.value, valuePlace(b, step.at.key)),
                                                 .c = at(launch, operand.output, outputPlace(b, step.at.query, head)),
                                                 .scratch = library,
                                                 .beta = beta}));
      }
    return {};
  }
};

struct Backward : BlockAttention {
  static constexpr size_t kGradient = AttentionOperands::kGradient;
  int64_t biasElements = 0; ///< of dbias; 0: not wanted
  DType dbiasType = DType::f32, dsinkType = DType::f32;

  struct Buffers {
    float *scores;
    void *narrowScores;
    float *slopes;
    void *narrowSlopes;
    float *wideSlopes, *deltas, *keySums, *valueSums, *biasSums;
    int32_t *keyOf;
    void *library;
  };

  Buffers buffersOf(const Launch &launch) const {
    Scratch scratch(launch.operands.back());
    Buffers made = {};
    made.scores = scratch.take<float>(shape.scores), made.narrowScores = scratch.take(shape.narrowScores);
    made.slopes = scratch.take<float>(shape.slopes), made.narrowSlopes = scratch.take(shape.narrowSlopes);
    made.wideSlopes = scratch.take<float>(shape.wideSlopes), made.deltas = scratch.take<float>(shape.deltas);
    made.keySums = scratch.take<float>(shape.keySums), made.valueSums = scratch.take<float>(shape.valueSums);
    made.biasSums = scratch.take<float>(shape.biasSums);
    made.keyOf = scratch.take<int32_t>(shape.keysByPlace), made.library = scratch.take(shape.library);
    return made;
  }

  /// Where sums of a batch row's keys (or values) gather: in their own place if that has 32 bits. Empty, or what is
  /// there if the call adds to it.
  Result<float *> gather(const Launch &launch, size_t operand, int64_t b, int64_t elements, float *sums) const {
    if (!launch.operands[operand])
      return static_cast<float *>(nullptr);
    float *place = sums ? sums : launch.at<float>(operand) + b * elements;
    if (sums || !launch.accumulates(operand))
      MT_TRY(clearBytes(launch.stream, place, static_cast<uint64_t>(elements) * sizeof(float)));
    return place;
  }
  Status settle(const Launch &launch, size_t operand, int64_t b, int64_t elements, const float *sums) const {
    if (!launch.operands[operand] || !sums)
      return {};
    return castElements(launch.stream, sums, DType::f32, at(launch, operand, b * elements), shape.type, elements,
                        launch.accumulates(operand));
  }

  /// One block of queries: scores and slopes of all heads, then what follows from them.
  Status backward(const Launch &launch, const Step &step, int64_t b, const Buffers &in, float *keys,
                  float *values) const {
    MT_TRY(multiplyScores(launch, step, b, in.scores, in.library));
    for (int64_t head = 0; head < share(); ++head)
      MT_TRY(step.slopes.run(launch.stream, {.a = at(launch, kGradient, outputPlace(b, step.at.query, head)),
                                             .b = at(launch, operand.value, valuePlace(b, step.at.key)),
                                             .c = in.slopes + headScores(head),
                                             .scratch = in.library}));
    ScoreBlock made = block(launch, step.at, b);
    made.scores = in.scores, made.probabilities = in.narrowScores ? in.narrowScores : in.scores;
    made.slopes = in.slopes, made.slopesOut = in.narrowSlopes ? in.narrowSlopes : in.slopes;
    made.wideSlopes = in.wideSlopes, made.deltas = in.deltas + b * shape.deltasOfRow(), made.keyOf = in.keyOf;
    made.logsumexp = launch.at<float>(operand.logsumexp) + b * shape.heads * shape.queries;
    MT_TRY(sendScoresBack(launch.stream, made));
    if (biasElements > 0)
      MT_TRY(
          addBiasSlopes(launch.stream, made, in.wideSlopes ? in.wideSlopes : in.slopes,
                        (in.biasSums ? in.biasSums : launch.at<float>(operand.dbias)) + b * biasSteps[0] + firstBias));
    for (int64_t head = 0; head < share(); ++head)
      MT_TRY(sendHeadBack(launch, step, b, head, made, in, keys, values));
    return {};
  }

  Status sendHeadBack(const Launch &launch, const Step &step, int64_t b, int64_t head, const ScoreBlock &made,
                      const Buffers &in, float *keys, float *values) const {
    const void *probabilities = offset(made.probabilities, headScores(head)),
               *slopes = offset(made.slopesOut, headScores(head));
    if (values)
      MT_TRY(step.dvalue.run(launch.stream, {.a = probabilities,
                                             .b = at(launch, kGradient, outputPlace(b, step.at.query, head)),
                                             .c = values + valuePlace(0, step.at.key),
                                             .scratch = in.library,
                                             .beta = 1}));
    if (keys)
      MT_TRY(step.dkey.run(launch.stream, {.a = slopes,
                                           .b = at(launch, operand.query, queryPlace(b, step.at.query, head)),
                                           .c = keys + keyPlace(0, step.at.key),
                                           .scratch = in.library,
                                           .alpha = scale,
                                           .beta = 1}));
    if (launch.operands[operand.dquery])
      MT_TRY(step.dquery.run(launch.stream, {.a = slopes,
                                             .b = at(launch, operand.key, keyPlace(b, step.at.key)),
                                             .c = at(launch, operand.dquery, queryPlace(b, step.at.query, head)),
                                             .scratch = in.library,
                                             .alpha = scale,
                                             .beta = launch.accumulates(operand.dquery) ? 1.0f : 0.0f}));
    return {};
  }

  Status operator()(const Launch &launch) const {
    Buffers in = buffersOf(launch);
    int64_t keyElements = keyPlace(1, 0), valueElements = valuePlace(1, 0);
    if (biasElements > 0 && (in.biasSums || !launch.accumulates(operand.dbias)))
      MT_TRY(clearBytes(launch.stream, in.biasSums ? in.biasSums : launch.operands[operand.dbias],
                        static_cast<uint64_t>(biasElements) * sizeof(float)));
    if (in.keyOf)
      MT_TRY(findKeys(launch.stream, block(launch, steps->front().at, 0).keyPlace, shape.keys, in.keyOf, places));
    for (int64_t b = 0; b < shape.batch; ++b) {
      MT_ASSIGN(float *keys, gather(launch, operand.dkey, b, keyElements, in.keySums));
      MT_ASSIGN(float *values, gather(launch, operand.dvalue, b, valueElements, in.valueSums));
      MT_TRY(rowProducts(launch.stream, at(launch, kGradient, outputPlace(b, 0, 0)),
                         at(launch, operand.output, outputPlace(b, 0, 0)), shape.type, shape.queries, shape.heads,
                         shape.valueWidth, in.deltas + b * shape.deltasOfRow()));
      for (const Step &step : *steps)
        MT_TRY(backward(launch, step, b, in, keys, values));
      MT_TRY(settle(launch, operand.dkey, b, keyElements, in.keySums));
      MT_TRY(settle(launch, operand.dvalue, b, valueElements, in.valueSums));
    }
    if (launch.operands[operand.dsink])
      MT_TRY(addSinkSlopes(launch.stream, {.sink = launch.operands[operand.sink],
                                           .sinkType = sinkType,
                                           .logsumexp = launch.at<float>(operand.logsumexp),
                                           .deltas = in.deltas,
                                           .dsink = launch.operands[operand.dsink],
                                           .dsinkType = dsinkType,
                                           .adds = launch.accumulates(operand.dsink),
                                           .batch = shape.batch,
                                           .heads = shape.heads,
                                           .queries = shape.queries}));
    if (biasElements > 0 && in.biasSums)
      return castElements(launch.stream, in.biasSums, DType::f32, launch.operands[operand.dbias], dbiasType,
                          biasElements, launch.accumulates(operand.dbias));
    return {};
  }
};

Result<std::vector<Step>> stepsOf(const BlockAttention &call, Blas &blas) {
  const AttentionBlocks &shape = call.shape;
  std::vector<Step> steps;
  for (const QueryBlock &at : queryBlocks(shape, call.visibility)) {
    Step &step = steps.emplace_back(Step{at, {}, {}, {}, {}, {}, {}});
    MT_ASSIGN(step.scores, blas.product(AttentionProducts::scores(shape, at), shape.library));
    if (!shape.gradient) {
      MT_ASSIGN(step.result, blas.product(AttentionProducts::result(shape, at), shape.library));
      continue;
    }
    MT_ASSIGN(step.slopes, blas.product(AttentionProducts::slopes(shape, at), shape.library));
    MT_ASSIGN(step.dvalue, blas.product(AttentionProducts::dvalue(shape, at), shape.library));
    MT_ASSIGN(step.dquery, blas.product(AttentionProducts::dquery(shape, at), shape.library));
    MT_ASSIGN(step.dkey, blas.product(AttentionProducts::dkey(shape, at), shape.library));
  }
  return steps;
}

} // namespace

Result<Run> prepareBlockAttention(const Signature &call, Library &library) {
  BlockAttention decoded(call);
  MT_ASSIGN(Blas * blas, library.blas());
  MT_ASSIGN(std::vector<Step> steps, stepsOf(decoded, *blas));
  decoded.steps = std::make_shared<const std::vector<Step>>(std::move(steps));
  if (!decoded.shape.gradient)
    return Run(Forward{decoded});
  const OperandType &dbias = call.operands[decoded.operand.dbias], &dsink = call.operands[decoded.operand.dsink];
  return Run(Backward{{decoded}, dbias.present ? dbias.elements() : 0, dbias.type, dsink.type});
}

} // namespace mt::kernels::cuda
