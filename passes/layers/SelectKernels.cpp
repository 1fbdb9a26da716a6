// mt-select-kernels: templates made to fit the kernel catalogue.
#include "compiler/nn/KernelCall.h"
#include "compiler/target/CostModel.h"
#include "kernels/Blocks.h"
#include "passes/Passes.h"
#include "passes/Settings.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_SELECTKERNELS
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
/// Bytes of logits that a chunk of the fused head and loss holds where no more are worth it, and at most.
constexpr int64_t kChunkBytes = 64 << 20, kMostChunkBytes = 512 << 20;
/// How much longer than with the best chunk a head may take.
constexpr double kNearBest = 1.02;

/// Rows per chunk: as many as kChunkBytes hold, at least 16, in as few chunks evenly, of multiples of 16. Each chunk reads the
/// weight, and its gradient's sums again: on a target where that costs time, the smallest that comes near the best.
template <typename Op> void setChunk(Op op, const target::Target *target) {
  if (op.getChunk() > 0)
    return;
  const int64_t rows = shapeOf(op.getHidden())[0], classes = shapeOf(op.getWeight())[op.getTransposed() ? 1 : 0];
  const int64_t least = std::max<int64_t>(16, kChunkBytes / (4 * classes) / 16 * 16);
  auto evenly = [&](int64_t chunk) { return std::min(rows, kernels::Chunks(rows, kernels::ceilDivide(rows, chunk), 16).size); };
  op.setChunk(evenly(least));
  if (!target)
    return;
  std::vector<std::pair<int64_t, double>> tried;
  for (int64_t chunk = least; tried.empty() || (chunk / 2 < rows && 4 * classes * chunk <= kMostChunkBytes); chunk *= 2) {
    op.setChunk(evenly(chunk));
    tried.emplace_back(op.getChunk(), target::kernelSeconds(*target, kernelCallOf(op).signature));
  }
  const double best = std::ranges::min_element(tried, {}, &std::pair<int64_t, double>::second)->second;
  op.setChunk(std::ranges::find_if(tried, [&](const auto &one) { return one.second <= kNearBest * best; })->first);
}

struct SelectKernels : impl::SelectKernelsBase<SelectKernels> {
  using SelectKernelsBase::SelectKernelsBase;

  /// Whether the result of a kernel call can be written to, and added to, a place of its caller's.
  static bool canBeResult(Value value, const llvm::DenseSet<Value> &taken, bool accumulates) {
    Value source = viewedBy(value);
    Operation *producer = source.getDefiningOp();
    if (!producer || taken.contains(source))
      return false;
    KernelCall call = kernelCallOf(producer);
    const kernels::Kernel *kernel = kernels::find(call.signature.kernel);
    unsigned index = cast<OpResult>(source).getResultNumber();
    bool readElsewhere = !value.hasOneUse() || (source != value && !source.hasOneUse());
    return kernel && (!accumulates || (!readElsewhere && (kernel->accumulates >> index & 1)));
  }

  /// Copies results that are views of arguments, returned twice, or cannot be added to.
  static void ownResults(func::FuncOp function) {
    auto exit = cast<func::ReturnOp>(function.front().getTerminator());
    OpBuilder builder(exit);
    llvm::DenseSet<Value> taken;
    for (OpOperand &operand : exit->getOpOperands()) {
      bool accumulates = function.getResultAttr(operand.getOperandNumber(), "nn.gradient") ||
                         function.getResultAttr(operand.getOperandNumber(), "nn.result") ||
                         cast<RankedTensorType>(operand.get().getType()).getRank() == 0;
      if (!canBeResult(operand.get(), taken, accumulates))
        operand.set(CopyOp::create(builder, operand.get().getLoc(), operand.get()));
      taken.insert(viewedBy(operand.get()));
    }
  }

  /// What is made of stored weights is made for each operation that uses it, just before it: it is larger than they
  /// are, and so is not kept from forward to backward, and no two of a template are there at once.
  static void makeWhereUsed(func::FuncOp function) {
    SmallVector<DequantizeOp> made(function.front().getOps<DequantizeOp>());
    for (DequantizeOp op : made) {
      if (!op.isOfStored())
        continue;
      const llvm::SetVector<Operation *> users(op->user_begin(), op->user_end());
      for (Operation *user : users) {
        if (!hasKernel(user) || user->hasTrait<OpTrait::IsTerminator>())
          continue; // a view, or a result
        Operation *again = OpBuilder(user).clone(*op);
        user->replaceUsesOfWith(op.getResult(), again->getResult(0));
      }
      if (op->use_empty())
        op->erase();
    }
  }

  /// What is made again of saved values stands where it is used first. Fusions were before: they look at the order of
  /// operations, which all rungs have alike until here.
  static void sinkMadeAgain(func::FuncOp function) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front()))) {
      if (!op.removeAttr(kAgainAttr))
        continue;
      if (!op.use_empty())
        op.moveBefore(*llvm::min_element(op.getUsers(),
                                         [](Operation *one, Operation *other) { return one->isBeforeInBlock(other); }));
    }
  }

  /// The model's node that each operation came from, from its location to an attribute: plans name it in messages, and
  /// text without locations must give the same plan.
  static void nameNodes(func::FuncOp function) {
    function.walk([](Operation *op) {
      std::string node = nodeOf(op->getLoc());
      if (!node.empty() && hasKernel(op) && !isa<func::FuncOp, func::ReturnOp>(op))
        op->setAttr(kNodeAttr, StringAttr::get(op->getContext(), node));
    });
  }

  LogicalResult checkKernels(func::FuncOp function) {
    bool good = true;
    for (Operation &op : function.front().without_terminator()) {
      if (!hasKernel(&op))
        continue;
      if (std::string wrong = kernels::check(kernelCallOf(&op).signature); !wrong.empty()) {
        op.emitOpError() << "has no kernel for these operands: " << wrong;
        good = false;
      }
    }
    return success(good);
  }

  void runOnOperation() override {
    bool good = true;
    std::optional<target::Target> target;
    if (getOperation()->hasAttr(kTargetAttr)) {
      auto stated = passes::readTarget(getOperation());
      if (failed(stated))
        return signalPassFailure();
      target = std::move(*stated);
    }
    const target::Target *costs = target ? &*target : nullptr;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.getName() == kMainName || function.isExternal())
        continue;
      function.walk([costs](Operation *op) {
        if (auto loss = dyn_cast<LinearCrossEntropyOp>(op))
          setChunk(loss, costs);
        if (auto loss = dyn_cast<LinearCrossEntropyGradOp>(op))
          setChunk(loss, costs);
      });
      makeWhereUsed(function);
      sinkMadeAgain(function);
      nameNodes(function);
      ownResults(function);
      good &= succeeded(checkKernels(function));
    }
    if (!good)
      signalPassFailure();
  }
};
} // namespace
} // namespace mt
