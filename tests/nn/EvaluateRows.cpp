// Products, and operations on the rows of the last dimension: normalization and softmax.
#include "tests/nn/Evaluate.h"

#include <cmath>

using namespace mlir;

namespace mt::nn::test {
namespace {

//===-- products --------------------------------------------------------------------------------------------===//

/// The index of entry (row, column) of the matrix, or of its transpose, that `batch` names in a tensor of `rank`.
Index entryOf(const Index &batch, size_t rank, int64_t row, int64_t column, bool transposed) {
  Index index = rank == 2 ? Index() : batch;
  index.insert(index.end(), {transposed ? column : row, transposed ? row : column});
  return index;
}

Tensor multiply(Value like, const Tensor &lhs, const Tensor &rhs, const Tensor *bias, bool tl, bool tr) {
  int64_t depth = lhs.dims[lhs.dims.size() - (tl ? 2 : 1)];
  return each(like, [&](const Index &i) {
    Index batch(i.begin(), i.end() - 2);
    int64_t m = i[i.size() - 2], n = i.back();
    double sum = bias ? bias->at({n}) : 0;
    for (int64_t k = 0; k < depth; ++k)
      sum += lhs.at(entryOf(batch, lhs.dims.size(), m, k, tl)) * rhs.at(entryOf(batch, rhs.dims.size(), k, n, tr));
    return sum;
  });
}

std::vector<Tensor> matmul(MatmulOp op, const Operands &in) {
  return {multiply(op.getResult(), in[op.getLhs()], in[op.getRhs()], in.find(op.getBias()), op.getTransposeLhs(),
                   op.getTransposeRhs())};
}
std::vector<Tensor> matmulAdd(MatmulAddOp op, const Operands &in) {
  Tensor product = multiply(op.getResult(), in[op.getLhs()], in[op.getRhs()], in.find(op.getBias()),
                            op.getTransposeLhs(), op.getTransposeRhs());
  const Tensor &addend = in[op.getAddend()];
  return {each(op.getResult(), [&](const Index &i) { return product.at(i) + addend.at(i); })};
}
std::vector<Tensor> matmulGelu(MatmulGeluOp op, const Operands &in) {
  Tensor input = multiply(op.getInput(), in[op.getLhs()], in[op.getRhs()], in.find(op.getBias()), op.getTransposeLhs(),
                          op.getTransposeRhs());
  return {each(op.getResult(), [&](const Index &i) { return activation("gelu_tanh", input.at(i)); }), input};
}
std::vector<Tensor> matmulGeluGrad(MatmulGeluGradOp op, const Operands &in) {
  Tensor product =
      multiply(op.getResult(), in[op.getLhs()], in[op.getRhs()], nullptr, op.getTransposeLhs(), op.getTransposeRhs());
  const Tensor &input = in[op.getInput()];
  return {each(op.getResult(), [&](const Index &i) { return product.at(i) * slope("gelu_tanh", input.at(i)); })};
}
std::vector<Tensor> matmulSums(MatmulSumsOp op, const Operands &in) {
  const Tensor &lhs = in[op.getLhs()], &rhs = in[op.getRhs()], &summed = op.getSumsOfLhs() ? lhs : rhs;
  return {multiply(op.getResult(), lhs, rhs, nullptr, op.getTransposeLhs(), op.getTransposeRhs()),
          each(op.getSums(), [&](const Index &i) {
            double sum = 0;
            for (int64_t k = 0; k < summed.dims[0]; ++k)
              sum += summed.at({k, i[0]});
            return sum;
          })};
}

//===-- rows ------------------------------------------------------------------------------------------------===//

using Row = std::vector<double>;

/// The row of `x` that `leading`, its index without the last entry, names.
Row rowOf(const Tensor &x, Index leading) {
  Row row;
  leading.push_back(0);
  for (int64_t k = 0; k < x.dims.back(); ++k)
    row.push_back(x.at(with(leading, int64_t(leading.size()) - 1, k)));
  return row;
}
void setRow(Tensor &x, Index leading, const Row &row) {
  leading.push_back(0);
  for (int64_t k = 0; k < x.dims.back(); ++k)
    x.at(with(leading, int64_t(leading.size()) - 1, k)) = row[k];
}
double meanOf(const Row &row) {
  double sum = 0;
  for (double value : row)
    sum += value;
  return sum / double(row.size());
}
Row times(Row a, const Row &b) {
  for (size_t i = 0; i < a.size(); ++i)
    a[i] *= b[i];
  return a;
}
Row allOnes(size_t width) { return Row(width, 1); }
Index leadingOf(const Tensor &x) { return Index(x.dims.begin(), x.dims.end() - 1); }

std::vector<Tensor> layerNorm(LayerNormOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()], *gain = in.find(op.getGain()), *bias = in.find(op.getBias());
  Tensor result = zeros(op.getResult()), means = zeros(op.getMean()), rstds = zeros(op.getRstd());
  forEach(leadingOf(x), [&](const Index &at) {
    Row row = rowOf(x, at);
    double mean = meanOf(row);
    for (double &value : row)
      value -= mean;
    double rstd = 1 / std::sqrt(meanOf(times(row, row)) + op.getEpsilon().convertToDouble());
    for (size_t k = 0; k < row.size(); ++k)
      row[k] = row[k] * rstd * (gain ? gain->values[k] : 1) + (bias ? bias->values[k] : 0);
    setRow(result, at, row);
    means.at(at) = mean;
    rstds.at(at) = rstd;
  });
  return {result, means, rstds};
}

std::vector<Tensor> rmsNorm(RmsNormOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()], *gain = in.find(op.getGain());
  Tensor result = zeros(op.getResult()), rstds = zeros(op.getRstd());
  forEach(leadingOf(x), [&](const Index &at) {
    Row row = rowOf(x, at);
    double rstd = 1 / std::sqrt(meanOf(times(row, row)) + op.getEpsilon().convertToDouble());
    for (size_t k = 0; k < row.size(); ++k)
      row[k] *= rstd * (gain ? gain->values[k] : 1);
    setRow(result, at, row);
    rstds.at(at) = rstd;
  });
  return {result, rstds};
}

