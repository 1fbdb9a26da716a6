#include "passes/nn/AlongLine.h"

#include "compiler/nn/PairPlaces.h"

#include "passes/nn/IndexExpression.h"
#include "passes/nn/KnownIntegers.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// Graphs share operands; what is beyond is not looked into.
constexpr int kMostOperations = 256;

class Rebuilder {
public:
  explicit Rebuilder(OpBuilder &builder, int64_t entries = 0) : builder(builder), entries(entries) {}
  virtual ~Rebuilder() = default;

  /// `value` [.., queries, .., keys, ..] as a line.
  Value lineOf(Value value, const Pairs &pairs) {
    Value made = rebuild(value, pairs);
    return made && shapeOf(made)[pairs.keyDim] == entries ? made : Value();
  }

protected:
  OpBuilder &builder;
  int64_t entries; ///< of the line

  /// The line of what queries and keys are given by; null where `value` is not such.
  virtual Value leaf(Value value, const Pairs &pairs) = 0;

  static Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }
  static SmallVector<int64_t> with(ArrayRef<int64_t> shape, const Pairs &pairs, int64_t queries, int64_t keys) {
    SmallVector<int64_t> changed(shape);
    changed[pairs.queryDim] = queries;
    changed[pairs.keyDim] = keys;
    return changed;
  }
  SmallVector<int64_t> line(ArrayRef<int64_t> shape, const Pairs &pairs) const {
    return with(shape, pairs, 1, entries);
  }
  Value widened(Value value, ArrayRef<int64_t> shape) {
    return shapeOf(value) == shape
               ? value
               : BroadcastOp::create(builder, value.getLoc(), tensorOf(shape, elementOf(value)), value);
  }

