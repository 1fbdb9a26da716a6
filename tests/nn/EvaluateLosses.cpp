// Losses and their gradients, row by row.
#include "kernels/Types.h"
#include "tests/nn/Evaluate.h"

#include <cmath>

using namespace mlir;

namespace mt::nn::test {
namespace {

double inverseValid(const Tensor &scalars) { return scalars.at({kernels::Scalars::kInverseValid}); }

template <typename Op> double smoothingOf(Op op) {
  return op.getLabelSmoothing().value_or(APFloat(0.0)).convertToDouble();
}
template <typename Op> double zLossOf(Op op) { return op.getZLoss().value_or(APFloat(0.0)).convertToDouble(); }

/// Cross-entropy of one row of logits, against the label's share of the probability and everyone's, and its gradient
/// times `weight`.
template <typename Op>
double rowLoss(Op op, const std::vector<double> &logits, double label, double weight, std::vector<double> &gradient) {
  gradient.assign(logits.size(), 0);
  if (label < 0)
    return 0;
  double sum = logSumExp(logits), loss = zLossOf(op) * sum * sum;
  for (size_t v = 0; v < logits.size(); ++v) {
    double share = smoothingOf(op) / static_cast<double>(logits.size());
    share += v == static_cast<size_t>(label) ? 1 - smoothingOf(op) : 0;
    gradient[v] = weight * (std::exp(logits[v] - sum) * (1 + 2 * zLossOf(op) * sum) - share);
    loss += share * (sum - logits[v]);
  }
  return weight * loss;
}

struct LossAndGradient {
  Tensor loss{{}, {0}}, dlogits;
};
template <typename Op> LossAndGradient crossEntropyOf(Op op, const Operands &in) {
  const Tensor &logits = in[op.getLogits()], &labels = in[op.getLabels()];
  LossAndGradient made;
  made.dlogits = zeros(op.getLogits());
  int64_t classes = logits.dims[1];
  for (int64_t n = 0; n < logits.dims[0]; ++n) {
    auto begin = logits.values.begin() + n * classes;
    std::vector<double> gradient;
    made.loss.values[0] +=
        rowLoss(op, {begin, begin + classes}, labels.at({n}), inverseValid(in[op.getScalars()]), gradient);
    std::copy(gradient.begin(), gradient.end(), made.dlogits.values.begin() + n * classes);
  }
  return made;
}
std::vector<Tensor> crossEntropy(CrossEntropyOp op, const Operands &in) { return {crossEntropyOf(op, in).loss}; }
std::vector<Tensor> crossEntropyGrad(CrossEntropyGradOp op, const Operands &in) {
  LossAndGradient made = crossEntropyOf(op, in);
  return {made.loss, made.dlogits};
}

/// logits[n, v] = scale * (hidden[n] . weight[v] + bias[v]), then c tanh(logits / c).
template <typename Op> struct Head {
  const Tensor &hidden, &weight, *bias;
  bool transposed;
  double scale, cap;

  Head(Op op, const Operands &in)
      : hidden(in[op.getHidden()]), weight(in[op.getWeight()]), bias(in.find(op.getBias())),
        transposed(op.getTransposed()), scale(op.getLogitScale().convertToDouble()),
        cap(op.getSoftCap().convertToDouble()) {}

  int64_t rows() const { return hidden.dims[0]; }
  int64_t width() const { return hidden.dims[1]; }
  int64_t classes() const { return weight.dims[transposed ? 1 : 0]; }
  Index weightAt(int64_t v, int64_t d) const { return transposed ? Index{d, v} : Index{v, d}; }
  double plain(int64_t n, int64_t v) const {
    double sum = bias ? bias->at({v}) : 0;
    for (int64_t d = 0; d < width(); ++d)
      sum += hidden.at({n, d}) * weight.at(weightAt(v, d));
    return scale * sum;
  }
  double capped(double x) const { return cap > 0 ? cap * std::tanh(x / cap) : x; }
  double capSlope(double x) const { return cap > 0 ? 1 - std::tanh(x / cap) * std::tanh(x / cap) : 1; }
};

/// The loss; `visit(n, v, slope)` is told d(loss) / d(hidden . weight + bias) of every logit.
template <typename Op>
Tensor headLoss(Op op, const Operands &in, const Head<Op> &head,
                llvm::function_ref<void(int64_t, int64_t, double)> visit) {
  Tensor loss{{}, {0}};
  for (int64_t n = 0; n < head.rows(); ++n) {
    std::vector<double> logits, gradient;
    for (int64_t v = 0; v < head.classes(); ++v)
      logits.push_back(head.capped(head.plain(n, v)));
    loss.values[0] += rowLoss(op, logits, in[op.getLabels()].at({n}), inverseValid(in[op.getScalars()]), gradient);
    for (int64_t v = 0; v < head.classes(); ++v)
      visit(n, v, gradient[v] * head.capSlope(head.plain(n, v)) * head.scale);
  }
  return loss;
}
std::vector<Tensor> linearCrossEntropy(LinearCrossEntropyOp op, const Operands &in) {
  return {headLoss(op, in, Head<LinearCrossEntropyOp>(op, in), [](int64_t, int64_t, double) {})};
}
std::vector<Tensor> linearCrossEntropyGrad(LinearCrossEntropyGradOp op, const Operands &in) {
  Head<LinearCrossEntropyGradOp> head(op, in);
  Tensor dhidden = zeros(op.getDhidden()), dweight = zeros(op.getDweight()), dbias = zeros({head.classes()});
  Tensor loss = headLoss(op, in, head, [&](int64_t n, int64_t v, double slope) {
    for (int64_t d = 0; d < head.width(); ++d) {
      dhidden.at({n, d}) += slope * head.weight.at(head.weightAt(v, d));
      dweight.at(head.weightAt(v, d)) += slope * head.hidden.at({n, d});
    }
    dbias.at({v}) += slope;
  });
  std::vector<Tensor> results{loss, dhidden, dweight};
  if (op.getDbias())
    results.push_back(dbias);
  return results;
}

template <typename Op> Tensor squaredErrorOf(Op op, const Operands &in) {
  const Tensor &p = in[op.getPrediction()], &t = in[op.getTarget()];
  Tensor loss{{}, {0}};
  for (size_t i = 0; i < p.values.size(); ++i)
    loss.values[0] += (p.values[i] - t.values[i]) * (p.values[i] - t.values[i]) * inverseValid(in[op.getScalars()]);
  return loss;
}
std::vector<Tensor> squaredError(SquaredErrorOp op, const Operands &in) { return {squaredErrorOf(op, in)}; }
std::vector<Tensor> squaredErrorGrad(SquaredErrorGradOp op, const Operands &in) {
  const Tensor &p = in[op.getPrediction()], &t = in[op.getTarget()];
  double weight = inverseValid(in[op.getScalars()]);
  return {squaredErrorOf(op, in),
          each(op.getDprediction(), [&](const Index &i) { return 2 * (p.at(i) - t.at(i)) * weight; })};
}

} // namespace

void addLossRules(Rules &rules) {
  addRule<CrossEntropyOp, crossEntropy>(rules);
  addRule<CrossEntropyGradOp, crossEntropyGrad>(rules);
  addRule<LinearCrossEntropyOp, linearCrossEntropy>(rules);
  addRule<LinearCrossEntropyGradOp, linearCrossEntropyGrad>(rules);
  addRule<SquaredErrorOp, squaredError>(rules);
  addRule<SquaredErrorGradOp, squaredErrorGrad>(rules);
}

} // namespace mt::nn::test
