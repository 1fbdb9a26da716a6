#include "passes/nn/KnownIntegers.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
using Numbers = std::vector<int64_t>;
constexpr int64_t kMostSteps = int64_t{1} << 24, kMostNumber = int64_t{1} << 53;

int64_t countOf(ArrayRef<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// Elements from one index to the next of each dimension of a row-major tensor.
SmallVector<int64_t> stepsOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> steps(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    steps[i - 1] = steps[i] * shape[i];
  return steps;
}

/// Calls what takes (element of `shape` in row-major order, start + sum of index * step) for all indices.
template <typename Each> void walk(ArrayRef<int64_t> shape, ArrayRef<int64_t> steps, int64_t start, Each each) {
  SmallVector<int64_t> index(shape.size(), 0);
  int64_t place = start;
  for (int64_t i = 0, count = countOf(shape); i < count; ++i) {
    each(i, place);
    for (size_t dim = shape.size(); dim-- > 0;) {
      place += steps[dim];
      if (++index[dim] < shape[dim])
        break;
      place -= index[dim] * steps[dim];
      index[dim] = 0;
    }
  }
}

class Evaluator {
public:
  /// Null where nothing is known.
  const Numbers *numbers(Value value) {
    auto [found, isNew] = known.try_emplace(value);
    if (!isNew)
      return found->second.get();
    std::unique_ptr<Numbers> made;
    if (spend(countOf(shapeOf(value))) && depth < kDeepest) {
      ++depth;
      const int64_t most = largestOf(getElementTypeOrSelf(value.getType()));
      if (auto computed = compute(value);
          computed && llvm::all_of(*computed, [&](int64_t number) { return -most <= number && number <= most; }))
        made = std::make_unique<Numbers>(std::move(*computed));
      --depth;
    }
    return (known[value] = std::move(made)).get();
  }

private:
  using Wide = __int128;
  static constexpr int kDeepest = 512;
  DenseMap<Value, std::unique_ptr<Numbers>> known;
  int64_t steps = 0;
  int depth = 0;

  /// Up to where a type holds all whole numbers, as far as they are followed: beyond it they round or wrap around.
  static int64_t largestOf(Type element) {
    if (auto real = dyn_cast<FloatType>(element))
      return int64_t{1} << std::min(53u, real.getFPMantissaWidth());
    const unsigned bits = cast<IntegerType>(element).getWidth();
    return bits > 53 ? kMostNumber : bits == 1 ? 1 : (int64_t{1} << (bits - 1)) - 1;
  }
  bool spend(int64_t count) { return (steps += std::max<int64_t>(count, 1)) <= kMostSteps; }

  std::optional<Numbers> compute(Value value) {
    if (auto number = splatValue(value))
      return number == std::floor(*number) && std::abs(*number) < static_cast<double>(kMostNumber)
                 ? std::optional(Numbers(countOf(shapeOf(value)), static_cast<int64_t>(*number)))
                 : std::nullopt;
    Operation *op = value.getDefiningOp();
    if (!op)
      return std::nullopt;
    SmallVector<const Numbers *> in;
    for (Value operand : op->getOperands()) {
      in.push_back(numbers(operand));
      if (!in.back())
        return std::nullopt;
    }
    return llvm::TypeSwitch<Operation *, std::optional<Numbers>>(op)
        .Case([&](ConstantOp constant) { return valuesOf(constant); })
        .Case([&](IotaOp iota) { return counted(iota); })
        .Case<ReshapeOp, CopyOp>([&](Operation *) { return *in[0]; })
        .Case([&](CastOp cast) { return converted(cast, *in[0]); })
        .Case([&](TransposeOp transpose) { return transposed(transpose, *in[0]); })
        .Case([&](BroadcastOp broadcast) { return spread(broadcast.getOperand(), *in[0], shapeOf(value)); })
        .Case([&](SliceOp slice) { return sliced(slice, *in[0]); })
        .Case([&](ConcatOp concat) { return joined(concat, in); })
        .Case([&](ReduceOp reduce) { return reduced(reduce, *in[0]); })
        .Case([&](GatherOp gather) { return gathered(gather, *in[0], *in[1]); })
        .Case([&](ScatterOp scatter) { return scattered(scatter, *in[0], *in[1], *in[2]); })
        .Case([&](ScatterElementsOp scatter) { return scatteredElements(scatter, *in[0], *in[1], *in[2]); })
        .Default([&](Operation *) { return op->hasTrait<Elementwise>() ? elementwise(op, in) : std::nullopt; });
  }

  static std::optional<Numbers> valuesOf(ConstantOp constant) {
    Numbers values;
    if (nn::isReal(constant)) {
      for (const APFloat &value : cast<DenseElementsAttr>(constant.getValue()).getValues<APFloat>()) {
        if (!value.isInteger() || std::abs(value.convertToDouble()) > static_cast<double>(kMostNumber))
          return std::nullopt;
        values.push_back(static_cast<int64_t>(value.convertToDouble()));
      }
      return values;
    }
    bool isBoolean = getElementTypeOrSelf(constant.getType()).isInteger(1);
    for (const APInt &value : cast<DenseElementsAttr>(constant.getValue()).getValues<APInt>())
      values.push_back(isBoolean ? int64_t(value.getZExtValue()) : value.getSExtValue());
    return values;
  }

  static std::optional<Numbers> counted(IotaOp op) {
    double start = op.getStart().convertToDouble(), step = op.getStep().convertToDouble();
    if (start != std::floor(start) || step != std::floor(step) || std::abs(start) + std::abs(step) > 1e9)
      return std::nullopt;
    ArrayRef<int64_t> shape = shapeOf(op.getResult());
    SmallVector<int64_t> along(shape.size(), 0);
    along[op.getDimension()] = static_cast<int64_t>(step);
    Numbers values(countOf(shape));
    walk(shape, along, static_cast<int64_t>(start), [&](int64_t i, int64_t number) { values[i] = number; });
    return values;
  }

  static std::optional<Numbers> converted(CastOp op, Numbers values) {
    auto to = dyn_cast<IntegerType>(getElementTypeOrSelf(op.getType()));
    if (!to) // numbers() looks whether the type holds them
      return values;
    bool fits = to.getWidth() >= 32 && !to.isUnsigned();
    for (int64_t &value : values)
      if (to.isInteger(1))
        value = value != 0;
      else if (!fits || (to.getWidth() == 32 && !llvm::isInt<32>(value)))
        return std::nullopt;
    return values;
  }

  static std::optional<Numbers> transposed(TransposeOp op, const Numbers &in) {
    SmallVector<int64_t> from = stepsOf(shapeOf(op.getOperand())), along;
    for (int64_t dim : op.getPermutation())
      along.push_back(from[dim]);
    Numbers values(in.size());
    walk(shapeOf(op.getResult()), along, 0, [&](int64_t i, int64_t place) { values[i] = in[place]; });
    return values;
  }

  /// `in`, the elements of `operand`, repeated to `shape`.
  static Numbers spread(Value operand, const Numbers &in, ArrayRef<int64_t> shape) {
    ArrayRef<int64_t> from = shapeOf(operand);
    SmallVector<int64_t> own = stepsOf(from), along(shape.size(), 0);
    for (size_t i = 0; i < from.size(); ++i)
      along[shape.size() - from.size() + i] = from[i] == 1 ? 0 : own[i];
    Numbers values(countOf(shape));
    walk(shape, along, 0, [&](int64_t i, int64_t place) { values[i] = in[place]; });
    return values;
  }

  static std::optional<Numbers> sliced(SliceOp op, const Numbers &in) {
    SmallVector<int64_t> along = stepsOf(shapeOf(op.getOperand()));
    int64_t start = 0;
    for (auto [step, first, stride] : llvm::zip(along, op.getStarts(), op.getStrides()))
      start += first * step, step *= stride;
    Numbers values(countOf(op.getSizes()));
    walk(op.getSizes(), along, start, [&](int64_t i, int64_t place) { values[i] = in[place]; });
    return values;
  }

  static std::optional<Numbers> joined(ConcatOp op, ArrayRef<const Numbers *> in) {
    ArrayRef<int64_t> shape = shapeOf(op.getResult());
    int64_t outer = countOf(shape.take_front(op.getAxis())), inner = countOf(shape.drop_front(op.getAxis() + 1));
    Numbers values;
    for (int64_t i = 0; i < outer; ++i)
      for (auto [operand, numbers] : llvm::zip(op.getInputs(), in)) {
        int64_t each = shapeOf(operand)[op.getAxis()] * inner;
        values.insert(values.end(), numbers->begin() + i * each, numbers->begin() + (i + 1) * each);
      }
    return values;
  }

  static std::optional<Numbers> reduced(ReduceOp op, const Numbers &in) {
    bool isSum = op.getKind() == "sum", isMost = op.getKind() == "max";
    if ((!isSum && !isMost && op.getKind() != "min") || in.empty() || (isSum && nn::isReal(op.getResult())))
      return std::nullopt; // sums round on the way
    ArrayRef<int64_t> shape = shapeOf(op.getOperand());
    SmallVector<int64_t> kept(shape), along;
    for (int64_t axis : op.getAxes())
      kept[axis] = 1;
    along = stepsOf(kept);
    for (int64_t axis : op.getAxes())
      along[axis] = 0;
    std::vector<std::optional<Wide>> found(countOf(kept));
    walk(shape, along, 0, [&](int64_t i, int64_t place) {
      std::optional<Wide> &so = found[place];
      Wide number = in[i];
      so = !so ? number : isSum ? *so + number : isMost ? std::max(*so, number) : std::min(*so, number);
    });
    Numbers values;
    for (const std::optional<Wide> &number : found) {
      if (number.value_or(0) > kMostNumber || number.value_or(0) < -kMostNumber)
        return std::nullopt;
      values.push_back(static_cast<int64_t>(number.value_or(0)));
    }
    return values;
  }

  /// An index into `size` entries, counted from the end where it is negative; none beyond them.
  static std::optional<int64_t> entry(int64_t index, int64_t size) {
    index += index < 0 ? size : 0;
    return index >= 0 && index < size ? std::optional(index) : std::nullopt;
  }

  static std::optional<Numbers> gathered(GatherOp op, const Numbers &data, const Numbers &indices) {
    ArrayRef<int64_t> shape = shapeOf(op.getData());
    int64_t axis = op.getAxis(), outer = countOf(shape.take_front(axis)), inner = countOf(shape.drop_front(axis + 1));
    Numbers values;
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t index : indices) {
        auto at = entry(index, shape[axis]);
        if (!at)
          return std::nullopt;
        auto first = data.begin() + (i * shape[axis] + *at) * inner;
        values.insert(values.end(), first, first + inner);
      }
    return values;
  }

  static std::optional<Numbers> scattered(ScatterOp op, Numbers data, const Numbers &indices, const Numbers &updates) {
    ArrayRef<int64_t> shape = shapeOf(op.getData());
    int64_t axis = op.getAxis(), outer = countOf(shape.take_front(axis)), inner = countOf(shape.drop_front(axis + 1));
    if (op.getKind() != "none")
      return std::nullopt;
    for (int64_t i = 0, next = 0; i < outer; ++i)
      for (int64_t index : indices) {
        auto at = entry(index, shape[axis]);
        if (!at)
          return std::nullopt;
        std::copy_n(updates.begin() + next, inner, data.begin() + (i * shape[axis] + *at) * inner);
        next += inner;
      }
    return data;
  }

  static std::optional<Numbers> scatteredElements(ScatterElementsOp op, Numbers data, const Numbers &indices,
                                                  const Numbers &updates) {
    ArrayRef<int64_t> shape = shapeOf(op.getData());
    SmallVector<int64_t> along = stepsOf(shape);
    int64_t axis = op.getAxis(), step = along[axis];
    bool isKnown = op.getKind() == "none";
    along[axis] = 0;
    walk(shapeOf(op.getIndices()), along, 0, [&](int64_t i, int64_t place) {
      auto at = entry(indices[i], shape[axis]);
      isKnown &= at.has_value();
      if (at)
        data[place + *at * step] = updates[i];
    });
    return isKnown ? std::optional(std::move(data)) : std::nullopt;
  }

  std::optional<Numbers> elementwise(Operation *op, ArrayRef<const Numbers *> in) {
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    if (isa<DivOp, ModOp>(op) && nn::isReal(op->getResult(0)))
      return std::nullopt;
    SmallVector<Numbers> operands;
    for (auto [operand, numbers] : llvm::zip(op->getOperands(), in)) {
      if (!spend(countOf(shape)))
        return std::nullopt;
      operands.push_back(spread(operand, *numbers, shape));
    }
    Numbers values(countOf(shape));
    for (size_t i = 0; i < values.size(); ++i) {
      auto at = [&](size_t operand) { return operands[operand][i]; };
      auto value = one(op, at, operands.size());
      if (!value || *value > kMostNumber || *value < -kMostNumber)
        return std::nullopt;
      values[i] = static_cast<int64_t>(*value);
    }
    return values;
  }

  static std::optional<Wide> one(Operation *op, llvm::function_ref<int64_t(size_t)> at, size_t count) {
    Wide a = at(0), b = count > 1 ? at(1) : 0;
    return llvm::TypeSwitch<Operation *, std::optional<Wide>>(op)
        .Case([&](AddOp) { return a + b; })
        .Case([&](SubOp) { return a - b; })
        .Case([&](MulOp) { return a * b; })
        .Case([&](DivOp) { return b != 0 ? std::optional<Wide>(a / b) : std::nullopt; })
        .Case([&](ModOp) { return b > 0 ? std::optional<Wide>((a % b + b) % b) : std::nullopt; })
        .Case([&](MaximumOp) { return std::max(a, b); })
        .Case([&](MinimumOp) { return std::min(a, b); })
        .Case([&](NegOp) { return -a; })
        .Case([&](AbsOp) { return a < 0 ? -a : a; })
        .Case([&](SelectOp) { return a != 0 ? b : Wide(at(2)); })
        .Case([&](CompareOp compare) -> std::optional<Wide> {
          StringRef predicate = compare.getPredicate();
          return predicate == "eq"   ? a == b
                 : predicate == "ne" ? a != b
                 : predicate == "lt" ? a < b
                 : predicate == "le" ? a <= b
                 : predicate == "gt" ? a > b
                                     : a >= b;
        })
        .Case([&](NotOp) { return Wide(a == 0); })
        .Case<AndOp, OrOp, XorOp>([&](Operation *logic) -> std::optional<Wide> {
          if (!getElementTypeOrSelf(logic->getResult(0).getType()).isInteger(1))
            return std::nullopt;
          return isa<AndOp>(logic) ? a && b : isa<OrOp>(logic) ? a || b : a != b;
        })
        .Default([](Operation *) { return std::nullopt; });
  }
};
} // namespace

std::optional<std::vector<int64_t>> knownIntegers(Value tensor) {
  Evaluator evaluator;
  const Numbers *found = evaluator.numbers(tensor);
  return found ? std::optional(*found) : std::nullopt;
}

} // namespace mt::passes
