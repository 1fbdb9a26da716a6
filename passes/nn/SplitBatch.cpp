// mt-split-batch: a loss over the rows of a micro-batch becomes the micro-batch's part of the loss over the batch.
#include "passes/nn/BatchFlow.h"
#include "passes/nn/LossLabels.h"
#include "passes/nn/PartOfBatch.h"
#include "passes/Passes.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_SPLITBATCH
#include "passes/Passes.h.inc"
using namespace nn;
using passes::BatchEdit;

namespace {
struct SplitBatch : impl::SplitBatchBase<SplitBatch> {
  using SplitBatchBase::SplitBatchBase;

  double share = 1; ///< of the batch that a micro-batch is

  Value scaled(OpBuilder &builder, Value value) {
    return MulOp::create(builder, value.getLoc(), value, scalarLike(builder, value, share));
  }

  void apply(const BatchEdit &edit) {
    OpBuilder builder(edit.op);
    if (edit.kind == BatchEdit::scaleOperand)
      return edit.op->setOperand(edit.index, scaled(builder, edit.op->getOperand(edit.index)));
    builder.setInsertionPointAfter(edit.op);
    Value result = edit.op->getResult(0), changed = result;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : result.getUses())
      uses.push_back(&use);
    if (edit.kind == BatchEdit::scaleResult || edit.isMean)
      changed = scaled(builder, changed);
    if (edit.kind == BatchEdit::sumResult)
      changed = reshapeTo(builder, StepSumOp::create(builder, result.getLoc(), reshapeTo(builder, changed, {})), shapeOf(result));
    for (OpOperand *use : uses)
      use->set(changed);
  }

  /// Whether a row adds to the loss even if none of its labels counts: to means over rows, and to sums of what is not
  /// zero there.
  static bool everyRowCounts(func::FuncOp main, const passes::BatchFlow &flow) {
    bool mean = llvm::any_of(flow.edits, [](const BatchEdit &edit) { return edit.kind == BatchEdit::scaleResult || edit.isMean; });
    return mean || llvm::any_of(flow.sums, [&](Operation *sum) { return !passes::isZeroWhereIgnored(main, sum->getOperand(0)); });
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(kMainName);
    if (!main || main.isExternal())
      return signalPassFailure();
    passes::BatchFlow flow = passes::followRows(main);
    for (RunningStatisticOp statistic : main.getOps<RunningStatisticOp>())
      if (!flow.culprit)
        flow.culprit = statistic, flow.reason = "a step moves its running statistics once";
    auto loss = getOperation()->getAttrOfType<StringAttr>(kLossAttr);
    auto dividesByData = [](const BatchEdit &edit) { return edit.kind == BatchEdit::sumResult; };
    auto isOfNoRow = [](const BatchEdit &edit) { return edit.kind == BatchEdit::scaleOperand; };
    if (loss && loss.getValue().starts_with("output:") && !flow.culprit && llvm::none_of(flow.edits, dividesByData)) {
      getOperation()->setAttr(kLossOfRowsAttr, UnitAttr::get(&getContext()));
      if (llvm::any_of(flow.edits,
                       isOfNoRow)) // what is there once a batch must not weigh more in one that is filled up
        getOperation()->setAttr(kEveryRowAttr, UnitAttr::get(&getContext()));
    }
    int64_t whole = batch ? int64_t(batch) : flow.batch, part = microBatch ? int64_t(microBatch) : flow.batch;
    if (flow.culprit ? failed(refuse(flow, whole, part)) : failed(split(main, flow, whole, part)))
      signalPassFailure();
  }

  /// Rows see each other: only the whole batch will do.
  LogicalResult refuse(const passes::BatchFlow &flow, int64_t whole, int64_t part) {
    Builder builder(&getContext());
    std::string node = nodeOf(flow.culprit->getLoc());
    getOperation()->setAttr(kMixedAttr, builder.getStringAttr((node.empty() ? "" : "node '" + node + "': ") + flow.reason));
    getOperation()->setAttr(kEveryRowAttr, builder.getUnitAttr());
    if (whole != part) {
      InFlightDiagnostic error = flow.culprit->emitError()
                                 << "rows of the batch see each other: " << flow.reason
                                 << ", so that micro-batches do not add up to the loss of the batch; ";
      if (flow.batch && flow.batch != whole)
        return error << "the graph fixes its batch: compile with --batch " << flow.batch
                     << ", or export the model with a dynamic batch";
      return error << "compile with --micro-batch " << whole << " (the whole batch), or a smaller --batch";
    }
    if (whole > 1)
      flow.culprit->emitWarning()
          << "rows of the batch see each other: " << flow.reason
          << "; the micro-batch is the whole batch, and evaluation leaves out rows that do not fill one"
          << "; if the batch is another dimension of the inputs, give --batch-dim";
    return success();
  }

  LogicalResult split(func::FuncOp main, const passes::BatchFlow &flow, int64_t whole, int64_t part) {
    if (everyRowCounts(main, flow))
      getOperation()->setAttr(kEveryRowAttr, UnitAttr::get(&getContext()));
    if (whole == part)
      return success();
    if (flow.alone)
      flow.alone->emitRemark()
          << "the graph has one row, and each is computed alone, as by a loop over rows; of several, " << flow.aloneBy
          << ", or so it looks: where they are to see each other, export the model with a "
          << "dynamic batch";
    auto loss = getOperation()->getAttrOfType<StringAttr>(kLossAttr);
    if (flow.batch != whole && (!flow.edits.empty() || !loss || loss.getValue().starts_with("output:")))
      return main.emitError() << "the graph fixes its batch, " << flow.batch << " rows, and its loss may depend on that number, so that "
                              << "micro-batches need not add up to the loss of " << whole << "; give --batch " << flow.batch
                              << ", or export the model with a dynamic batch";
    share = static_cast<double>(part) / static_cast<double>(whole);
    for (const BatchEdit &edit : flow.edits)
      apply(edit);
    return flow.batch == part ? success() : passes::takePart(main, flow, part);
  }
};
} // namespace
} // namespace mt
