#include "passes/nn/LossLabels.h"

#include <numeric>
#include <set>

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// Most labels of a micro-batch whose places are followed.
constexpr int64_t kMostPlaces = 1 << 24;

/// Where the elements of a value come from: places in an input, -1 for what does not come from it.
using Places = std::vector<int64_t>;

bool isInteger(Value value) { return isa<IntegerType>(getElementTypeOrSelf(value.getType())); }

/// The operand through which labels reach an operation that only moves, converts, bounds or replaces them.
std::optional<unsigned> carriedOperand(Operation *op, Value labels) {
  if (!isa<ReshapeOp, CastOp, SliceOp, PadOp, ConcatOp, TransposeOp, MinimumOp, MaximumOp, SelectOp>(op) || !isInteger(op->getResult(0)))
    return std::nullopt;
  for (OpOperand &operand : op->getOpOperands())
    if (operand.get() == labels && !(isa<SelectOp>(op) && operand.getOperandNumber() == 0))
      return operand.getOperandNumber();
  return std::nullopt;
}

/// Calls `use(source place)` for each element of the result, in row-major order, by its index.
template <typename Function> Places gathered(ArrayRef<int64_t> shape, Function place) {
  int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
  Places places(count);
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t &entry : places) {
    entry = place(index);
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0 && ++index[d] == shape[d]; --d)
      index[d] = 0;
  }
  return places;
}

int64_t flatten(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t flat = 0;
  for (auto [i, size] : llvm::zip(index, shape))
    flat = flat * size + i;
  return flat;
}

/// Places after an operation; empty where it repeats or is not understood.
Places moved(Operation *op, unsigned operand, const Places &from) {
  ArrayRef<int64_t> source = shapeOf(op->getOperand(operand)), shape = shapeOf(op->getResult(0));
  if (auto slice = dyn_cast<SliceOp>(op))
    return gathered(shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> at;
      for (auto [i, start, stride] : llvm::zip(index, slice.getStarts(), slice.getStrides()))
        at.push_back(start + i * stride);
      return from[flatten(at, source)];
    });
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return gathered(shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> at(index.size());
      for (auto [d, to] : llvm::enumerate(transpose.getPermutation()))
        at[to] = index[d];
      return from[flatten(at, source)];
    });
  auto inside = [&](ArrayRef<int64_t> low) {
    return gathered(shape, [&](ArrayRef<int64_t> index) -> int64_t {
      SmallVector<int64_t> at;
      for (auto [i, start, size] : llvm::zip(index, low, source)) {
        if (i < start || i - start >= size)
          return -1;
        at.push_back(i - start);
      }
      return from[flatten(at, source)];
    });
  };
  if (auto pad = dyn_cast<PadOp>(op))
    return llvm::all_of(pad.getInterior(), [](int64_t i) { return i == 0; }) ? inside(pad.getLow()) : Places();
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    SmallVector<int64_t> low(shape.size(), 0);
    for (unsigned i = 0; i < operand; ++i)
      low[concat.getAxis()] += shapeOf(op->getOperand(i))[concat.getAxis()];
    return inside(low);
  }
  return op->getResult(0).getType() && cast<ShapedType>(op->getResult(0).getType()).getNumElements() == static_cast<int64_t>(from.size()) ? from : Places();
}

/// The number of classes that a comparison with labels picks among: the other side counts them along the last
/// dimension, and what is picked is summed there. 0: it picks none.
int64_t classesPicked(CompareOp compare, Value labels) {
  Value other = compare.getLhs() == labels ? compare.getRhs() : compare.getLhs();
  while (isa_and_nonnull<ReshapeOp, BroadcastOp, CastOp>(other.getDefiningOp()))
    other = other.getDefiningOp()->getOperand(0);
  auto classes = other.getDefiningOp<IotaOp>();
  if (!classes || compare.getPredicate() != "eq" || shapeOf(compare.getResult()).empty() ||
      shapeOf(classes)[classes.getDimension()] != shapeOf(compare.getResult()).back())
    return 0;
  for (Operation *user : compare.getResult().getUsers())
    if (auto select = dyn_cast<SelectOp>(user))
      if (auto zero = splatValue(select.getRhs()); zero && *zero == 0 && !splatValue(select.getLhs()))
        return shapeOf(compare.getResult()).back();
  return 0;
}

