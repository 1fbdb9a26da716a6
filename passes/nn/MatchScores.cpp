#include "passes/nn/MatchScores.h"

#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
bool hasRank(ArrayRef<int64_t> shape) { return shape.size() >= 3 && shape.size() <= 6; }

/// Casts between float types, views that split or merge heads, and the guard that exporters put after a softmax:
/// select(isnan(p), 0, p).
Value peelProbabilities(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto view = dyn_cast<ReshapeOp>(op);
        view && splitsHeads(shapeOf(view.getOperand()), shapeOf(view.getResult()))) {
      value = view.getOperand();
      continue;
    }
    if (auto cast = dyn_cast<CastOp>(op); cast && nn::isReal(cast.getOperand())) {
      value = cast.getOperand();
      continue;
    }
    auto select = dyn_cast<SelectOp>(op);
    auto test = select ? select.getCondition().getDefiningOp<IsNanOp>() : nullptr;
    if (!test || test.getOperand() != select.getRhs() || splatValue(select.getLhs()) != 0.0)
      break;
    value = select.getRhs();
  }
  return value;
}

/// Scores beside a sink: softmax(concat(scores, sink)) without its last column, or with the sink in front.
struct Beside {
  SoftmaxOp softmax;
  Value scores, sink;
};
std::optional<Beside> besideSink(SliceOp slice) {
  auto softmax = peelProbabilities(slice.getOperand()).getDefiningOp<SoftmaxOp>();
  auto concat = softmax ? softmax.getOperand().getDefiningOp<ConcatOp>() : nullptr;
  ArrayRef<int64_t> whole = shapeOf(slice.getOperand());
  auto last = static_cast<int64_t>(whole.size()) - 1;
  if (!concat || concat.getInputs().size() != 2 || static_cast<int64_t>(concat.getAxis()) != last ||
      shapeOf(concat.getResult()) != whole ||
      llvm::any_of(slice.getStrides(), [](int64_t stride) { return stride != 1; }))
    return std::nullopt;
  bool behind = slice.getStarts()[last] == 0;
  Value scores = concat.getInputs()[behind ? 0 : 1], sink = concat.getInputs()[behind ? 1 : 0];
  bool fits = shapeOf(sink)[last] == 1 && shapeOf(scores) == shapeOf(slice.getResult());
  return fits ? std::optional(Beside{softmax, scores, sink}) : std::nullopt;
}

/// A tensor times one with one number for all keys, or divided by it: both.
std::optional<std::pair<Value, Value>> scaledByRow(Value value) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<MulOp, DivOp>(op) || !nn::isReal(value))
    return std::nullopt;
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  auto isOne = [](Value number) { return shapeOf(number).empty() || shapeOf(number).back() == 1; };
  if (lhs.getType() == value.getType() && isOne(rhs))
    return std::pair(lhs, rhs);
  return isa<MulOp>(op) && rhs.getType() == value.getType() && isOne(lhs) ? std::optional(std::pair(rhs, lhs))
                                                                          : std::nullopt;
}

bool leadsToProduct(Value value, int depth = 0) {
  if (depth > 8)
    return false;
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<MatmulOp>(op))
    return true;
  if (auto pair = scaledBy(value))
    return leadsToProduct(pair->first, depth + 1);
  if (auto pair = scaledByRow(value))
    return leadsToProduct(pair->first, depth + 1);
  if (isa_and_nonnull<TanhOp, CastOp, ReshapeOp>(op))
    return leadsToProduct(op->getOperand(0), depth + 1);
  if (auto maximum = dyn_cast_or_null<MaximumOp>(op))
    return (isVeryNegative(maximum.getRhs()) && leadsToProduct(maximum.getLhs(), depth + 1)) ||
           (isVeryNegative(maximum.getLhs()) && leadsToProduct(maximum.getRhs(), depth + 1));
  if (auto add = dyn_cast_or_null<AddOp>(op))
    return (add.getLhs().getType() == value.getType() && leadsToProduct(add.getLhs(), depth + 1)) ||
           (add.getRhs().getType() == value.getType() && leadsToProduct(add.getRhs(), depth + 1));
  if (auto select = dyn_cast_or_null<SelectOp>(op))
    return isVeryNegative(select.getRhs())
               ? leadsToProduct(select.getLhs(), depth + 1)
               : isVeryNegative(select.getLhs()) && leadsToProduct(select.getRhs(), depth + 1);
  return false;
}

