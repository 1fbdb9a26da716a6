// mt-remark-attention: says which attention stayed decomposed and which masks stayed tensors, why, and what that costs. Layers that are alike
// get equal remarks, which mtc prints once.
#include "passes/nn/MaskPredicate.h"
#include "passes/nn/Match.h"
#include "passes/nn/MatchScores.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_REMARKATTENTION
#include "passes/Passes.h.inc"
using namespace nn;
using namespace passes;

namespace {

int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * static_cast<int64_t>((type.getElementTypeBitWidth() + 7) / 8);
}
std::string costOf(Value value) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "[";
  llvm::interleaveComma(shapeOf(value), out);
  out << "], " << bytesOf(value) << " bytes";
  return text;
}

/// The first operation, from `value` back, for which `wanted` holds; never through a product or an attention. `budget`
/// bounds the operations that are looked at.
Operation *behind(Value value, int64_t &budget, llvm::function_ref<bool(Operation *)> wanted) {
  Operation *op = value.getDefiningOp();
  if (!op || wanted(op))
    return op;
  if (budget-- <= 0 || isa<MatmulOp, AttentionOp, SoftmaxOp, EmbeddingOp>(op))
    return nullptr;
  for (Value operand : op->getOperands())
    if (Operation *found = behind(operand, budget, wanted))
      return found;
  return nullptr;
}

/// Whether numbers that hide take part in a value, or a float input does.
bool isMaskLike(Value value, int64_t &budget) {
  if (budget-- <= 0)
    return false;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    return function && function.getArgAttr(argument.getArgNumber(), kInputAttr) && nn::isReal(value);
  }
  return isVeryNegative(value) ||
         llvm::any_of(value.getDefiningOp()->getOperands(), [&](Value operand) { return isMaskLike(operand, budget); });
}

/// The terms of a bias that look like masks.
void explain(AttentionOp op) {
  ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey());
  ScoreShape shape{q[0], q[2], q[1], k[1]};
  if (shapeOf(op.getBias())[3] != k[1])
    return; // by distance
  OpBuilder builder(op);
  for (Value term : termsOf(op.getBias(), bool(op.getSink()))) {
    MaskPredicate predicate;
    std::string why = "offsets of queries are not looked at";
    int64_t budget = 256;
    if (isMaskLike(term, budget) && (op.getOffset() != 0 || !addMask(builder, term, shape, predicate, why)))
      return (void)(op->emitRemark() << "a mask stays a tensor of " << costOf(op.getBias()) << ": " << why);
  }
}
/// Probabilities of scores that are a product of activations, times values.
void explain(MatmulOp op) {
  int64_t near = 16, far = 64;
  bool values = shapeOf(op.getRhs()).size() > 2 && shapeOf(op.getRhs()).size() == shapeOf(op.getLhs()).size();
  auto isSoftmax = [](Operation *op) { return isa<SoftmaxOp>(op); };
  auto isProduct = [](Operation *op) { return isa<MatmulOp>(op) && shapeOf(op->getOperand(1)).size() > 2; };
  Operation *softmax = values ? behind(op.getLhs(), near, isSoftmax) : nullptr;
  std::string why;
  if (softmax && behind(softmax->getOperand(0), far, isProduct) && !matchScores(op, why))
    softmax->emitRemark() << "attention stays decomposed, its scores a tensor of " << costOf(softmax->getResult(0))
                          << ": " << why;
}

struct RemarkAttention : impl::RemarkAttentionBase<RemarkAttention> {
  void runOnOperation() override {
    SmallVector<Operation *> ops; // before a mask is tried, which may build operations
    getOperation()->walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops)
      if (auto attention = dyn_cast<AttentionOp>(op); attention && attention.getBias())
        explain(attention);
      else if (auto product = dyn_cast<MatmulOp>(op))
        explain(product);
    for (auto function : getOperation().getOps<func::FuncOp>()) // what trying built
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
        if (isOpTriviallyDead(&op))
          op.erase();
  }
};
} // namespace
} // namespace mt
