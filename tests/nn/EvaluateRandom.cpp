// Random numbers and dropout, by the numbers of elements (tests/kernels/DrawReference.h).
#include "kernels/Types.h"
#include "tests/kernels/DrawReference.h"
#include "tests/nn/Evaluate.h"

using namespace mlir;

namespace mt::nn::test {
namespace {

using kernels::Scalars;
using kernels::test::DrawReference;

DrawReference drawOf(const Tensor &scalars, const Tensor &node) {
  return {scalars.values[Scalars::kSeed], scalars.values[Scalars::kDraw], node.values[0]};
}

/// `element` by the number and the place of every element of `like`, whose rows lie as [outer, rows, inner].
Tensor eachNumber(Value like, const Tensor *rows, int64_t outer, llvm::function_ref<double(uint64_t, size_t)> element) {
  Tensor made = zeros(like);
  const size_t total = made.values.size(), parts = static_cast<size_t>(outer), count = rows ? rows->values.size() : 1;
  for (size_t part = 0, at = 0; part < (rows ? parts : 1); ++part)
    for (size_t row = 0; row < count; ++row)
      for (size_t i = 0; i < total / count / (rows ? parts : 1); ++i, ++at) {
        const uint64_t inner = total / count / parts,
                       before = rows ? (static_cast<uint64_t>(rows->values[row]) * parts + part) * inner : 0;
        made.values[at] = element(before + i, at);
      }
  return made;
}

std::vector<Tensor> dropout(DropoutOp op, const Operands &in) {
  const DrawReference draw = drawOf(in[op.getScalars()], in[op.getNode()]);
  const Tensor &x = in[op.getOperand()];
  const double ratio = op.getRatio().convertToDouble();
  return {eachNumber(op.getResult(), in.find(op.getRows()), op.getOuter(),
                     [&](uint64_t number, size_t at) { return draw.dropped(number, ratio, x.values[at]); })};
}

std::vector<Tensor> random(RandomOp op, const Operands &in) {
  const DrawReference draw = drawOf(in[op.getScalars()], in[op.getNode()]);
  return {eachNumber(op.getResult(), in.find(op.getRows()), op.getOuter(), [&](uint64_t number, size_t) -> double {
    return op.getKind() == "normal"    ? draw.normal(number)
           : op.getKind() == "uniform" ? draw.uniform(number)
                                       : draw.keeps(number, op.getRatio().convertToDouble());
  })};
}

} // namespace

void addRandomRules(Rules &rules) {
  addRule<DropoutOp, dropout>(rules);
  addRule<RandomOp, random>(rules);
}

} // namespace mt::nn::test