/// The walk from a softmax down to the product.
class Walk {
public:
  explicit Walk(std::string &why) : why(why) {}

  std::optional<Scores> from(Value value) {
    constexpr int kLongest = 12;
    for (int depth = 0; depth < kLongest && value; ++depth) {
      if (!scores.sees(shapeOf(value)))
        return refuse("its scores are seen with different batch sizes or numbers of heads");
      if (auto matmul = value.getDefiningOp<MatmulOp>()) {
        if (matmul.getTransposeLhs())
          return refuse("the product of its queries and keys has transposed queries");
        if (matmul.getBias() && !isOutsideCap())
          return std::nullopt;
        if (matmul.getBias()) // a mask of one row, taken for a layer's bias
          scores.masks.push_back({matmul.getBias(), Value(), false, scores.scale, llvm::to_vector(shapeOf(matmul))});
        scores.product = matmul;
        return scores;
      }
      if (value = below(value); !why.empty())
        return std::nullopt;
    }
    return refuse("something else than scales, a soft cap, masks and views lies between its product and its softmax");
  }

private:
  Scores scores;
  std::string &why;

  std::nullopt_t refuse(StringRef text) {
    why = text.str();
    return std::nullopt;
  }

  /// The scores from which `value` was made; null if unknown.
  Value below(Value value) {
    Operation *op = value.getDefiningOp();
    if (auto view = dyn_cast_or_null<ReshapeOp>(op))
      return splitsHeads(shapeOf(view.getOperand()), shapeOf(value)) ? view.getOperand() : Value();
    if (auto cast = dyn_cast_or_null<CastOp>(op))
      return nn::isReal(cast.getOperand()) ? cast.getOperand() : Value();
    if (auto add = dyn_cast_or_null<AddOp>(op))
      return belowAdd(add);
    if (auto select = dyn_cast_or_null<SelectOp>(op))
      return belowSelect(select);
    if (auto maximum = dyn_cast_or_null<MaximumOp>(op)) // what is hidden stays so
      for (auto [inner, bound] :
           {std::pair(maximum.getLhs(), maximum.getRhs()), std::pair(maximum.getRhs(), maximum.getLhs())})
        if (hides(bound))
          return isOutsideCap() && inner.getType() == value.getType() ? inner : Value();
    return belowScale(value);
  }

  /// Whether a number hides scores even after the scale that follows.
  bool hides(Value number) const {
    return isVeryNegative(number) && *splatValue(number) * scores.scale <= kVeryNegative;
  }

  bool isOutsideCap() {
    if (scores.cap != 0)
      why = "a mask or bias lies inside its soft cap";
    else if (!scores.factors.empty())
      why = "a mask or bias lies inside a factor of its heads or queries";
    return why.empty();
  }

  Value belowAdd(AddOp add) {
    bool left = add.getLhs().getType() == add.getType() && leadsToProduct(add.getLhs());
    if ((!left && add.getRhs().getType() != add.getType()) || !isOutsideCap())
      return {};
    scores.masks.push_back(
        {left ? add.getRhs() : add.getLhs(), Value(), false, scores.scale, llvm::to_vector(shapeOf(add))});
    return left ? add.getLhs() : add.getRhs();
  }

