// The matchers of Match.h.
#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
void collect(Value value, bool top, Product &product) {
  if (auto number = splatValue(value)) {
    product.scale *= *number;
    return;
  }
  Operation *op = value.getDefiningOp();
  bool open = op && (top || value.hasOneUse());
  if (auto mul = dyn_cast_or_null<MulOp>(op); mul && open) {
    collect(mul.getLhs(), false, product);
    collect(mul.getRhs(), false, product);
    return;
  }
  if (auto div = dyn_cast_or_null<DivOp>(op); div && open)
    if (auto number = splatValue(div.getRhs())) {
      product.scale /= *number;
      return collect(div.getLhs(), false, product);
    }
  if (auto neg = dyn_cast_or_null<NegOp>(op); neg && open) {
    product.scale = -product.scale;
    return collect(neg.getOperand(), false, product);
  }
  if (auto pow = dyn_cast_or_null<PowOp>(op); pow && open)
    if (auto number = splatValue(pow.getRhs()); number && (*number == 2 || *number == 3)) {
      product.factors.append(size_t(*number), pow.getLhs());
      return;
    }
  product.factors.push_back(value);
}

void collect(Value value, bool top, Sum &sum) {
  if (auto number = splatValue(value)) {
    sum.constant += *number;
    return;
  }
  auto add = value.getDefiningOp<AddOp>();
  if (add && (top || value.hasOneUse())) {
    collect(add.getLhs(), false, sum);
    collect(add.getRhs(), false, sum);
    return;
  }
  sum.terms.push_back(value);
}
} // namespace

Product flattenProduct(Value value) {
  Product product;
  collect(value, true, product);
  return product;
}

Sum flattenSum(Value value) {
  Sum sum;
  collect(value, true, sum);
  return sum;
}

std::optional<std::pair<Value, double>> scaledBy(Value value) {
  if (auto mul = value.getDefiningOp<MulOp>())
    for (auto [x, f] : {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())})
      if (auto number = splatValue(f); number && x.getType() == value.getType())
        return std::pair(x, *number);
  if (auto div = value.getDefiningOp<DivOp>())
    if (auto number = splatValue(div.getRhs()); number && div.getLhs().getType() == value.getType())
      return std::pair(div.getLhs(), 1 / *number);
  return std::nullopt;
}

Value squareOf(Value value) {
  if (auto mul = value.getDefiningOp<MulOp>())
    return mul.getLhs() == mul.getRhs() ? mul.getLhs() : Value();
  if (auto pow = value.getDefiningOp<PowOp>())
    if (auto number = splatValue(pow.getRhs()); number && *number == 2)
      return pow.getLhs();
  return {};
}

bool reducesLast(ReduceOp op, StringRef kind) {
  int64_t last = int64_t(shapeOf(op.getOperand()).size()) - 1;
  return op.getKind() == kind && op.getAxes().size() == 1 && op.getAxes()[0] == last;
}

Value asRow(PatternRewriter &rewriter, Value value, int64_t width) {
  ArrayRef<int64_t> shape = shapeOf(value);
  if (shape.empty() || shape.back() != width || llvm::any_of(shape.drop_back(), [](int64_t size) { return size != 1; }))
    return {};
  return reshapeTo(rewriter, value, {width});
}

} // namespace mt::passes