/// What both norms do backwards with a row of x^ = (x - mean) rstd: rstd (g - x^ mean(g x^)), g = dy gain, from which
/// layer norm takes mean(g) too.
Row throughNorm(const Row &hat, const Row &g, double rstd, bool centered) {
  double along = meanOf(times(g, hat)), mean = centered ? meanOf(g) : 0;
  Row dx(hat.size());
  for (size_t k = 0; k < hat.size(); ++k)
    dx[k] = rstd * (g[k] - mean - hat[k] * along);
  return dx;
}

Tensor plus(Tensor sum, const Tensor *addend) {
  for (size_t i = 0; addend && i < sum.values.size(); ++i)
    sum.values[i] += addend->values[i];
  return sum;
}

std::vector<Tensor> layerNormGrad(LayerNormGradOp op, const Operands &in) {
  const Tensor &dy = in[op.getGradient()], &x = in[op.getOperand()], &means = in[op.getMean()];
  const Tensor &rstds = in[op.getRstd()], *gain = in.find(op.getGain());
  Tensor dx = zeros(op.getDoperand()), dgain = zeros(op.getDgain()), dbias = zeros(op.getDbias());
  forEach(leadingOf(x), [&](const Index &at) {
    Row hat = rowOf(x, at), up = rowOf(dy, at);
    for (double &value : hat)
      value = (value - means.at(at)) * rstds.at(at);
    setRow(dx, at, throughNorm(hat, times(up, gain ? gain->values : allOnes(up.size())), rstds.at(at), true));
    for (size_t k = 0; k < up.size(); ++k) {
      dgain.values[k] += up[k] * hat[k];
      dbias.values[k] += up[k];
    }
  });
  return {plus(dx, in.find(op.getAddend())), dgain, dbias};
}

std::vector<Tensor> rmsNormGrad(RmsNormGradOp op, const Operands &in) {
  const Tensor &dy = in[op.getGradient()], &x = in[op.getOperand()], &rstds = in[op.getRstd()];
  const Tensor *gain = in.find(op.getGain());
  Tensor dx = zeros(op.getDoperand()), dgain = zeros(op.getDgain());
  forEach(leadingOf(x), [&](const Index &at) {
    Row hat = rowOf(x, at), up = rowOf(dy, at);
    for (double &value : hat)
      value *= rstds.at(at);
    setRow(dx, at, throughNorm(hat, times(up, gain ? gain->values : allOnes(up.size())), rstds.at(at), false));
    for (size_t k = 0; k < up.size(); ++k)
      dgain.values[k] += up[k] * hat[k];
  });
  return {plus(dx, in.find(op.getAddend())), dgain};
}

template <typename Op> std::vector<Tensor> softmaxOf(Op op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  Tensor result = zeros(op.getResult());
  forEach(leadingOf(x), [&](const Index &at) {
    Row row = rowOf(x, at);
    double sum = logSumExp(row);
    for (double &value : row)
      value = std::is_same_v<Op, SoftmaxOp> ? std::exp(value - sum) : value - sum;
    setRow(result, at, row);
  });
  return {result};
}
std::vector<Tensor> softmaxGrad(SoftmaxGradOp op, const Operands &in) {
  const Tensor &dy = in[op.getGradient()], &y = in[op.getOutput()];
  Tensor result = zeros(op.getResult());
  forEach(leadingOf(y), [&](const Index &at) {
    Row p = rowOf(y, at), up = rowOf(dy, at);
    double along = meanOf(times(p, up)) * double(p.size());
    for (size_t k = 0; k < p.size(); ++k)
      p[k] *= up[k] - along;
    setRow(result, at, p);
  });
  return {result};
}

} // namespace

void addProductRules(Rules &rules) {
  addRule<MatmulOp, matmul>(rules);
  addRule<MatmulAddOp, matmulAdd>(rules);
  addRule<MatmulGeluOp, matmulGelu>(rules);
  addRule<MatmulGeluGradOp, matmulGeluGrad>(rules);
  addRule<MatmulSumsOp, matmulSums>(rules);
}

void addRowRules(Rules &rules) {
  addRule<LayerNormOp, layerNorm>(rules);
  addRule<LayerNormGradOp, layerNormGrad>(rules);
  addRule<RmsNormOp, rmsNorm>(rules);
  addRule<RmsNormGradOp, rmsNormGrad>(rules);
  addRule<SoftmaxOp, softmaxOf<SoftmaxOp>>(rules);
  addRule<LogSoftmaxOp, softmaxOf<LogSoftmaxOp>>(rules);
  addRule<SoftmaxGradOp, softmaxGrad>(rules);
}

} // namespace mt::nn::test