/// The number that a comparison excludes: `labels != number`, or `labels == number`.
std::optional<int64_t> numberCompared(CompareOp compare, Value labels) {
  Value other = compare.getLhs() == labels ? compare.getRhs() : compare.getLhs();
  bool equality = compare.getPredicate() == "ne" || compare.getPredicate() == "eq";
  std::optional<double> number = equality ? splatValue(other) : std::nullopt;
  bool whole = number && *number == std::floor(*number) && std::abs(*number) < 0x1p63; // others are no label
  return whole ? std::optional(static_cast<int64_t>(*number)) : std::nullopt;
}

/// Whether what a condition of labels says false to (`inverted`: true) is dropped: replaced by zeros, or counted with none.
bool dropsRest(Value condition, bool inverted, int depth = 0) {
  constexpr int kDeepest = 16;
  return depth < kDeepest && llvm::any_of(condition.getUsers(), [&](Operation *user) {
    if (isa<ReshapeOp>(user) || (isa<AndOp>(user) && !inverted))
      return dropsRest(user->getResult(0), inverted, depth + 1);
    if (isa<NotOp>(user))
      return dropsRest(user->getResult(0), !inverted, depth + 1);
    auto select = dyn_cast<SelectOp>(user);
    if (!select || select.getCondition() != condition)
      return isa<CastOp>(user) && !inverted;
    auto dropped = splatValue(inverted ? select.getLhs() : select.getRhs());
    return dropped && *dropped == 0;
  });
}

/// What the graph does with one integer input.
struct LabelUse {
  int64_t classes = 0;
  std::set<int64_t> excluded; ///< numbers that labels are compared with
  std::set<int64_t> targets;  ///< places that classes are picked by
  bool followed = true;
  llvm::DenseSet<Operation *> seen = llvm::DenseSet<Operation *>();

  /// Each operation once: where two ways lead to it, which places it holds is not known.
  void follow(Value labels, const Places &places) {
    llvm::SmallPtrSet<Operation *, 8> users(labels.user_begin(), labels.user_end());
    for (Operation *user : users) {
      bool first = seen.insert(user).second;
      followed &= first;
      if (!first)
        continue;
      if (auto compare = dyn_cast<CompareOp>(user)) {
        if (int64_t count = classesPicked(compare, labels)) {
          classes = classes ? std::min(classes, count) : count;
          targets.insert(places.begin(), places.end());
        } else if (auto number = numberCompared(compare, labels);
                   number && (*number < 0 || dropsRest(compare.getResult(), compare.getPredicate() == "eq"))) {
          excluded.insert(*number); // a class may be weighed in another way
        }
      } else if (auto operand = carriedOperand(user, labels)) {
        Places next = places.empty() ? Places() : moved(user, *operand, places);
        followed &= !next.empty();
        follow(user->getResult(0), next);
      }
    }
  }
};

/// [begin, end) of the targets in each dimension but the batch; empty where they are the whole row, or no box.
SmallVector<int64_t> boxOf(const LabelUse &use, ArrayRef<int64_t> shape) {
  if (!use.followed || shape.size() < 2)
    return {};
  SmallVector<int64_t> begin(shape.begin() + 1, shape.end()), end(shape.size() - 1, 0);
  int64_t count = 0, box = shape[0], row = 1;
  for (int64_t place : use.targets) {
    if (place < 0)
      continue;
    ++count;
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d > 0; place /= shape[d--]) {
      begin[d - 1] = std::min(begin[d - 1], place % shape[d]);
      end[d - 1] = std::max(end[d - 1], place % shape[d] + 1);
    }
  }
  SmallVector<int64_t> result;
  for (size_t d = 0; d < begin.size(); ++d) {
    box *= end[d] - begin[d];
    row *= shape[d + 1];
    result.append({begin[d], end[d]});
  }
  return box == count && box != shape[0] * row ? result : SmallVector<int64_t>();
}

