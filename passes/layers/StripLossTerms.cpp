// mt-strip-loss-terms: evaluations have the cross-entropy that models are compared by.
#include "passes/Passes.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_STRIPLOSSTERMS
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
template <typename Loss> void strip(Loss loss) {
  loss.removeLabelSmoothingAttr();
  loss.removeZLossAttr();
}

struct StripLossTerms : impl::StripLossTermsBase<StripLossTerms> {
  using StripLossTermsBase::StripLossTermsBase;

  void runOnOperation() override {
    getOperation().walk([](CrossEntropyOp loss) { strip(loss); });
    getOperation().walk([](LinearCrossEntropyOp loss) { strip(loss); });
  }
};
} // namespace
} // namespace mt
