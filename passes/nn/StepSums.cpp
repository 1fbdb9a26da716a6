#include "passes/nn/StepSums.h"

#include "compiler/nn/Nn.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// What `sums` depend on, in block order, and the arguments of `main` among it.
void collect(func::FuncOp main, ArrayRef<StepSumOp> sums, llvm::SetVector<Operation *> &ops, llvm::SetVector<Value> &inputs) {
  llvm::DenseSet<Operation *> needed(sums.begin(), sums.end());
  for (Operation &op : llvm::reverse(main.front()))
    if (needed.contains(&op))
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp())
          needed.insert(producer);
  for (Operation &op : main.front())
    if (needed.contains(&op)) {
      ops.insert(&op);
      for (Value operand : op.getOperands())
        if (isa<BlockArgument>(operand))
          inputs.insert(operand);
    }
}
} // namespace

void outlineStepSums(func::FuncOp main) {
  SmallVector<StepSumOp> sums(main.front().getOps<StepSumOp>());
  if (sums.empty())
    return;
  llvm::SetVector<Operation *> ops;
  llvm::SetVector<Value> inputs;
  collect(main, sums, ops, inputs);
  MLIRContext *context = main.getContext();
  OpBuilder builder(context);
  SmallVector<Value> results(sums.begin(), sums.end()), returned;
  auto unknown = UnknownLoc::get(context);
  auto function = func::FuncOp::create(unknown, "step_sums",
                                       builder.getFunctionType(ValueRange(inputs.getArrayRef()).getTypes(), ValueRange(results).getTypes()));
  function.setPrivate();
  main->getParentOfType<ModuleOp>().push_back(function);
  builder.setInsertionPointToStart(function.addEntryBlock());
  IRMapping mapping;
  mapping.map(inputs.getArrayRef(), function.getArguments());
  for (Operation *op : ops)
    if (auto sum = dyn_cast<StepSumOp>(op)) // of a micro-batch the call's results are what is added up
      mapping.map(sum.getResult(), mapping.lookup(sum.getOperand()));
    else
      builder.clone(*op, mapping);
  for (Value sum : results)
    returned.push_back(mapping.lookup(sum));
  func::ReturnOp::create(builder, unknown, returned);
  builder.setInsertionPointToStart(&main.front());
  auto call = func::CallOp::create(builder, NameLoc::get(builder.getStringAttr("step sums")), function, inputs.getArrayRef());
  call->setAttr(kStepSumsAttr, builder.getUnitAttr());
  for (auto [sum, result] : llvm::zip(sums, call.getResults()))
    sum.getResult().replaceAllUsesWith(result);
  for (Operation *op : llvm::reverse(ops.getArrayRef()))
    if (op->use_empty())
      op->erase();
}

} // namespace mt::passes
