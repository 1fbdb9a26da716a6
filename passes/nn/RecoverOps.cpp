// mt-recover-ops: the pass that applies the patterns of the Recover*.cpp files until none applies.
#include "passes/Passes.h"
#include "passes/nn/Match.h"
#include "passes/nn/RestateMasks.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_RECOVEROPS
#include "passes/Passes.h.inc"

namespace {
struct RecoverOps : impl::RecoverOpsBase<RecoverOps> {
  using RecoverOpsBase::RecoverOpsBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    passes::addLookupPatterns(patterns);
    passes::addPlacePatterns(patterns);
    passes::addProductPatterns(patterns);
    passes::addExpertPatterns(patterns);
    passes::addNormPatterns(patterns);
    passes::addActivationPatterns(patterns);
    passes::addRotaryPatterns(patterns);
    passes::addAttentionPatterns(patterns);
    passes::addSegmentPatterns(patterns);
    passes::addDistancePatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError("patterns of mt-recover-ops do not come to an end");
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) // what no pattern made an attention
      if (!function.isExternal())
        passes::restateMasks(function);
  }
};
} // namespace
} // namespace mt