private:
  int left = kMostOperations;

  static SmallVector<int64_t> ones(ArrayRef<int64_t> shape, const Pairs &pairs) { return with(shape, pairs, 1, 1); }

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
    if (Value line = leaf(value, pairs))
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
    bool any = llvm::any_of(made->getOperands(), [&](Value operand) {
      int64_t dim = pairs.keyDim - rank + static_cast<int64_t>(shapeOf(operand).size());
      return dim >= 0 && shapeOf(operand)[dim] == entries;
    }); // constants are as long as need be
    ArrayRef<int64_t> whole = shapeOf(op->getResult(0));
    made->getResult(0).setType(tensorOf(any ? line(whole, pairs) : ones(whole, pairs), elementOf(op->getResult(0))));
    return made->getResult(0);
  }

  /// Views that add or drop dimensions of size one, join queries and keys, or take them apart.
  Value reshaped(ReshapeOp op, const Pairs &pairs) {
    ArrayRef<int64_t> from = shapeOf(op.getOperand()), to = shapeOf(op.getResult());
    auto larger = [](ArrayRef<int64_t> shape) {
      SmallVector<int64_t> places;
      for (auto [dim, size] : llvm::enumerate(shape))
        if (size != 1)
          places.push_back(int64_t(dim));
      return places;
    };
    SmallVector<int64_t> before = larger(from), after = larger(to);
    Pairs own{-1, -1, pairs.queries, pairs.keys};
    size_t next = 0;
    for (size_t i = 0; i < after.size(); ++i, ++next) {
      bool together = pairs.queryDim == pairs.keyDim,
           adjoin = after[i] == pairs.queryDim && (together || (i + 1 < after.size() && after[i + 1] == pairs.keyDim));
      if (next == before.size())
        return {};
      if (adjoin && from[before[next]] == pairs.queries * pairs.keys) {
        own.queryDim = own.keyDim = before[next];
        i += together ? 0 : 1;
        continue;
      }
      if (adjoin && together) {
        if (next + 1 == before.size() || from[before[next]] != pairs.queries || from[before[next + 1]] != pairs.keys)
          return {};
        own.queryDim = before[next], own.keyDim = before[++next];
        continue;
      }
      if (from[before[next]] != to[after[i]])
        return {};
      if (after[i] == pairs.queryDim)
        own.queryDim = before[next];
      if (after[i] == pairs.keyDim)
        own.keyDim = before[next];
    }
    Value made = own.queryDim >= 0 && own.keyDim >= 0 ? rebuild(op.getOperand(), own) : Value();
    if (!made)
      return {};
    return reshapeTo(builder, made, shapeOf(made)[own.keyDim] == entries ? line(to, pairs) : ones(to, pairs));
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

class DistanceRebuilder : public Rebuilder {
public:
  using Rebuilder::Rebuilder;

private:
  /// What counts distances: constant + step * (k - q).
  Value leaf(Value value, const Pairs &pairs) override {
    IndexEvaluator evaluator(shapeOf(value));
    ExpressionRef element = evaluator.element(value, evaluator.indicesFor(value));
    if (!element || element->kind != Expression::affine || elementOf(value).isInteger(1) ||
        pairs.queryDim == pairs.keyDim)
      return {};
    const Affine &number = element->number;
    int64_t step = number.coefficients[pairs.keyDim];
    for (auto [dim, coefficient] : llvm::enumerate(number.coefficients))
      if (coefficient != (int64_t(dim) == pairs.keyDim ? step : int64_t(dim) == pairs.queryDim ? -step : 0))
        return {};
    APFloat start(static_cast<double>(number.constant - step * (pairs.queries - 1)));
    SmallVector<int64_t> shape(shapeOf(value).size(), 1);
    shape[pairs.keyDim] = entries;
    Value made = IotaOp::create(builder, value.getLoc(), tensorOf(shape, elementOf(value)), pairs.keyDim, start,
                                APFloat(static_cast<double>(step)));
    return widened(made, line(shapeOf(value), pairs));
  }
};

class PlaceRebuilder : public Rebuilder {
public:
  using Rebuilder::Rebuilder;

  ByPlace byPlace(Value value, const Pairs &pairs) {
    Value made = lineOf(value, pairs);
    if (!made)
      return {};
    Type element = builder.getI64Type();
    return {made, vectorOf(value.getLoc(), places->query, element), vectorOf(value.getLoc(), places->key, element)};
  }

private:
  std::optional<PairPlaces> places; ///< that the first table was found to depend on

  Value vectorOf(Location location, ArrayRef<int64_t> values, Type element) {
    auto type = RankedTensorType::get({int64_t(values.size())}, element);
    if (element.isInteger(64))
      return ConstantOp::create(builder, location, DenseIntElementsAttr::get(type, values));
    SmallVector<int32_t> narrow(values);
    return ConstantOp::create(builder, location, DenseIntElementsAttr::get(type, ArrayRef<int32_t>(narrow)));
  }

  /// A table of whole numbers over queries and keys alone.
  Value leaf(Value value, const Pairs &pairs) override {
    ArrayRef<int64_t> shape = shapeOf(value);
    Type element = elementOf(value);
    int64_t count = cast<ShapedType>(value.getType()).getNumElements();
    if ((!element.isSignlessInteger(64) && !element.isSignlessInteger(32)) || count != pairs.queries * pairs.keys ||
        std::max(pairs.queries, pairs.keys) > kConstantLimit)
      return {};
    std::optional<std::vector<int64_t>> table = knownIntegers(value);
    if (!table)
      return {};
    if (pairs.keyDim < pairs.queryDim)
      table = transposed(*table, pairs);
    if (!places)
      places = findPairPlaces(*table, pairs.queries, pairs.keys);
    auto numbers = places && places->entries <= kConstantLimit ? nn::alongPlaces(*table, *places) : std::nullopt;
    if (!numbers)
      return {};
    entries = places->entries;
    return reshapeTo(builder, vectorOf(value.getLoc(), *numbers, element), line(shape, pairs));
  }

  static std::vector<int64_t> transposed(const std::vector<int64_t> &table, const Pairs &pairs) {
    std::vector<int64_t> turned;
    for (int64_t q = 0; q < pairs.queries; ++q)
      for (int64_t k = 0; k < pairs.keys; ++k)
        turned.push_back(table[k * pairs.queries + q]);
    return turned;
  }
};
} // namespace

Value alongDistance(OpBuilder &builder, Value value, const Pairs &pairs) {
  return DistanceRebuilder(builder, pairs.queries + pairs.keys - 1).lineOf(value, pairs);
}

ByPlace alongPlace(OpBuilder &builder, Value value, const Pairs &pairs) {
  return PlaceRebuilder(builder).byPlace(value, pairs);
}

} // namespace mt::passes
