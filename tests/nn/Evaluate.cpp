// The walk over operations, and what their rules share.
#include "tests/nn/Evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

using namespace mlir;

namespace mt::nn::test {

size_t Tensor::place(const Index &index) const {
  size_t place = 0;
  bool inside = index.size() == dims.size();
  for (size_t i = 0; inside && i < dims.size(); ++i) {
    inside = index[i] >= 0 && index[i] < dims[i];
    place = place * static_cast<size_t>(dims[i]) + static_cast<size_t>(index[i]);
  }
  if (!inside) {
    std::fputs("the evaluator reads or writes outside a tensor\n", stderr);
    std::abort();
  }
  return place;
}

double Tensor::broadcastAt(const Index &index) const {
  Index own(index.end() - static_cast<std::ptrdiff_t>(dims.size()), index.end());
  for (size_t i = 0; i < own.size(); ++i)
    own[i] = dims[i] == 1 ? 0 : own[i];
  return at(own);
}

Tensor zeros(ArrayRef<int64_t> dims) {
  int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  return {dims.vec(), std::vector<double>(static_cast<size_t>(count), 0.0)};
}

void forEach(const Index &dims, llvm::function_ref<void(const Index &)> body) {
  if (llvm::is_contained(dims, 0))
    return;
  Index index(dims.size(), 0);
  while (true) {
    body(index);
    size_t i = dims.size();
    while (i > 0 && ++index[i - 1] == dims[i - 1])
      index[--i] = 0;
    if (i == 0)
      return;
  }
}

Tensor each(Value like, llvm::function_ref<double(const Index &)> element) {
  Tensor made = zeros(like);
  forEach(made.dims, [&](const Index &index) { made.at(index) = element(index); });
  return made;
}

Index with(Index index, int64_t axis, int64_t entry) {
  index[static_cast<size_t>(axis)] = entry;
  return index;
}

double logSumExp(ArrayRef<double> values) {
  double largest = -INFINITY, sum = 0;
  for (double value : values)
    largest = std::max(largest, value);
  for (double value : values)
    sum += value == largest ? 1 : std::exp(value - largest);
  return largest == -INFINITY ? largest : largest + std::log(sum);
}

static const Rules &rules() {
  static const Rules all = [] {
    Rules made;
    addElementwiseRules(made);
    addStructureRules(made);
    addProductRules(made);
    addRowRules(made);
    addRecurrenceRules(made);
    addAttentionRules(made);
    addLossRules(made);
    addRandomRules(made);
    addWindowRules(made);
    return made;
  }();
  return all;
}

/// Integers are those of their type: what it does not hold wraps.
static void wrap(Tensor &tensor, Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() == 1 || integer.getWidth() == 64)
    return;
  double all = std::ldexp(1, static_cast<int>(integer.getWidth())), least = integer.isUnsigned() ? 0 : -all / 2;
  for (double &value : tensor.values)
    value -= std::floor((value - least) / all) * all;
}

std::vector<Tensor> evaluate(Operation *op, const Environment &environment) {
  auto rule = rules().find(op->getName().getStringRef());
  if (rule == rules().end()) {
    std::fprintf(stderr, "the evaluator has no rule for %s\n", op->getName().getStringRef().str().c_str());
    std::abort();
  }
  std::vector<Tensor> results = rule->second(op, Operands(environment));
  for (auto [tensor, value] : llvm::zip(results, op->getResults()))
    wrap(tensor, getElementTypeOrSelf(value.getType()));
  return results;
}

std::vector<Tensor> evaluate(func::FuncOp function, const std::vector<Tensor> &arguments, Visit visit) {
  Environment environment;
  for (auto [argument, tensor] : llvm::zip(function.getArguments(), arguments))
    environment[argument] = tensor;
  for (Operation &op : function.front().without_terminator()) {
    std::vector<Tensor> results = evaluate(&op, environment);
    if (visit)
      visit(&op, environment, results);
    for (auto [value, tensor] : llvm::zip(op.getResults(), results))
      environment[value] = std::move(tensor);
  }
  std::vector<Tensor> results;
  for (Value value : function.front().getTerminator()->getOperands())
    results.push_back(environment[value]);
  return results;
}

} // namespace mt::nn::test
