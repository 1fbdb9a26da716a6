// The walk of BatchFlow.h. Operations say where rows go (RowsOpInterface); here is what depends on data alone, and what
// parts of a sum need.
#include "passes/BatchFlow.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
class Walk {
public:
  explicit Walk(func::FuncOp main) : main(main) {}

  BatchFlow run() {
    readArguments();
    for (Operation &op : main.front().without_terminator()) {
      visit(&op);
      if (flow.culprit)
        return std::move(flow);
    }
    finish();
    return std::move(flow);
  }

private:
  func::FuncOp main;
  BatchFlow flow;
  llvm::DenseMap<Value, Rows> rows;
  llvm::DenseSet<Value> trained; ///< depends on a trainable parameter
  llvm::DenseSet<Value> summed;  ///< depends on a sum over the step

  void readArguments() {
    for (BlockArgument argument : main.getArguments()) {
      unsigned i = argument.getArgNumber();
      if (main.getArgAttr(i, kTrainableAttr))
        trained.insert(argument);
      if (main.getArgAttr(i, kParameterAttr) || main.getArgAttr(i, kScalarsAttr) || shapeOf(argument).empty())
        continue;
      rows[argument] = Rows::at(0);
      flow.microBatch = shapeOf(argument)[0];
    }
  }

  void visit(Operation *op) {
    SmallVector<Rows> operands;
    bool learns = false, followsSum = false;
    for (Value operand : op->getOperands()) {
      operands.push_back(rows.lookup(operand));
      learns |= trained.contains(operand);
      followsSum |= summed.contains(operand);
    }
    Rows result = rowsOfResults(op, operands);
    bool sums = result.kind == Rows::total && llvm::any_of(operands, [](const Rows &r) { return r.isEach(); });
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && sums && !learns && followsSum)
      result = Rows::mixing("sums over rows what depends on a sum over rows");
    else if (reduce && sums)
      result = reduceRows(reduce, learns);
    else if (result.kind == Rows::total && isa<AddOp, SubOp, SelectOp, ConcatOp>(op))
      scaleConstants(op, operands);
    if (result.kind == Rows::mixed)
      return blame(op, result.reason);
    for (Value value : op->getResults()) {
      rows[value] = result;
      if (learns)
        trained.insert(value);
      if (followsSum || (sums && result.isNone()))
        summed.insert(value);
    }
  }

  /// A sum over rows of what is learned is a part of the step's; one of data alone is made whole at once, so that
  /// anything may be computed from it.
  Rows reduceRows(ReduceOp reduce, bool learns) {
    bool isMean = reduce.getKind() == "mean";
    flow.sums.push_back(reduce);
    if (learns) {
      if (isMean)
        flow.edits.push_back({BatchEdit::scaleResult, reduce});
      return Rows::sum();
    }
    if (cast<ShapedType>(reduce.getType()).getNumElements() != 1)
      return Rows::mixing("sums several numbers over the rows");
    flow.edits.push_back({BatchEdit::sumResult, reduce, 0, isMean});
    return {};
  }

  /// What is the same for all micro-batches is added once a step.
  void scaleConstants(Operation *op, ArrayRef<Rows> operands) {
    for (unsigned i = isa<SelectOp>(op) ? 1 : 0; i < operands.size(); ++i)
      if (auto value = splatValue(op->getOperand(i)); operands[i].isNone() && !(value && *value == 0))
        flow.edits.push_back({BatchEdit::scaleOperand, op, i});
  }

  void finish() {
    Operation *exit = main.front().getTerminator();
    Rows loss = rows.lookup(exit->getOperand(0));
    if (loss.isNone())
      flow.edits.push_back({BatchEdit::scaleOperand, exit});
    else if (loss.kind != Rows::total)
      blame(exit->getOperand(0).getDefiningOp(), "gives a loss that is no sum over rows");
  }

  void blame(Operation *op, StringRef reason) {
    flow.culprit = op ? op : main.getOperation();
    flow.reason = flow.culprit->getName().stripDialect().str() + " " + reason.str();
  }
};
} // namespace

BatchFlow followRows(func::FuncOp main) { return Walk(main).run(); }

} // namespace mt::passes