  /// What hides a score must still hide it after the scale that follows.
  Value belowSelect(SelectOp select) {
    bool hidesWhereTrue = isVeryNegative(select.getLhs());
    if (!hides(hidesWhereTrue ? select.getLhs() : select.getRhs()) || !isOutsideCap())
      return {};
    scores.masks.push_back({Value(), select.getCondition(), hidesWhereTrue, 1, llvm::to_vector(shapeOf(select))});
    return hidesWhereTrue ? select.getRhs() : select.getLhs();
  }

  Value belowScale(Value value) {
    auto outer = scaledBy(value);
    if (auto factor = outer ? std::nullopt : scaledByRow(value)) {
      scores.factors.push_back({factor->second, isa<DivOp>(value.getDefiningOp()), llvm::to_vector(shapeOf(value))});
      return factor->first;
    }
    if (!outer)
      return {};
    if (auto tanh = outer->first.getDefiningOp<TanhOp>();
        tanh && scores.scale == 1 && scores.cap == 0 && scores.factors.empty()) {
      auto inner = scaledBy(tanh.getOperand());
      if (!inner || !(outer->second > 0) || !isAbout(inner->second * outer->second, 1))
        return {};
      scores.cap = outer->second;
      return inner->first;
    }
    scores.scale *= outer->second;
    return outer->first;
  }
};
} // namespace

bool isVeryNegative(Value value) {
  auto number = splatValue(value);
  return number && *number <= kVeryNegative;
}

SmallVector<Value> termsOf(Value bias, bool hasSink) {
  Sum sum = flattenSum(bias);
  constexpr double kSmall = 1e3;
  return sum.constant == 0 || (std::abs(sum.constant) <= kSmall && !hasSink) ? sum.terms : SmallVector<Value>{bias};
}

bool splitsHeads(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  size_t common = a.size() > 3 && b.size() > 3 ? 3 : 2;
  return hasRank(a) && hasRank(b) && (a.size() != b.size() || a == b) && a.take_back(common) == b.take_back(common);
}

bool Scores::sees(ArrayRef<int64_t> shape) {
  if (shape.size() < 4)
    return true;
  std::pair<int64_t, int64_t> here(1, shape[shape.size() - 3]);
  for (int64_t size : shape.drop_back(3))
    here.first *= size;
  bool agrees = !split || *split == here;
  split = here;
  return agrees;
}

std::optional<Scores> matchScores(MatmulOp product, std::string &why) {
  auto refuse = [&](StringRef text) {
    why = text.str();
    return std::nullopt;
  };
  Value probabilities = peelProbabilities(product.getLhs());
  auto slice = probabilities.getDefiningOp<SliceOp>();
  std::optional<Beside> beside = slice ? besideSink(slice) : std::nullopt;
  SoftmaxOp softmax = beside ? beside->softmax : probabilities.getDefiningOp<SoftmaxOp>();
  if (!softmax)
    return refuse("something lies between its softmax and the product with its values");
  if (product.getTransposeLhs() || product.getBias())
    return refuse("the product with its values has a bias or transposed probabilities");
  ArrayRef<int64_t> whole = shapeOf(product.getLhs());
  if (!hasRank(whole) || shapeOf(product.getRhs()).size() != whole.size())
    return refuse("its probabilities and values have not the same number of dimensions, three to six");
  Value walked = beside ? beside->scores : softmax.getOperand();
  auto scores = Walk(why).from(walked);
  if (!scores)
    return std::nullopt;
  scores->sink = beside ? beside->sink : Value();
  MatmulOp inner = scores->product;
  size_t rank = shapeOf(inner).size();
  if (!hasRank(shapeOf(inner)) || shapeOf(inner.getLhs()).size() != rank || shapeOf(inner.getRhs()).size() != rank ||
      !splitsHeads(shapeOf(inner), shapeOf(walked)) || !scores->sees(whole))
    return refuse("its queries, keys and scores have different batch sizes or numbers of heads");
  return scores;
}

} // namespace mt::passes
