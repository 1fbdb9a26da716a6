// mt-add-predictions: what a language model says of the token that follows, beside the loss in an evaluation. Sampling
// reads it.
#include "passes/Passes.h"
#include "passes/Settings.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_ADDPREDICTIONS
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
constexpr double kIgnoredLabel = -100;

struct AddPredictions : impl::AddPredictionsBase<AddPredictions> {
  using AddPredictionsBase::AddPredictionsBase;

  /// For each row of tokens, the number among all rows' tokens of the last whose label counts; of a row without any the
  /// first.
  static Value lastLabelled(OpBuilder &builder, Location location, Value labels, int64_t sequence) {
    const int64_t rows = shapeOf(labels)[0] / sequence;
    auto integers = [&](ArrayRef<int64_t> shape) { return tensorOf(shape, builder.getI64Type()); };
    auto counted = [&](ArrayRef<int64_t> shape, int64_t dimension, double step) {
      return IotaOp::create(builder, location, integers(shape), dimension, APFloat(0.0), APFloat(step)).getResult();
    };
    Value table = reshapeTo(builder, castTo(builder, labels, builder.getI64Type()), {rows, sequence});
    Value counts = CompareOp::create(builder, location, table, scalarLike(builder, table, kIgnoredLabel), "ne");
    Value first = splat(builder, location, integers({rows, sequence}), 0);
    Value place = SelectOp::create(builder, location, counts, counted({rows, sequence}, 1, 1), first);
    Value last = ReduceOp::create(builder, location, place, "max", ArrayRef<int64_t>{1}, false);
    return AddOp::create(builder, location, last, counted({rows}, 0, static_cast<double>(sequence)));
  }

  static Value rowsOf(OpBuilder &builder, Location location, Value table, Value numbers) {
    return EmbeddingOp::create(builder, location, table, numbers, IntegerAttr());
  }

  /// Of the head: its product for these rows alone, in 32 bits.
  static Value predictions(OpBuilder &builder, LinearCrossEntropyOp head, int64_t sequence) {
    Location location = head.getLoc();
    Value hidden =
        rowsOf(builder, location, head.getHidden(), lastLabelled(builder, location, head.getLabels(), sequence));
    const int64_t classes = shapeOf(head.getWeight())[head.getTransposed() ? 1 : 0];
    Value logits = MatmulOp::create(builder, location, tensorOf({shapeOf(hidden)[0], classes}, builder.getF32Type()),
                                    hidden, head.getWeight(), head.getBias(), false, !head.getTransposed());
    const double scale = head.getLogitScale().convertToDouble(), cap = head.getSoftCap().convertToDouble();
    auto times = [&](Value value, double factor) {
      return factor == 1 ? value
                         : MulOp::create(builder, location, value, scalarLike(builder, value, factor)).getResult();
    };
    logits = times(logits, scale);
    return cap > 0 ? times(TanhOp::create(builder, location, times(logits, 1 / cap)), cap) : logits;
  }

  static Value predictions(OpBuilder &builder, CrossEntropyOp loss, int64_t sequence) {
    Value last = lastLabelled(builder, loss.getLoc(), loss.getLabels(), sequence);
    return castTo(builder, rowsOf(builder, loss.getLoc(), loss.getLogits(), last), builder.getF32Type());
  }

  /// Those of the one operation that is the loss; null where there is none that is known, or rows are no sequences.
  static Value predictionsOf(func::FuncOp function, int64_t sequence) {
    SmallVector<LinearCrossEntropyOp> heads(function.front().getOps<LinearCrossEntropyOp>());
    SmallVector<CrossEntropyOp> losses(function.front().getOps<CrossEntropyOp>());
    if (heads.size() + losses.size() != 1)
      return nullptr;
    Operation *loss = heads.empty() ? losses.front().getOperation() : heads.front().getOperation();
    Value labels = heads.empty() ? losses.front().getLabels() : heads.front().getLabels();
    if (sequence < 1 || shapeOf(labels)[0] % sequence != 0)
      return nullptr;
    OpBuilder builder(loss);
    return heads.empty() ? predictions(builder, losses.front(), sequence)
                         : predictions(builder, heads.front(), sequence);
  }

  void runOnOperation() override {
    plan::Settings settings;
    passes::readSettings(getOperation(), settings);
    auto main = getOperation().lookupSymbol<func::FuncOp>(kMainName);
    if (settings.loss != "causal-lm" || !main)
      return;
    for (auto call : main.front().getOps<func::CallOp>()) {
      if (llvm::none_of(call->getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); }))
        continue;
      auto loss = getOperation().lookupSymbol<func::FuncOp>(call.getCallee());
      auto both = cast<func::FuncOp>(loss->clone());
      both.setName(loss.getName().str() + passes::kPredicts.str());
      Value predicted = predictionsOf(both, settings.sequence);
      if (!predicted) {
        both.erase();
        continue;
      }
      both.front().getTerminator()->insertOperands(both.getNumResults(), predicted);
      (void)both.insertResult(both.getNumResults(), predicted.getType(), {});
      getOperation().push_back(both);
    }
  }
};
} // namespace
} // namespace mt
