// Masks of attention that stays written out because its probabilities are dropped: what exporters look up, row by row
// of the batch, and repeat for each, becomes a comparison of positions, the same for all rows, and what the rows bring.
#include "passes/nn/RestateMasks.h"

#include "passes/nn/MaskPredicate.h"
#include "passes/nn/MatchScores.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
constexpr double kHidden = -3.4028234663852886e38;

/// A predicate as a tensor of zeros and very negative numbers.
class Restated {
public:
  Restated(OpBuilder &builder, Location location, ScoreShape shape)
      : builder(builder), location(location), shape(shape) {}

  Value mask(const MaskPredicate &predicate, Type element) {
    position(predicate.position);
    if (predicate.keyMask)
      both(reshapeTo(builder, predicate.keyMask, {shape.batch, 1, 1, shape.keys}));
    if (predicate.querySegment)
      both(compare(reshapeTo(builder, predicate.querySegment, {shape.batch, 1, shape.queries, 1}), "eq",
                   reshapeTo(builder, predicate.keySegment, {shape.batch, 1, 1, shape.keys})));
    Value hidden = splat(builder, location, tensorOf({}, element), kHidden),
          zero = splat(builder, location, tensorOf({}, element), 0);
    return seen ? SelectOp::create(builder, location, seen, zero, hidden).getResult() : Value();
  }

private:
  OpBuilder &builder;
  Location location;
  ScoreShape shape;
  Value seen; ///< null: everything

  Value compare(Value lhs, StringRef predicate, Value rhs) {
    return CompareOp::create(builder, location, lhs, rhs, predicate);
  }
  Value whole(int64_t value) {
    return splat(builder, location, tensorOf({}, builder.getI64Type()), static_cast<double>(value));
  }
  Value places(ArrayRef<int64_t> dims, int64_t along) {
    return IotaOp::create(builder, location, tensorOf(dims, builder.getI64Type()), along, APFloat(0.0), APFloat(1.0));
  }
  void both(Value condition) {
    seen = seen ? AndOp::create(builder, location, seen, condition).getResult() : condition;
  }

  void position(const PositionRule &rule) {
    Value query = places({1, 1, shape.queries, 1}, kQuery), key = places({1, 1, 1, shape.keys}, kKey);
    Value distance = SubOp::create(builder, location, query, key);
    if (rule.low > -shape.keys)
      both(compare(distance, "ge", whole(rule.low)));
    if (rule.high < shape.queries)
      both(compare(distance, "le", whole(rule.high)));
    if (rule.dilation > 1)
      both(compare(ModOp::create(builder, location, distance, whole(rule.dilation)), "eq", whole(0)));
    if (seen && rule.prefix > 0)
      seen = OrOp::create(builder, location, seen, compare(key, "lt", whole(rule.prefix)));
  }
};

/// The sum that a softmax is taken of, where probabilities are dropped; null if there is none.
AddOp scoresOf(DropoutOp dropout) {
  auto isBetween = [](Operation *op) { return isa_and_nonnull<CastOp, ReshapeOp>(op); };
  Value value = dropout.getOperand();
  while (isBetween(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto softmax = value.getDefiningOp<SoftmaxOp>();
  value = softmax ? softmax.getOperand() : Value();
  while (value && isa_and_nonnull<CastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value ? value.getDefiningOp<AddOp>() : nullptr;
}

void restate(AddOp scores) {
  ArrayRef<int64_t> shape = shapeOf(scores.getResult());
  if (shape.size() != 4)
    return;
  for (OpOperand &operand : scores->getOpOperands()) {
    Value mask = operand.get();
    if (shapeOf(mask).size() != 4 || shapeOf(mask)[0] == 1)
      continue;
    OpBuilder builder(scores);
    ScoreShape all{shape[0], shape[1], shape[2], shape[3]};
    MaskPredicate predicate;
    std::string why;
    if (!addMask(builder, mask, all, predicate, why))
      continue;
    if (Value made = Restated(builder, mask.getLoc(), all).mask(predicate, getElementTypeOrSelf(mask)))
      return operand.set(made);
  }
}
} // namespace

void restateMasks(func::FuncOp function) {
  for (DropoutOp dropout : function.front().getOps<DropoutOp>())
    if (AddOp scores = scoresOf(dropout))
      restate(scores);
}

} // namespace mt::passes
