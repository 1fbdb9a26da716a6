// Reductions over axes given as an attribute or an input, and those that are formulas of a sum.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ExportMetadata.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

struct Reduction {
  Dims axes; ///< ascending, from the front; empty: nothing is reduced
  bool keepDims = true;
  bool first = false; ///< of equal elements the first has the gradient
};

std::optional<Reduction> reductionOf(NodeContext &node, Value value) {
  auto rank = static_cast<int64_t>(nn::shapeOf(value).size());
  auto axes = node.axes(1, "axes", rank);
  if (!axes)
    return std::nullopt;
  Reduction reduction{*axes, node.attributes.integer("keepdims", 1) != 0};
  if (axes->empty() && !node.attributes.integer("noop_with_empty_axes", 0)) {
    reduction.axes.resize(static_cast<size_t>(rank));
    std::iota(reduction.axes.begin(), reduction.axes.end(), 0);
  }
  llvm::sort(reduction.axes);
  reduction.axes.erase(llvm::unique(reduction.axes), reduction.axes.end());
  return reduction;
}

bool isBoolean(Value value) { return getElementTypeOrSelf(value).isInteger(1); }

// What a reduction over nothing gives: the element that changes nothing, and of a mean no number.
Value ofNothing(NodeContext &node, Value like, StringRef kind) {
  Type element = getElementTypeOrSelf(like);
  DType type = dtypeOf(element);
  auto splat = [&](double value) {
    return node.broadcast(node.constant(HostTensor::splat(type, {}, value)), nn::shapeOf(like));
  };
  double infinity = std::numeric_limits<double>::infinity();
  if (kind == "max" || kind == "min") {
    if (isFloat(type))
      return splat(kind == "max" ? -infinity : infinity);
    if (type == DType::boolean)
      return splat(kind == "max" ? 0 : 1);
    bool isUnsigned = element.isUnsignedInteger();
    unsigned bits = element.getIntOrFloatBitWidth();
    APInt bound = kind == "max" ? (isUnsigned ? APInt::getMinValue(bits) : APInt::getSignedMinValue(bits))
                                : (isUnsigned ? APInt::getMaxValue(bits) : APInt::getSignedMaxValue(bits));
    int64_t limit = isUnsigned ? static_cast<int64_t>(bound.getZExtValue()) : bound.getSExtValue();
    return node.broadcast(node.constant(HostTensor::splatInteger(type, {}, limit)), nn::shapeOf(like));
  }
  return splat(kind == "prod" ? 1 : kind == "mean" ? std::numeric_limits<double>::quiet_NaN() : 0);
}

Value reduceBy(NodeContext &node, Value value, StringRef kind, const Reduction &reduction) {
  if (!value || reduction.axes.empty())
    return value;
  bool empty =
      llvm::any_of(reduction.axes, [&](int64_t axis) { return nn::shapeOf(value)[static_cast<size_t>(axis)] == 0; });
  if (isBoolean(value) && !empty) { // the largest and smallest are both and either
    Value numbers = reduceBy(node, node.cast(value, node.builder.getI32Type()), kind, reduction);
    return numbers ? node.cast(numbers, node.builder.getI1Type()) : numbers;
  }
  Value reduced = node.reduce(value, kind, reduction.axes, reduction.keepDims, reduction.first);
  return empty && reduced ? ofNothing(node, reduced, kind) : reduced;
}

enum class ReduceKind : uint8_t { sum, mean, max, min, prod };
template <ReduceKind kind> LogicalResult plain(NodeContext &node) {
  constexpr const char *names[] = {"sum", "mean", "max", "min", "prod"};
  Value value = node.input(0);
  auto reduction = value ? reductionOf(node, value) : std::nullopt;
  if (!reduction)
    return failure();
  if (kind == ReduceKind::max || kind == ReduceKind::min)
    reduction->first = reduction->axes.size() == 1 && nn::isReal(value) && isOfFirst(node.node);
  return node.result(reduceBy(node, value, names[static_cast<int>(kind)], *reduction));
}

LogicalResult sumOf(NodeContext &node, Value value, Value (*finish)(NodeContext &, Value)) {
  auto reduction = value ? reductionOf(node, value) : std::nullopt;
  if (!reduction)
    return failure();
  Value sum = reduceBy(node, value, "sum", *reduction);
  return node.result(finish ? finish(node, sum) : sum);
}
Value rootOf(NodeContext &node, Value value) { return node.emit<nn::SqrtOp>({value}); }
Value logOf(NodeContext &node, Value value) { return node.emit<nn::LogOp>({value}); }

LogicalResult l1(NodeContext &node) { return sumOf(node, node.emit<nn::AbsOp>({node.input(0)}), nullptr); }
LogicalResult l2(NodeContext &node) {
  Value value = node.input(0);
  return sumOf(node, node.mul(value, value), rootOf);
}
LogicalResult sumSquare(NodeContext &node) {
  Value value = node.input(0);
  return sumOf(node, node.mul(value, value), nullptr);
}
LogicalResult logSum(NodeContext &node) { return sumOf(node, node.input(0), logOf); }

// max + log(sum(exp(x - max))): the maximum taken out, so that nothing overflows.
LogicalResult logSumExp(NodeContext &node) {
  Value value = node.input(0);
  auto reduction = value ? reductionOf(node, value) : std::nullopt;
  if (!reduction)
    return failure();
  if (llvm::is_contained(nn::shapeOf(value), 0))
    return node.result(logOf(node, reduceBy(node, node.emit<nn::ExpOp>({value}), "sum", *reduction)));
  Value peak = reduceBy(node, value, "max", {reduction->axes, true});
  Value rest = logOf(node, reduceBy(node, node.emit<nn::ExpOp>({node.sub(value, peak)}), "sum", *reduction));
  if (!rest)
    return failure();
  return node.result(node.add(node.reshape(peak, nn::shapeOf(rest)), rest));
}

} // namespace

void addReductions(Converters &table) {
  table.add("ReduceSum", plain<ReduceKind::sum>);
  table.add("ReduceMean", plain<ReduceKind::mean>);
  table.add("ReduceMax", plain<ReduceKind::max>);
  table.add("ReduceMin", plain<ReduceKind::min>);
  table.add("ReduceProd", plain<ReduceKind::prod>);
  table.add("ReduceL1", l1);
  table.add("ReduceL2", l2);
  table.add("ReduceSumSquare", sumSquare);
  table.add("ReduceLogSum", logSum);
  table.add("ReduceLogSumExp", logSumExp);
}

} // namespace mt::onnx
