// Convolutions, pooling, products with experts, and what is put at computed places: element by element.
#include "tests/nn/Evaluate.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace mlir;

namespace mt::nn::test {
namespace {

//===-- windows ---------------------------------------------------------------------------------------------===//

Index behind(const Index &index) { return Index(index.begin() + 2, index.end()); }
Index joined(int64_t first, int64_t second, const Index &rest) {
  Index index{first, second};
  index.insert(index.end(), rest.begin(), rest.end());
  return index;
}

/// Calls visit(place, element) for each place of the window of result `o` that sees an element of an image.
template <typename Op>
void eachSeen(Op op, const Index &o, const Index &size, const Index &image,
              llvm::function_ref<void(const Index &, const Index &)> visit) {
  forEach(size, [&](const Index &place) {
    Index element(o.size());
    for (size_t d = 0; d < o.size(); ++d) {
      element[d] = o[d] * op.getStrides()[d] + place[d] * op.getDilations()[d] - op.getLow()[d];
      if (element[d] < 0 || element[d] >= image[d])
        return;
    }
    visit(place, element);
  });
}

/// Calls visit(image index, kernel index, result index) for every product of a convolution.
template <typename Op>
void eachProduct(Op op, const Index &image, const Index &kernel, const Index &result,
                 llvm::function_ref<void(const Index &, const Index &, const Index &)> visit) {
  int64_t filters = kernel[0] / op.getGroups();
  forEach(result, [&](const Index &r) {
    for (int64_t c = 0; c < kernel[1]; ++c)
      eachSeen(op, behind(r), behind(kernel), behind(image), [&](const Index &place, const Index &element) {
        visit(joined(r[0], r[1] / filters * kernel[1] + c, element), joined(r[1], c, place), r);
      });
  });
}

std::vector<Tensor> conv(ConvOp op, const Operands &in) {
  const Tensor &x = in[op.getImage()], &k = in[op.getKernel()], *bias = in.find(op.getBias());
  Tensor made = each(op.getResult(), [&](const Index &i) { return bias ? bias->at({i[1]}) : 0; });
  eachProduct(op, x.dims, k.dims, made.dims,
              [&](const Index &i, const Index &w, const Index &r) { made.at(r) += x.at(i) * k.at(w); });
  return {made};
}
std::vector<Tensor> convDataGrad(ConvDataGradOp op, const Operands &in) {
  const Tensor &dy = in[op.getGradient()], &k = in[op.getKernel()];
  Tensor made = zeros(op.getResult());
  eachProduct(op, made.dims, k.dims, dy.dims,
              [&](const Index &i, const Index &w, const Index &r) { made.at(i) += dy.at(r) * k.at(w); });
  return {made};
}
std::vector<Tensor> convWeightGrad(ConvWeightGradOp op, const Operands &in) {
  const Tensor &dy = in[op.getGradient()], &x = in[op.getImage()];
  Tensor made = zeros(op.getResult());
  eachProduct(op, x.dims, made.dims, dy.dims,
              [&](const Index &i, const Index &w, const Index &r) { made.at(w) += dy.at(r) * x.at(i); });
  return {made};
}

std::vector<Tensor> pool(PoolOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  bool largest = op.getKind() == "max";
  return {each(op.getResult(), [&](const Index &r) {
    double value = largest ? -std::numeric_limits<double>::infinity() : 0, count = 0;
    eachSeen(op, behind(r), op.getSize().vec(), behind(x.dims), [&](const Index &, const Index &element) {
      double seen = x.at(joined(r[0], r[1], element));
      value = largest ? std::max(value, seen) : value + seen;
      ++count;
    });
    return op.getKind() == "mean" && count > 0 ? value / count : value;
  })};
}
std::vector<Tensor> poolGrad(PoolGradOp op, const Operands &in) {
  const Tensor &dy = in[op.getGradient()], *x = in.find(op.getOperand());
  Tensor made = zeros(op.getResult());
  forEach(dy.dims, [&](const Index &r) {
    std::vector<Index> seen;
    eachSeen(op, behind(r), op.getSize().vec(), behind(made.dims),
             [&](const Index &, const Index &element) { seen.push_back(joined(r[0], r[1], element)); });
    auto first = [&] {
      return *std::max_element(seen.begin(), seen.end(),
                               [&](const Index &a, const Index &b) { return x->at(a) < x->at(b); });
    };
    if (op.getKind() == "max" && !seen.empty())
      made.at(first()) += dy.at(r);
    else
      for (const Index &element : seen)
        made.at(element) += dy.at(r) / (op.getKind() == "mean" ? double(seen.size()) : 1);
  });
  return {made};
}

//===-- experts ---------------------------------------------------------------------------------------------===//

Index entryOf(int64_t expert, int64_t k, int64_t n, bool transposed) {
  return transposed ? Index{expert, n, k} : Index{expert, k, n};
}
std::vector<Tensor> expertMatmul(ExpertMatmulOp op, const Operands &in) {
  const Tensor &lhs = in[op.getLhs()], &weight = in[op.getWeight()], &experts = in[op.getExperts()];
  return {each(op.getResult(), [&](const Index &i) {
    double sum = 0;
    for (int64_t k = 0; k < lhs.dims[1]; ++k)
      sum += lhs.at({i[0], k}) * weight.at(entryOf(int64_t(experts.at({i[0]})), k, i[1], op.getTransposed()));
    return sum;
  })};
}
std::vector<Tensor> expertMatmulGrad(ExpertMatmulGradOp op, const Operands &in) {
  const Tensor &dy = in[op.getGradient()], &lhs = in[op.getLhs()], &experts = in[op.getExperts()];
  Tensor made = zeros(op.getResult());
  forEach(dy.dims, [&](const Index &i) {
    for (int64_t k = 0; k < lhs.dims[1]; ++k)
      made.at(entryOf(int64_t(experts.at({i[0]})), k, i[1], op.getTransposed())) += dy.at(i) * lhs.at({i[0], k});
  });
  return {made};
}

//===-- put and picked --------------------------------------------------------------------------------------===//

double combined(StringRef kind, double there, double update) {
  if (kind == "add")
    return there + update;
  if (kind == "mul")
    return there * update;
  if (kind == "none")
    return update;
  return kind == "max" ? std::max(there, update) : std::min(there, update);
}
/// The entry an index names: from the end where it is negative.
int64_t entry(double index, int64_t size) { return int64_t(index) + (index < 0 ? size : 0); }

std::vector<Tensor> scatter(ScatterOp op, const Operands &in) {
  const Tensor &indices = in[op.getIndices()], &updates = in[op.getUpdates()];
  Tensor made = in[op.getData()];
  auto axis = static_cast<std::ptrdiff_t>(op.getAxis()), rank = static_cast<std::ptrdiff_t>(indices.dims.size());
  forEach(updates.dims, [&](const Index &i) {
    Index to(i.begin(), i.begin() + axis), place(i.begin() + axis, i.begin() + axis + rank);
    to.push_back(entry(indices.at(place), made.dims[axis]));
    to.insert(to.end(), i.begin() + axis + rank, i.end());
    made.at(to) = combined(op.getKind(), made.at(to), updates.at(i));
  });
  return {made};
}
std::vector<Tensor> scatterElements(ScatterElementsOp op, const Operands &in) {
  const Tensor &indices = in[op.getIndices()], &updates = in[op.getUpdates()];
  Tensor made = in[op.getData()];
  forEach(updates.dims, [&](const Index &i) {
    Index to = with(i, op.getAxis(), entry(indices.at(i), made.dims[op.getAxis()]));
    made.at(to) = combined(op.getKind(), made.at(to), updates.at(i));
  });
  return {made};
}
std::vector<Tensor> topK(TopKOp op, const Operands &in) {
  const Tensor &x = in[op.getOperand()];
  int64_t last = static_cast<int64_t>(x.dims.size()) - 1;
  return {each(op.getResult(), [&](const Index &i) {
    std::vector<int64_t> places(x.dims.back());
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
      double left = x.at(with(i, last, a)), right = x.at(with(i, last, b));
      return op.getLargest() ? left > right : left < right;
    });
    return double(places[i.back()]);
  })};
}

} // namespace

void addWindowRules(Rules &rules) {
  addRule<ConvOp, conv>(rules);
  addRule<ConvDataGradOp, convDataGrad>(rules);
  addRule<ConvWeightGradOp, convWeightGrad>(rules);
  addRule<PoolOp, pool>(rules);
  addRule<PoolGradOp, poolGrad>(rules);
  addRule<ExpertMatmulOp, expertMatmul>(rules);
  addRule<ExpertMatmulGradOp, expertMatmulGrad>(rules);
  addRule<ScatterOp, scatter>(rules);
  addRule<ScatterElementsOp, scatterElements>(rules);
  addRule<TopKOp, topK>(rules);
}

} // namespace mt::nn::test
