#include "passes/nn/AlongDistance.h"

#include "passes/nn/IndexExpression.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// Graphs share operands; what is beyond is not looked into.
constexpr int kMostOperations = 256;

class Rebuilder {
public:
  explicit Rebuilder(OpBuilder &builder) : builder(builder) {}

  Value rebuild(Value value, const Pairs &pairs) {
    ArrayRef<int64_t> shape = shapeOf(value);
    bool queries = shape[pairs.queryDim] != 1, keys = shape[pairs.keyDim] != 1;
    if (!queries && !keys)
      return value;
    if (auto number = splatValue(value))
      return splat(builder, value.getLoc(), tensorOf(ones(shape, pairs), elementOf(value)), *number);
    Operation *op = value.getDefiningOp();
    if (!op || --left < 0 || !queries || !keys)
      return {};
    if (Value line = counted(value, pairs))
      return line;
    if (op->hasTrait<Elementwise>())
      return elementwise(op, pairs);
    if (auto reshape = dyn_cast<ReshapeOp>(op))
      return reshaped(reshape, pairs);
    if (auto transpose = dyn_cast<TransposeOp>(op))
      return transposed(transpose, pairs);
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return broadcasted(broadcast, pairs);
    if (auto gather = dyn_cast<GatherOp>(op))
      return lookedUp(gather.getIndices(), gather.getAxis(), pairs, [&](Value indices) {
        return GatherOp::create(builder, gather.getLoc(), gather.getData(), indices, gather.getAxis()).getResult();
      });
    if (auto embedding = dyn_cast<EmbeddingOp>(op))
      return lookedUp(embedding.getIds(), 0, pairs, [&](Value ids) {
        return EmbeddingOp::create(builder, embedding.getLoc(), embedding.getTable(), ids, embedding.getPaddingAttr())
            .getResult();
      });
    return {};
  }

private:
  OpBuilder &builder;
  int left = kMostOperations;

  static Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }
  static SmallVector<int64_t> with(ArrayRef<int64_t> shape, const Pairs &pairs, int64_t queries, int64_t keys) {
    SmallVector<int64_t> changed(shape);
    changed[pairs.queryDim] = queries;
    changed[pairs.keyDim] = keys;
    return changed;
  }
  static SmallVector<int64_t> ones(ArrayRef<int64_t> shape, const Pairs &pairs) { return with(shape, pairs, 1, 1); }
  static SmallVector<int64_t> line(ArrayRef<int64_t> shape, const Pairs &pairs) {
    return with(shape, pairs, 1, pairs.distances());
  }

  /// What counts distances: constant + step * (k - q).
  Value counted(Value value, const Pairs &pairs) {
    IndexEvaluator evaluator(shapeOf(value));
    ExpressionRef element = evaluator.element(value, evaluator.indicesFor(value));
    if (!element || element->kind != Expression::affine || elementOf(value).isInteger(1))
      return {};
    const Affine &number = element->number;
    int64_t step = number.coefficients[pairs.keyDim];
    for (auto [dim, coefficient] : llvm::enumerate(number.coefficients))
      if (coefficient != (int64_t(dim) == pairs.keyDim ? step : int64_t(dim) == pairs.queryDim ? -step : 0))
        return {};
    APFloat start(static_cast<double>(number.constant - step * (pairs.queries - 1)));
    SmallVector<int64_t> shape(shapeOf(value).size(), 1);
    shape[pairs.keyDim] = pairs.distances();
    Value made = IotaOp::create(builder, value.getLoc(), tensorOf(shape, elementOf(value)), pairs.keyDim, start,
                                APFloat(static_cast<double>(step)));
    return widened(made, line(shapeOf(value), pairs));
  }

  Value widened(Value value, ArrayRef<int64_t> shape) {
    return shapeOf(value) == shape
               ? value
               : BroadcastOp::create(builder, value.getLoc(), tensorOf(shape, elementOf(value)), value);
  }

  Value elementwise(Operation *op, const Pairs &pairs) {
    IRMapping mapping;
    auto rank = static_cast<int64_t>(shapeOf(op->getResult(0)).size());
    for (Value operand : op->getOperands()) {
      int64_t shift = rank - static_cast<int64_t>(shapeOf(operand).size());
      Pairs own{pairs.queryDim - shift, pairs.keyDim - shift, pairs.queries, pairs.keys};
      if (own.queryDim < 0 || own.keyDim < 0) {
        int64_t there = std::max(own.queryDim, own.keyDim);
        if (there >= 0 && shapeOf(operand)[there] != 1)
          return {};
        mapping.map(operand, operand);
        continue;
      }
      Value made = rebuild(operand, own);
      if (!made)
        return {};
      mapping.map(operand, made);
    }
    Operation *made = builder.clone(*op, mapping);
    made->getResult(0).setType(tensorOf(line(shapeOf(op->getResult(0)), pairs), elementOf(op->getResult(0))));
    return made->getResult(0);
  }

  /// Views that add or drop dimensions of size one.
  Value reshaped(ReshapeOp op, const Pairs &pairs) {
    ArrayRef<int64_t> from = shapeOf(op.getOperand()), to = shapeOf(op.getResult());
    SmallVector<int64_t> places; // of what is larger, in the operand
    for (auto [dim, size] : llvm::enumerate(from))
      if (size != 1)
        places.push_back(int64_t(dim));
    Pairs own{-1, -1, pairs.queries, pairs.keys};
    size_t next = 0;
    for (auto [dim, size] : llvm::enumerate(to)) {
      if (size == 1)
        continue;
      if (next == places.size() || from[places[next]] != size)
        return {};
      if (int64_t(dim) == pairs.queryDim)
        own.queryDim = places[next];
      if (int64_t(dim) == pairs.keyDim)
        own.keyDim = places[next];
      ++next;
    }
    Value made = own.queryDim >= 0 && own.keyDim >= 0 ? rebuild(op.getOperand(), own) : Value();
    return made ? reshapeTo(builder, made, line(to, pairs)) : Value();
  }

  Value transposed(TransposeOp op, const Pairs &pairs) {
    Pairs own{op.getPermutation()[pairs.queryDim], op.getPermutation()[pairs.keyDim], pairs.queries, pairs.keys};
    Value made = rebuild(op.getOperand(), own);
    return made ? TransposeOp::create(builder, op.getLoc(), made, op.getPermutation()).getResult() : Value();
  }

  Value broadcasted(BroadcastOp op, const Pairs &pairs) {
    int64_t shift = static_cast<int64_t>(shapeOf(op.getResult()).size() - shapeOf(op.getOperand()).size());
    Pairs own{pairs.queryDim - shift, pairs.keyDim - shift, pairs.queries, pairs.keys};
    Value made = own.queryDim >= 0 && own.keyDim >= 0 ? rebuild(op.getOperand(), own) : Value();
    return made ? widened(made, line(shapeOf(op.getResult()), pairs)) : Value();
  }

  template <typename Build> Value lookedUp(Value indices, int64_t axis, const Pairs &pairs, Build build) {
    Pairs own{pairs.queryDim - axis, pairs.keyDim - axis, pairs.queries, pairs.keys};
    auto rank = static_cast<int64_t>(shapeOf(indices).size());
    bool inside = own.queryDim >= 0 && own.keyDim >= 0 && own.queryDim < rank && own.keyDim < rank;
    Value made = inside ? rebuild(indices, own) : Value();
    return made ? build(made) : Value();
  }
};
} // namespace

Value alongDistance(OpBuilder &builder, Value value, const Pairs &pairs) {
  return Rebuilder(builder).rebuild(value, pairs);
}

} // namespace mt::passes
