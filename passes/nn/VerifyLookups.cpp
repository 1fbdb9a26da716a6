// mt-verify-lookups: closes phase nn. What the model looks up by indices of its own, such as positions, must be there;
// indices that are fed are checked when they come.
#include "passes/nn/IndexExpression.h"
#include "passes/Passes.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_VERIFYLOOKUPS
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
struct VerifyLookups : impl::VerifyLookupsBase<VerifyLookups> {
  using VerifyLookupsBase::VerifyLookupsBase;

  static LogicalResult verify(Operation *op, int64_t entries, Value indices) {
    passes::IndexEvaluator evaluator(shapeOf(indices));
    passes::ExpressionRef index = evaluator.element(indices, evaluator.indicesFor(indices));
    if (index->kind != passes::Expression::affine)
      return success();
    auto [low, high] = evaluator.rangeOf(index->number);
    if (low >= -entries && high < entries)
      return success();
    return op->emitOpError() << "looks up entry " << (high < entries ? low : high) << " of " << entries
                             << "; if these are positions, compile with a --seq that the model has positions for";
  }

  void runOnOperation() override {
    bool good = true;
    getOperation().walk([&](Operation *op) {
      if (auto embedding = dyn_cast<EmbeddingOp>(op))
        good &= succeeded(verify(op, shapeOf(embedding.getTable())[0], embedding.getIds()));
      if (auto gather = dyn_cast<GatherOp>(op))
        good &= succeeded(verify(op, shapeOf(gather.getData())[gather.getAxis()], gather.getIndices()));
    });
    if (!good)
      signalPassFailure();
  }
};
} // namespace
} // namespace mt
