// mt-number-rows: what random numbers of a batch need to be the same in micro-batches, and what users should know of
// them.
#include "passes/Passes.h"
#include "passes/nn/BatchFlow.h"

#include <fmt/format.h>

#include <map>
#include <numeric>

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_NUMBERROWS
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
struct NumberRows : impl::NumberRowsBase<NumberRows> {
  using NumberRowsBase::NumberRowsBase;

  func::FuncOp main;
  Value numbers; ///< null until an operation needs them

  Value rowNumbers(int64_t batch) {
    if (numbers)
      return numbers;
    Builder builder(&getContext());
    unsigned index = main.getNumArguments();
    DictionaryAttr attributes = builder.getDictionaryAttr(builder.getNamedAttr(kRowsAttr, builder.getUnitAttr()));
    (void)main.insertArgument(index, tensorOf({batch}, builder.getI64Type()), attributes, main.getLoc());
    return numbers = main.getArgument(index);
  }

  /// Elements before the rows of `like`, which are `rows`, in row-major order.
  static int64_t outerOf(Value like, const Rows &rows) {
    ArrayRef<int64_t> before = shapeOf(like).take_front(rows.dim);
    return std::accumulate(before.begin(), before.end(), rows.outer, std::multiplies<>());
  }

  template <typename Op> void number(Op op, Value like, const passes::BatchFlow &flow) {
    Rows rows = like ? flow.rows.lookup(like) : Rows();
    op.getRowsMutable().clear();
    if (!rows.isEach() && !flow.isOneRow)
      return;
    op.setOuter(rows.isEach() ? outerOf(like, rows) : 1);
    op.getRowsMutable().assign(rowNumbers(flow.batch));
  }

  void remark(ArrayRef<DropoutOp> dropouts) {
    std::map<double, int64_t> counts;
    for (DropoutOp op : dropouts)
      ++counts[op.getRatio().convertToDouble()];
    std::string ratios;
    for (auto [ratio, count] : counts)
      ratios += fmt::format("{}{} of ratio {:.4g}", ratios.empty() ? "" : ", ", count, ratio);
    main.emitRemark() << "dropout in training form: " << ratios
                      << "; on in training, where mtrun's --seed decides what is dropped, "
                      << "and off in evaluations";
  }

  void runOnOperation() override {
    main = getOperation().lookupSymbol<func::FuncOp>(kMainName);
    if (!main || main.isExternal())
      return signalPassFailure();
    SmallVector<DropoutOp> dropouts(main.front().getOps<DropoutOp>());
    SmallVector<RandomOp> others(main.front().getOps<RandomOp>());
    if (dropouts.empty() && others.empty())
      return;
    passes::BatchFlow flow = passes::followRows(main);
    for (DropoutOp op : dropouts)
      number(op, op.getOperand(), flow);
    for (RandomOp op : others)
      number(op, op.getRows(), flow);
    if (!dropouts.empty())
      remark(dropouts);
  }
};
} // namespace
} // namespace mt
