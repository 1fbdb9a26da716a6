#include "tests/passes/NnValues.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/TypeSwitch.h"
#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace mt::nn;

namespace mt::test {
namespace {
using Index = std::vector<int64_t>;

int64_t count(const Index &shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    product *= size;
  return product;
}
Index shapeVector(Value value) { return {shapeOf(value).begin(), shapeOf(value).end()}; }

/// `value` as a number of the type: rounded, or wrapped around.
double stored(double value, Type element) {
  if (element.isF32())
    return static_cast<float>(value);
  if (auto floating = dyn_cast<FloatType>(element)) {
    if (element.isF64())
      return value;
    llvm::APFloat number(value);
    bool loses = false;
    number.convert(floating.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &loses);
    return number.convertToDouble();
  }
  unsigned bits = element.getIntOrFloatBitWidth();
  if (bits == 1)
    return value != 0;
  double range = std::ldexp(1.0, static_cast<int>(bits)), whole = std::trunc(value);
  if (bits == 64)
    return whole;
  whole -= std::floor(whole / range) * range;
  return element.isUnsignedInteger() || whole < range / 2 ? whole : whole - range;
}

/// A tensor of the result's type whose element at an index is `element(index)`.
template <typename Element> Tensor fill(Value result, Element element) {
  Tensor made{shapeVector(result), {}};
  made.elements.reserve(static_cast<size_t>(count(made.shape)));
  Type type = getElementTypeOrSelf(result.getType());
  Index index(made.shape.size(), 0);
  if (count(made.shape) > 0)
    do
      made.elements.push_back(stored(element(index), type));
    while (advance(index, made.shape));
  return made;
}

double compared(StringRef predicate, double a, double b) {
  if (predicate == "eq")
    return a == b;
  if (predicate == "ne")
    return a != b;
  if (predicate == "lt")
    return a < b;
  if (predicate == "le")
    return a <= b;
  return predicate == "gt" ? a > b : a >= b;
}

std::optional<double> binary(Operation *op, double a, double b) {
  return llvm::TypeSwitch<Operation *, std::optional<double>>(op)
      .Case<AddOp>([&](auto) { return a + b; })
      .Case<SubOp>([&](auto) { return a - b; })
      .Case<MulOp>([&](auto) { return a * b; })
      .Case<DivOp>(
          [&](DivOp div) { return isa<FloatType>(getElementTypeOrSelf(div.getType())) ? a / b : std::trunc(a / b); })
      .Case<ModOp>([&](auto) { return a - std::floor(a / b) * b; })
      .Case<MaximumOp>([&](auto) { return std::max(a, b); })
      .Case<MinimumOp>([&](auto) { return std::min(a, b); })
      .Case<AndOp>([&](auto) { return a != 0 && b != 0; })
      .Case<OrOp>([&](auto) { return a != 0 || b != 0; })
      .Case<XorOp>([&](auto) { return (a != 0) != (b != 0); })
      .Case<CompareOp>([&](CompareOp compare) { return compared(compare.getPredicate(), a, b); })
      .Default([](auto) { return std::nullopt; });
}
std::optional<double> unary(Operation *op, double x) {
  return llvm::TypeSwitch<Operation *, std::optional<double>>(op)
      .Case<NegOp>([&](auto) { return -x; })
      .Case<AbsOp>([&](auto) { return std::abs(x); })
      .Case<NotOp>([&](auto) { return x == 0; })
      .Case<FloorOp>([&](auto) { return std::floor(x); })
      .Case<TanhOp>([&](auto) { return std::tanh(x); })
      .Case<IsNanOp>([&](auto) { return std::isnan(x); })
      .Case<CastOp, CopyOp>([&](auto) { return x; })
      .Default([](auto) { return std::nullopt; });
}

Tensor constant(ConstantOp op) {
  auto dense = cast<DenseElementsAttr>(op.getValue());
  bool real = isa<FloatType>(dense.getElementType()),
       isSigned = !dense.getElementType().isUnsignedInteger() && !dense.getElementType().isInteger(1);
  std::vector<double> all;
  if (real)
    for (const llvm::APFloat &x : dense.getValues<llvm::APFloat>())
      all.push_back(x.convertToDouble());
  else
    for (const llvm::APInt &x : dense.getValues<llvm::APInt>())
      all.push_back(isSigned ? static_cast<double>(x.getSExtValue()) : static_cast<double>(x.getZExtValue()));
  return {shapeVector(op), std::move(all)};
}

Tensor joined(ConcatOp op, const std::vector<const Tensor *> &in) {
  auto axis = static_cast<size_t>(op.getAxis());
  return fill(op, [&](Index index) {
    for (const Tensor *part : in)
      if (index[axis] < part->shape[axis])
        return part->at(index);
      else
        index[axis] -= part->shape[axis];
    return std::nan("");
  });
}

Tensor gathered(GatherOp op, const Tensor &data, const Tensor &indices) {
  auto axis = static_cast<ptrdiff_t>(op.getAxis()), rank = static_cast<ptrdiff_t>(indices.shape.size());
  return fill(op, [&](const Index &index) {
    double place = indices.at(Index(index.begin() + axis, index.begin() + axis + rank));
    Index from(index.begin(), index.begin() + axis);
    from.push_back(
        static_cast<int64_t>(place < 0 ? place + static_cast<double>(data.shape[static_cast<size_t>(axis)]) : place));
    from.insert(from.end(), index.begin() + axis + rank, index.end());
    return data.at(from);
  });
}
Tensor gathered(GatherNdOp op, const Tensor &data, const Tensor &indices) {
  auto prefix = static_cast<ptrdiff_t>(indices.shape.size()) - 1;
  return fill(op, [&](const Index &index) {
    Index from(index.begin(), index.begin() + static_cast<ptrdiff_t>(op.getBatchDims())),
        at(index.begin(), index.begin() + prefix);
    at.push_back(0);
    for (; at.back() < indices.shape.back(); ++at.back()) {
      double place = indices.at(at);
      from.push_back(static_cast<int64_t>(place < 0 ? place + static_cast<double>(data.shape[from.size()]) : place));
    }
    from.insert(from.end(), index.begin() + prefix, index.end());
    return data.at(from);
  });
}

Tensor running(CumsumOp op, const Tensor &in) {
  auto axis = static_cast<size_t>(op.getAxis());
  return fill(op, [&](Index index) {
    double sum = 0;
    for (int64_t i = 0, own = index[axis]; i < in.shape[axis]; ++i)
      if (index[axis] = i; (op.getReverse() ? i > own : i < own) || (i == own && !op.getExclusive()))
        sum += in.at(index);
    return sum;
  });
}

Tensor product(MatmulOp op, const Tensor &a, const Tensor &b, const Tensor *bias) {
  size_t rank = a.shape.size();
  int64_t depth = a.shape[rank - (op.getTransposeLhs() ? 2 : 1)];
  auto read = [&](const Tensor &from, Index index, int64_t row, int64_t column, bool transposed) {
    index[rank - 2] = transposed ? column : row;
    index[rank - 1] = transposed ? row : column;
    return from.at(index);
  };
  return fill(op, [&](const Index &index) {
    double sum = bias ? bias->at({index.back()}) : 0;
    for (int64_t i = 0; i < depth; ++i)
      sum += read(a, index, index[rank - 2], i, op.getTransposeLhs()) *
             read(b, index, i, index[rank - 1], op.getTransposeRhs());
    return sum;
  });
}

Tensor softmax(SoftmaxOp op, const Tensor &in) {
  return fill(op, [&](Index index) {
    double own = in.at(index), most = -INFINITY, sum = 0;
    for (index.back() = 0; index.back() < in.shape.back(); ++index.back())
      most = std::max(most, in.at(index));
    for (index.back() = 0; index.back() < in.shape.back(); ++index.back())
      sum += std::exp(in.at(index) - most);
    return std::exp(own - most) / sum;
  });
}

/// The predicate as the description of nn.attention writes it.
bool sees(AttentionOp op, int64_t b, int64_t q, int64_t k, NnValues &values) {
  int64_t distance = q - k + static_cast<int64_t>(op.getOffset()), chunk = static_cast<int64_t>(op.getChunk());
  bool near = (static_cast<int64_t>(op.getMinDistance()) <= distance &&
               distance <= static_cast<int64_t>(op.getMaxDistance())) ||
              k < static_cast<int64_t>(op.getPrefix());
  return near && (!op.getKeyMask() || values.of(op.getKeyMask()).at({b, k}) != 0) &&
         (!op.getQuerySegment() ||
          values.of(op.getQuerySegment()).at({b, q}) == values.of(op.getKeySegment()).at({b, k})) &&
         (chunk == 0 || q / chunk == k / chunk);
}

Tensor attention(AttentionOp op, NnValues &values) {
  const Tensor query = values.of(op.getQuery()), key = values.of(op.getKey()), value = values.of(op.getValue());
  int64_t shared = query.shape[2] / key.shape[2], keys = key.shape[1];
  return fill(op.getResult(), [&](const Index &at) { // [batch, query, head, channel]
    std::vector<double> scores(static_cast<size_t>(keys), -INFINITY);
    double most = -INFINITY, total = 0, sum = 0;
    for (int64_t k = 0; k < keys; ++k) {
      if (!sees(op, at[0], at[1], k, values))
        continue;
      double score = 0;
      for (int64_t d = 0; d < query.shape[3]; ++d)
        score += query.at({at[0], at[1], at[2], d}) * key.at({at[0], k, at[2] / shared, d});
      score *= op.getScale().convertToDouble();
      double cap = op.getSoftCap().convertToDouble();
      score = cap > 0 ? cap * std::tanh(score / cap) : score;
      score += op.getBias() ? values.of(op.getBias()).at({at[0], at[2], at[1], k}) : 0;
      most = std::max(most, scores[static_cast<size_t>(k)] = score);
    }
    for (int64_t k = 0; k < keys; ++k)
      if (double p = std::exp(scores[static_cast<size_t>(k)] - most); p > 0)
        total += p, sum += p * value.at({at[0], k, at[2] / shared, at[3]});
    return total > 0 ? sum / total : 0.0;
  });
}
} // namespace

bool advance(Index &index, const Index &shape) {
  for (size_t i = index.size(); i-- > 0;) {
    if (++index[i] < shape[i])
      return true;
    index[i] = 0;
  }
  return false;
}

double Tensor::at(const Index &index) const {
  size_t place = 0, skip = index.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    place = place * static_cast<size_t>(shape[i]) + static_cast<size_t>(shape[i] == 1 ? 0 : index[skip + i]);
  return elements.at(place);
}

const Tensor &NnValues::of(Value value) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  auto result = dyn_cast<OpResult>(value);
  Tensor made = result ? compute(result.getOwner(), result.getResultNumber()) : Tensor{};
  return known[value] = std::move(made);
}

