// The walk of BatchFlow.h. Operations say where rows go (RowsOpInterface); here is what depends on data alone, and what
// parts of a sum need.
#include "passes/nn/BatchFlow.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
class Walk {
public:
  explicit Walk(func::FuncOp main) : main(main) {}

  BatchFlow run() {
    follow();
    if (!flow.culprit)
      finish();
    return std::move(flow);
  }

  /// Of `value` alone, which has no loss yet.
  std::optional<Rows> at(Value value) {
    SmallVector<Value> open{value};
    while (!open.empty())
      if (Operation *op = open.pop_back_val().getDefiningOp(); op && needed.insert(op).second)
        llvm::append_range(open, op->getOperands());
    follow();
    const Rows rows = flow.rows.lookup(value);
    return rows.isEach() ? std::optional(rows) : std::nullopt;
  }

private:
  func::FuncOp main;
  BatchFlow flow;
  llvm::DenseSet<Value> computed; ///< depends on a trainable parameter, or on a product: what layers compute
  llvm::DenseSet<Value> summed;   ///< depends on a sum over the step
  llvm::DenseSet<Operation *> needed; ///< what is followed; empty: all

  void follow() {
    readArguments();
    for (Operation &op : main.front().without_terminator()) {
      if (flow.culprit)
        return;
      if (needed.empty() || needed.contains(&op))
        visit(&op);
    }
  }

  void readArguments() {
    for (BlockArgument argument : main.getArguments()) {
      unsigned i = argument.getArgNumber();
      if (main.getArgAttr(i, kTrainableAttr))
        computed.insert(argument);
      if (main.getArgAttr(i, kParameterAttr) || main.getArgAttr(i, kScalarsAttr) || shapeOf(argument).empty())
        continue;
      if (flow.batch && flow.batch != shapeOf(argument)[0])
        return blame(nullptr, "has inputs of several batches");
      flow.rows[argument] = Rows::at(0);
      flow.batch = shapeOf(argument)[0];
    }
    auto loss = main->getParentOp()->getAttrOfType<StringAttr>(kLossAttr);
    flow.isOneRow = flow.batch == 1 && loss && !loss.getValue().starts_with("output:");
  }

  /// All of a value is of the one row, wherever it lies.
  static Rows ofOneRow(Value value) {
    ArrayRef<int64_t> shape = shapeOf(value);
    return shape.empty() ? Rows::sum() : Rows{Rows::each, 0, shape[0], 1, ""};
  }

  void visit(Operation *op) {
    SmallVector<Rows> rows;
    bool isComputed = isa<MatmulOp, AttentionOp>(op), followsSum = false;
    for (Value operand : op->getOperands()) {
      rows.push_back(flow.rows.lookup(operand));
      isComputed |= computed.contains(operand);
      followsSum |= summed.contains(operand);
    }
    OperandRows operands(op, rows);
    Rows result = rowsOfResults(op, operands);
    bool sums = result.kind == Rows::total && llvm::any_of(rows, [](const Rows &r) { return r.isEach(); });
    if (flow.isOneRow && (result.kind == Rows::mixed || result.kind == Rows::total)) { // sums of its own
      if (!flow.alone && (result.kind == Rows::mixed || isa<ReduceOp>(op)))
        flow.alone = op, flow.aloneBy = sayOf(op, sums ? "sums over the rows" : result.reason);
      for (Value value : op->getResults()) {
        flow.rows[value] = ofOneRow(value);
        if (isComputed)
          computed.insert(value);
      }
      return;
    }
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && sums && !isComputed && followsSum)
      result = Rows::mixing("sums over rows what depends on a sum over rows");
    else if (reduce && sums)
      result = reduceRows(reduce, isComputed);
    if (result.kind == Rows::mixed)
      return blame(op, result.reason);
    for (unsigned i = 0; i < rows.size(); ++i) {
      if (operands.isAdded(i)) // what is the same for all micro-batches is added once a step
        flow.edits.push_back({BatchEdit::scaleOperand, op, i});
      if (operands.met(i).isEach())
        flow.meetings.push_back({op, i, operands.met(i)});
    }
    for (Value value : op->getResults()) {
      flow.rows[value] = result;
      if (isComputed)
        computed.insert(value);
      if (followsSum || (sums && result.isNone()))
        summed.insert(value);
    }
  }

  /// A sum over rows of what layers compute is a part of the step's; one of data alone is made whole before the layers, so
  /// that anything may be computed from it.
  Rows reduceRows(ReduceOp reduce, bool isComputed) {
    bool isMean = reduce.getKind() == "mean";
    flow.sums.push_back(reduce);
    if (isComputed) {
      if (isMean)
        flow.edits.push_back({BatchEdit::scaleResult, reduce});
      return Rows::sum();
    }
    if (cast<ShapedType>(reduce.getType()).getNumElements() != 1)
      return Rows::mixing("sums several numbers over the rows");
    flow.edits.push_back({BatchEdit::sumResult, reduce, 0, isMean});
    return {};
  }

  void finish() {
    Operation *exit = main.front().getTerminator();
    Rows loss = flow.rows.lookup(exit->getOperand(0));
    if (loss.isNone())
      flow.edits.push_back({BatchEdit::scaleOperand, exit});
    else if (loss.kind != Rows::total && !flow.isOneRow)
      blame(exit->getOperand(0).getDefiningOp(), "gives a loss that is no sum over rows");
  }

  static std::string sayOf(Operation *op, StringRef reason) {
    return op->getName().stripDialect().str() + " " + reason.str();
  }

  void blame(Operation *op, StringRef reason) {
    flow.culprit = op ? op : main.getOperation();
    flow.reason = sayOf(flow.culprit, reason);
  }
};
} // namespace

BatchFlow followRows(func::FuncOp main) { return Walk(main).run(); }
std::optional<Rows> rowsIn(Value value, func::FuncOp main) { return Walk(main).at(value); }

} // namespace mt::passes
