// Operations that make, move, sum and look up elements.
#include "tests/nn/Evaluate.h"

#include <cmath>

using namespace mlir;

namespace mt::nn::test {
namespace {

bool isBoolean(Type type) { return getElementTypeOrSelf(type).isInteger(1); }

std::vector<Tensor> constant(ConstantOp op, const Operands &) {
  Tensor made = zeros(op.getResult());
  auto dense = cast<DenseElementsAttr>(op.getValue());
  bool isFloat = isa<FloatType>(dense.getElementType());
  for (auto [i, value] : llvm::enumerate(made.values))
    if (isFloat)
      value = dense.getValues<APFloat>()[i].convertToDouble();
    else
      value = isBoolean(dense.getType()) ? double(dense.getValues<bool>()[i])
                                         : double(dense.getValues<APInt>()[i].getSExtValue());
  return {made};
}
std::vector<Tensor> iota(IotaOp op, const Operands &) {
  double start = op.getStart().convertToDouble(), step = op.getStep().convertToDouble();
  return {each(op.getResult(), [&](const Index &i) { return start + step * double(i[op.getDimension()]); })};
}

std::vector<Tensor> reshape(ReshapeOp op, const Operands &in) {
  return {{shapeOf(op.getResult()).vec(), in[op.getOperand()].values}};
}
// Precision is not the evaluator's business: floats stay as they are.
std::vector<Tensor> castElements(CastOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  bool toFloat = isa<FloatType>(getElementTypeOrSelf(op.getType())), toBoolean = isBoolean(op.getType());
  return {each(op.getResult(), [&](const Index &i) {
    return toFloat ? x.at(i) : toBoolean ? double(x.at(i) != 0) : std::trunc(x.at(i));
  })};
}
/// Element `at` of numbers of `bits` bits in bytes, low bits first.
double unpacked(const Tensor &bytes, int64_t at, int64_t bits, bool isSigned) {
  auto byte = static_cast<int64_t>(bytes.values[static_cast<size_t>(at * bits / 8)]) & 255;
  int64_t number = byte >> (at * bits % 8) & ((int64_t{1} << bits) - 1), sign = int64_t{1} << (bits - 1);
  return static_cast<double>(isSigned && number >= sign ? number - 2 * sign : number);
}
std::vector<Tensor> dequantize(DequantizeOp op, const Operands &in) {
  const Tensor &scales = in[op.getScales()];
  int64_t at = 0;
  return {each(op.getResult(), [&](const Index &i) {
    Index from;
    if (scales.dims.size() == i.size() && !i.empty())
      from = i, from[op.getAxis()] /= op.getBlock();
    if (scales.dims.size() == 1)
      from = {i[op.getAxis()] / static_cast<int64_t>(op.getBlock())};
    double zero = op.getZeros() ? in[op.getZeros()].at(from) : static_cast<double>(op.getZero());
    const double number = unpacked(in[op.getValues()], at++, op.getBits(), op.getIsSigned());
    return (op.getLevels() ? (*op.getLevels())[static_cast<size_t>(number)] : number - zero) * scales.at(from);
  })};
}
/// As in training.
std::vector<Tensor> runningStatistic(RunningStatisticOp op, const Operands &in) { return {in[op.getOwn()]}; }
std::vector<Tensor> copy(CopyOp op, const Operands &in) { return {in[op.getOperand()]}; }

std::vector<Tensor> transpose(TransposeOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  return {each(op.getResult(), [&](const Index &i) {
    Index from(i.size());
    for (size_t d = 0; d < i.size(); ++d)
      from[op.getPermutation()[d]] = i[d];
    return x.at(from);
  })};
}
std::vector<Tensor> broadcast(BroadcastOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  return {each(op.getResult(), [&](const Index &i) { return x.broadcastAt(i); })};
}
std::vector<Tensor> slice(SliceOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  return {each(op.getResult(), [&](const Index &i) {
    Index from(i.size());
    for (size_t d = 0; d < i.size(); ++d)
      from[d] = op.getStarts()[d] + i[d] * op.getStrides()[d];
    return x.at(from);
  })};
}
std::vector<Tensor> pad(PadOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  Tensor made = zeros(op.getResult());
  std::fill(made.values.begin(), made.values.end(), op.getValue().convertToDouble());
  forEach(x.dims, [&](const Index &i) {
    Index to(i.size());
    for (size_t d = 0; d < i.size(); ++d)
      to[d] = op.getLow()[d] + i[d] * (op.getInterior()[d] + 1);
    made.at(to) = x.at(i);
  });
  return {made};
}
std::vector<Tensor> concat(ConcatOp op, const Operands &in) {
  Tensor made = zeros(op.getResult());
  int64_t axis = op.getAxis(), begin = 0;
  for (Value input : op.getInputs()) {
    const Tensor &x = in[input];
    forEach(x.dims, [&](const Index &i) { made.at(with(i, axis, i[axis] + begin)) = x.at(i); });
    begin += x.dims[axis];
  }
  return {made};
}

double combine(StringRef kind, double a, double b) {
  if (kind == "max")
    return a > b ? a : b;
  if (kind == "min")
    return a < b ? a : b;
  return kind == "prod" ? a * b : a + b;
}
std::vector<Tensor> reduce(ReduceOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  StringRef kind = op.getKind();
  double start = kind == "max" ? -INFINITY : kind == "min" ? INFINITY : kind == "prod" ? 1 : 0;
  Tensor made = zeros(op.getResult());
  std::fill(made.values.begin(), made.values.end(), start);
  forEach(x.dims, [&](const Index &i) {
    Index to;
    for (size_t d = 0; d < i.size(); ++d)
      if (!llvm::is_contained(op.getAxes(), int64_t(d)))
        to.push_back(i[d]);
      else if (op.getKeepDims())
        to.push_back(0);
    made.at(to) = combine(kind, made.at(to), x.at(i));
  });
  if (kind == "mean")
    for (double &value : made.values)
      value *= double(made.values.size()) / double(x.values.size());
  return {made};
}
std::vector<Tensor> cumsum(CumsumOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  int64_t axis = op.getAxis();
  return {each(op.getResult(), [&](const Index &i) {
    double sum = 0;
    for (int64_t k = 0; k < x.dims[axis]; ++k) {
      bool before = op.getReverse() ? k > i[axis] : k < i[axis];
      if (before || (k == i[axis] && !op.getExclusive()))
        sum += x.at(with(i, axis, k));
    }
    return sum;
  })};
}

//===-- lookups ---------------------------------------------------------------------------------------------===//

/// The entry an index names: from the end where it is negative.
int64_t entry(double index, int64_t size) { return int64_t(index) + (index < 0 ? size : 0); }

/// Where element `i` of a gather along `axis` comes from.
Index sourceOf(const Index &i, const Tensor &indices, int64_t axis, int64_t size) {
  auto rank = static_cast<std::ptrdiff_t>(indices.dims.size());
  Index from(i.begin(), i.begin() + axis), place(i.begin() + axis, i.begin() + axis + rank);
  from.push_back(entry(indices.at(place), size));
  from.insert(from.end(), i.begin() + axis + rank, i.end());
  return from;
}
std::vector<Tensor> gather(GatherOp op, const Operands &in) {
  const Tensor &data = in[op.getData()], &indices = in[op.getIndices()];
  int64_t axis = op.getAxis();
  return {each(op.getResult(), [&](const Index &i) { return data.at(sourceOf(i, indices, axis, data.dims[axis])); })};
}
std::vector<Tensor> gatherGrad(GatherGradOp op, const Operands &in) {
  const Tensor &indices = in[op.getIndices()], &dy = in[op.getGradient()];
  Tensor made = zeros(op.getResult());
  int64_t axis = op.getAxis();
  forEach(dy.dims, [&](const Index &i) { made.at(sourceOf(i, indices, axis, made.dims[axis])) += dy.at(i); });
  return {made};
}
std::vector<Tensor> gatherNd(GatherNdOp op, const Operands &in) {
  const Tensor &data = in[op.getData()], &indices = in[op.getIndices()];
  size_t batch = op.getBatchDims(), tuples = indices.dims.size() - 1;
  return {each(op.getResult(), [&](const Index &i) {
    Index from(i.begin(), i.begin() + batch), place(i.begin(), i.begin() + tuples);
    place.push_back(0);
    for (int64_t k = 0; k < indices.dims.back(); ++k)
      from.push_back(entry(indices.at(with(place, tuples, k)), data.dims[from.size()]));
    from.insert(from.end(), i.begin() + tuples, i.end());
    return data.at(from);
  })};
}
std::vector<Tensor> gatherElements(GatherElementsOp op, const Operands &in) {
  const Tensor &data = in[op.getData()], &indices = in[op.getIndices()];
  int64_t axis = op.getAxis();
  return {each(op.getResult(),
               [&](const Index &i) { return data.at(with(i, axis, entry(indices.at(i), data.dims[axis]))); })};
}
std::vector<Tensor> embedding(EmbeddingOp op, const Operands &in) {
  const Tensor &table = in[op.getTable()], &ids = in[op.getIds()];
  return {each(op.getResult(), [&](const Index &i) {
    return table.at({int64_t(ids.at(Index(i.begin(), i.end() - 1))), i.back()});
  })};
}
std::vector<Tensor> embeddingGrad(EmbeddingGradOp op, const Operands &in) {
  const Tensor &ids = in[op.getIds()], &dy = in[op.getGradient()];
  Tensor made = zeros(op.getResult());
  forEach(dy.dims, [&](const Index &i) {
    made.at({int64_t(ids.at(Index(i.begin(), i.end() - 1))), i.back()}) += dy.at(i);
  });
  return {made};
}

} // namespace

void addStructureRules(Rules &rules) {
  addRule<ConstantOp, constant>(rules);
  addRule<IotaOp, iota>(rules);
  addRule<ReshapeOp, reshape>(rules);
  addRule<CastOp, castElements>(rules);
  addRule<CopyOp, copy>(rules);
  addRule<RunningStatisticOp, runningStatistic>(rules);
  addRule<DequantizeOp, dequantize>(rules);
  addRule<TransposeOp, transpose>(rules);
  addRule<BroadcastOp, broadcast>(rules);
  addRule<SliceOp, slice>(rules);
  addRule<PadOp, pad>(rules);
  addRule<ConcatOp, concat>(rules);
  addRule<ReduceOp, reduce>(rules);
  addRule<CumsumOp, cumsum>(rules);
  addRule<GatherOp, gather>(rules);
  addRule<GatherGradOp, gatherGrad>(rules);
  addRule<GatherNdOp, gatherNd>(rules);
  addRule<GatherElementsOp, gatherElements>(rules);
  addRule<EmbeddingOp, embedding>(rules);
  addRule<EmbeddingGradOp, embeddingGrad>(rules);
}

} // namespace mt::nn::test