/// The input that a value's labels come from; null if it is none.
BlockArgument labelsOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    Value next;
    for (Value operand : op->getOperands())
      if (isInteger(operand) && carriedOperand(op, operand) && !splatValue(operand) && !isa_and_nonnull<IotaOp>(operand.getDefiningOp()))
        next = operand;
    if (!next)
      return nullptr;
    value = next;
  }
  return dyn_cast<BlockArgument>(value);
}

/// Whether a condition holds nowhere but where labels count.
bool excludesIgnored(func::FuncOp main, Value condition) {
  while (auto reshape = condition.getDefiningOp<ReshapeOp>())
    condition = reshape.getOperand();
  if (auto both = condition.getDefiningOp<AndOp>())
    return excludesIgnored(main, both.getLhs()) || excludesIgnored(main, both.getRhs());
  auto compare = condition.getDefiningOp<CompareOp>();
  if (!compare || compare.getPredicate() != "ne")
    return false;
  for (Value side : {compare.getLhs(), compare.getRhs()})
    if (BlockArgument labels = labelsOf(side)) {
      auto ignored = main.getArgAttrOfType<IntegerAttr>(labels.getArgNumber(), kIgnoredAttr);
      auto number = numberCompared(compare, side);
      return ignored && number && *number == ignored.getInt();
    }
  return false;
}
} // namespace

void describeLossLabels(func::FuncOp main) {
  Builder builder(main.getContext());
  for (BlockArgument argument : main.getArguments()) {
    unsigned i = argument.getArgNumber();
    int64_t count = cast<ShapedType>(argument.getType()).getNumElements();
    if (!main.getArgAttr(i, kInputAttr) || !isInteger(argument) || getElementTypeOrSelf(argument.getType()).isInteger(1))
      continue;
    Places places(count <= kMostPlaces ? count : 0);
    std::iota(places.begin(), places.end(), 0);
    LabelUse use;
    use.follow(argument, places);
    if (use.classes == 0)
      continue;
    main.setArgAttr(i, kLabelsAttr, builder.getUnitAttr());
    main.setArgAttr(i, kVocabularyAttr, builder.getI64IntegerAttr(use.classes));
    if (use.excluded.size() == 1)
      main.setArgAttr(i, kIgnoredAttr, builder.getI64IntegerAttr(*use.excluded.begin()));
    if (SmallVector<int64_t> box = boxOf(use, shapeOf(argument)); !box.empty())
      main.setArgAttr(i, kTargetsAttr, builder.getDenseI64ArrayAttr(box));
  }
}

bool isZeroWhereIgnored(func::FuncOp main, Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto select = dyn_cast<SelectOp>(op)) {
    auto zero = splatValue(select.getRhs());
    return zero && *zero == 0 && excludesIgnored(main, select.getCondition());
  }
  if (isa<MulOp>(op))
    return isZeroWhereIgnored(main, op->getOperand(0)) || isZeroWhereIgnored(main, op->getOperand(1));
  if (auto cast = dyn_cast<CastOp>(op); cast && getElementTypeOrSelf(cast.getOperand().getType()).isInteger(1))
    return excludesIgnored(main, cast.getOperand());
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return (reduce.getKind() == "sum" || reduce.getKind() == "mean") && isZeroWhereIgnored(main, reduce.getOperand());
  return isa<NegOp, ReshapeOp, CastOp>(op) && isZeroWhereIgnored(main, op->getOperand(0));
}

} // namespace mt::passes
