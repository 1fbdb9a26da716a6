// Attention and rotary embedding, query by query and key by key.
#include "tests/nn/Evaluate.h"

#include <cmath>

using namespace mlir;

namespace mt::nn::test {
namespace {

/// What attention and its gradient share: which keys a query sees, and its scores.
template <typename Op> struct Scores {
  Op op;
  const Tensor &query, &key;
  const Tensor *bias, *keyMask, *querySegment, *keySegment, *queryPlace, *keyPlace, *sink;
  int64_t batch, queries, heads, keys, groups, width;

  Scores(Op op, const Operands &in)
      : op(op), query(in[op.getQuery()]), key(in[op.getKey()]), bias(in.find(op.getBias())),
        keyMask(in.find(op.getKeyMask())), querySegment(in.find(op.getQuerySegment())),
        keySegment(in.find(op.getKeySegment())), queryPlace(in.find(op.getQueryPlace())),
        keyPlace(in.find(op.getKeyPlace())), sink(in.find(op.getSink())), batch(query.dims[0]), queries(query.dims[1]),
        heads(query.dims[2]), keys(key.dims[1]), groups(key.dims[2]), width(query.dims[3]) {}

  int64_t groupOf(int64_t head) const { return head / (heads / groups); }

  bool sees(int64_t b, int64_t q, int64_t k) {
    int64_t distance = q - k + int64_t(op.getOffset()), chunk = op.getChunk();
    bool near = int64_t(op.getMinDistance()) <= distance && distance <= int64_t(op.getMaxDistance()) &&
                distance % int64_t(op.getDilation()) == 0;
    if (!near && k >= int64_t(op.getPrefix()))
      return false;
    if (keyMask && keyMask->at({b, k}) == 0)
      return false;
    if (segmentBias() == 0 && isApart(b, q, k))
      return false;
    return chunk == 0 || q / chunk == k / chunk;
  }

  double segmentBias() { return op.getSegmentBias().convertToDouble(); }
  bool isApart(int64_t b, int64_t q, int64_t k) {
    return querySegment && querySegment->at({b, q}) != keySegment->at({b, k});
  }

  /// scale * q . k, before the cap.
  double plain(int64_t b, int64_t h, int64_t q, int64_t k) {
    double dot = 0;
    for (int64_t d = 0; d < width; ++d)
      dot += query.at({b, q, h, d}) * key.at({b, k, groupOf(h), d});
    return dot * op.getScale().convertToDouble();
  }
  double score(int64_t b, int64_t h, int64_t q, int64_t k) {
    double cap = op.getSoftCap().convertToDouble(), x = plain(b, h, q, k);
    return (cap > 0 ? cap * std::tanh(x / cap) : x) + (bias ? bias->at(biasPlace(b, h, q, k)) : 0) +
           (isApart(b, q, k) ? segmentBias() : 0);
  }
  /// The entry of the bias for a score.
  Index biasPlace(int64_t b, int64_t h, int64_t q, int64_t k) const {
    bool byDistance = bias->dims[3] != key.dims[1];
    Index at{b, h, q, byDistance ? k - q + query.dims[1] - 1 : k};
    if (keyPlace)
      at[3] = static_cast<int64_t>(keyPlace->at({k}) - queryPlace->at({q}));
    for (size_t i = 0; i < 4; ++i)
      at[i] = bias->dims[i] == 1 && i < 3 ? 0 : at[i];
    return at;
  }
  /// d(score) / d(scale * q . k)
  double capSlope(int64_t b, int64_t h, int64_t q, int64_t k) {
    double cap = op.getSoftCap().convertToDouble();
    double t = cap > 0 ? std::tanh(plain(b, h, q, k) / cap) : 0;
    return 1 - t * t;
  }
};

std::vector<Tensor> attention(AttentionOp op, const Operands &in) {
  Scores<AttentionOp> scores(op, in);
  const Tensor &value = in[op.getValue()];
  Tensor result = zeros(op.getResult()), sums = zeros(op.getLogsumexp());
  forEach(sums.dims, [&](const Index &at) {
    int64_t b = at[0], h = at[1], q = at[2];
    std::vector<double> row;
    for (int64_t k = 0; k < scores.keys; ++k)
      row.push_back(scores.sees(b, q, k) ? scores.score(b, h, q, k) : -INFINITY);
    std::vector<double> all = row;
    if (scores.sink)
      all.push_back(scores.sink->at({h}));
    double sum = sums.at(at) = logSumExp(all);
    for (int64_t k = 0; k < scores.keys; ++k)
      for (int64_t d = 0; row[k] > -INFINITY && d < value.dims[3]; ++d)
        result.at({b, q, h, d}) += std::exp(row[k] - sum) * value.at({b, k, scores.groupOf(h), d});
  });
  return {result, sums};
}

std::vector<Tensor> attentionGrad(AttentionGradOp op, const Operands &in) {
  Scores<AttentionGradOp> scores(op, in);
  const Tensor &dy = in[op.getGradient()], &value = in[op.getValue()], &output = in[op.getOutput()];
  const Tensor &sums = in[op.getLogsumexp()];
  Tensor dq = zeros(op.getDquery()), dk = zeros(op.getDkey()), dv = zeros(op.getDvalue()), dbias, dsink;
  if (op.getDbias())
    dbias = zeros(op.getDbias());
  if (op.getDsink())
    dsink = zeros(op.getDsink());
  double scale = op.getScale().convertToDouble();
  for (int64_t b = 0; b < scores.batch; ++b)
    for (int64_t h = 0; h < scores.heads; ++h)
      for (int64_t q = 0; q < scores.queries; ++q)
        for (int64_t k = 0; k < scores.keys; ++k) {
          if (!scores.sees(b, q, k) || sums.at({b, h, q}) == -INFINITY)
            continue;
          int64_t g = scores.groupOf(h);
          double p = std::exp(scores.score(b, h, q, k) - sums.at({b, h, q})), dp = 0, mean = 0;
          for (int64_t d = 0; d < value.dims[3]; ++d) {
            dp += dy.at({b, q, h, d}) * value.at({b, k, g, d});
            mean += dy.at({b, q, h, d}) * output.at({b, q, h, d});
            dv.at({b, k, g, d}) += p * dy.at({b, q, h, d});
          }
          double ds = p * (dp - mean), dot = ds * scores.capSlope(b, h, q, k) * scale;
          for (int64_t d = 0; d < scores.width; ++d) {
            dq.at({b, q, h, d}) += dot * scores.key.at({b, k, g, d});
            dk.at({b, k, g, d}) += dot * scores.query.at({b, q, h, d});
          }
          if (op.getDbias())
            dbias.at(scores.biasPlace(b, h, q, k)) += ds;
        }
  if (op.getDsink())
    forEach(sums.dims, [&](const Index &at) {
      int64_t b = at[0], h = at[1], q = at[2];
      for (int64_t d = 0; d < value.dims[3]; ++d)
        dsink.at({h}) -= std::exp(scores.sink->at({h}) - sums.at(at)) * dy.at({b, q, h, d}) * output.at({b, q, h, d});
    });
  std::vector<Tensor> results{dq, dk, dv};
  if (op.getDbias())
    results.push_back(dbias);
  if (op.getDsink())
    results.push_back(dsink);
  return results;
}

std::vector<Tensor> rotary(RotaryOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()], &cos = in[op.getCos()], &sin = in[op.getSin()];
  Tensor result = x;
  int64_t pairs = cos.dims[2];
  forEach({x.dims[0], x.dims[1], x.dims[2], pairs}, [&](const Index &at) {
    int64_t i = at[3], table = cos.dims[0] == 1 ? 0 : at[0];
    Index first = with(at, 3, op.getInterleaved() ? 2 * i : i);
    Index second = with(at, 3, op.getInterleaved() ? 2 * i + 1 : i + pairs);
    double c = cos.at({table, at[1], i}), s = sin.at({table, at[1], i}) * (op.getInverse() ? -1 : 1);
    result.at(first) = x.at(first) * c - x.at(second) * s;
    result.at(second) = x.at(second) * c + x.at(first) * s;
  });
  return {result};
}

} // namespace

void addAttentionRules(Rules &rules) {
  addRule<AttentionOp, attention>(rules);
  addRule<AttentionGradOp, attentionGrad>(rules);
  addRule<RotaryOp, rotary>(rules);
}

} // namespace mt::nn::test