Tensor NnValues::compute(Operation *op, unsigned result) {
  if (auto attend = dyn_cast<AttentionOp>(op); attend && result == 0)
    return attention(attend, *this);
  std::vector<const Tensor *> in;
  for (Value operand : op->getOperands())
    (void)of(operand);
  for (Value operand : op->getOperands())
    in.push_back(&of(operand));
  Value out = op->getResult(0);
  return llvm::TypeSwitch<Operation *, Tensor>(op)
      .Case<ConstantOp>([](ConstantOp constantOp) { return constant(constantOp); })
      .Case<IotaOp>([&](IotaOp iota) {
        double start = iota.getStart().convertToDouble(), step = iota.getStep().convertToDouble();
        return fill(out,
                    [&](const Index &index) { return start + step * static_cast<double>(index[iota.getDimension()]); });
      })
      .Case<ReshapeOp>([&](auto) {
        return Tensor{shapeVector(out), in[0]->elements};
      })
      .Case<BroadcastOp>([&](auto) { return fill(out, [&](const Index &index) { return in[0]->at(index); }); })
      .Case<TransposeOp>([&](TransposeOp transpose) {
        return fill(out, [&](const Index &index) {
          Index from(index.size());
          for (auto [i, dimension] : llvm::enumerate(transpose.getPermutation()))
            from[static_cast<size_t>(dimension)] = index[i];
          return in[0]->at(from);
        });
      })
      .Case<SliceOp>([&](SliceOp slice) {
        return fill(out, [&](Index index) {
          for (size_t i = 0; i < index.size(); ++i)
            index[i] = slice.getStarts()[i] + index[i] * slice.getStrides()[i];
          return in[0]->at(index);
        });
      })
      .Case<ConcatOp>([&](ConcatOp concat) { return joined(concat, in); })
      .Case<GatherOp>([&](GatherOp gather) { return gathered(gather, *in[0], *in[1]); })
      .Case<GatherNdOp>([&](GatherNdOp gather) { return gathered(gather, *in[0], *in[1]); })
      .Case<CumsumOp>([&](CumsumOp sum) { return running(sum, *in[0]); })
      .Case<MatmulOp>([&](MatmulOp matmul) { return product(matmul, *in[0], *in[1], in.size() > 2 ? in[2] : nullptr); })
      .Case<SoftmaxOp>([&](SoftmaxOp rows) { return softmax(rows, *in[0]); })
      .Case<SelectOp>([&](auto) {
        return fill(out,
                    [&](const Index &index) { return in[0]->at(index) != 0 ? in[1]->at(index) : in[2]->at(index); });
      })
      .Default([&](Operation *other) {
        bool known = in.size() == 2 ? binary(other, 1, 1).has_value() : in.size() == 1 && unary(other, 1).has_value();
        if (!known)
          ADD_FAILURE() << "NnValues does not know " << other->getName().getStringRef().str();
        return fill(out, [&](const Index &index) {
          return !known           ? 0
                 : in.size() == 2 ? *binary(other, in[0]->at(index), in[1]->at(index))
                                  : *unary(other, in[0]->at(index));
        });
      });
}

} // namespace mt::test
