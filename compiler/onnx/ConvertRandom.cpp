// Operators that draw random numbers. Of a node's operations here the step's scalars and the node's number are
// constants that stand for what DrawNumbers.cpp puts in their places.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/DrawNumbers.h"

#include "kernels/Types.h"

using namespace mlir;

namespace mt::onnx {
namespace {

/// What all draws of a node have in common.
struct Draw {
  NodeContext &node;
  Value scalars, number;

  explicit Draw(NodeContext &node)
      : node(node), scalars(nn::splat(node.builder, node.location,
                                      nn::tensorOf({kernels::Scalars::kCount}, node.builder.getF64Type()), 0)),
        number(nn::splat(node.builder, node.location, nn::tensorOf({}, node.builder.getI64Type()), 0)) {}

  Value dropout(Value x, double ratio) {
    return nn::DropoutOp::create(node.builder, node.location, x, Value(), scalars, number, APFloat(ratio), 1);
  }
  /// In 32 bits, with the shape of `like` and its rows, if it has any.
  Value like(Value value, StringRef kind, double ratio = 0) { return random(nn::shapeOf(value), value, kind, ratio); }
  Value random(ArrayRef<int64_t> shape, Value rows, StringRef kind, double ratio = 0) {
    return nn::RandomOp::create(node.builder, node.location, nn::tensorOf(shape, node.builder.getF32Type()), rows,
                                scalars, number, kind, APFloat(ratio), 1);
  }
};

bool isOne(const HostTensor *tensor) { return tensor && tensor->elements() == 1; }

/// Nothing where a number that must be known is not.
std::optional<double> ratioOf(NodeContext &node) {
  const HostTensor *given = node.known(1);
  if (node.has(1) && !isOne(given)) {
    (void)node.fail("its ratio (input 1, '{}') must be a number that is known when compiling: export the model with it "
                    "as a constant",
                    node.node.input(1));
    return std::nullopt;
  }
  double ratio = given ? given->realAt(0) : node.attributes.real("ratio", 0.5);
  if (ratio >= 0 && ratio < 1)
    return ratio;
  (void)node.fail("its ratio is {}, and must be at least 0 and below 1", ratio);
  return std::nullopt;
}
std::optional<bool> trains(NodeContext &node) {
  const HostTensor *given = node.known(2);
  if (!node.has(2) || isOne(given))
    return given && given->intAt(0) != 0;
  (void)node.fail(
      "whether it drops anything (input 2, '{}') must be known when compiling: export the model in training or in "
      "eval mode, with that as a constant; evaluations of mtrun drop nothing either way",
      node.node.input(2));
  return std::nullopt;
}

LogicalResult dropout(NodeContext &node) {
  Value value = node.input(0);
  std::optional<bool> training = trains(node);
  std::optional<double> ratio = ratioOf(node);
  if (!value)
    return failure();
  if (!training || !ratio)
    return node.result(value); // and go on as without, so that every such node is named
  bool drops = *training && *ratio > 0;
  if (!*training && *ratio > 0)
    noteIdleDropout(node);
  if (!drops) {
    if (node.wantsOutput(1))
      node.knownResult(1, HostTensor::splatInteger(DType::boolean, Dims(nn::shapeOf(value)), 1));
    return node.result(value);
  }
  if (!nn::isReal(value))
    return node.fail("drops elements of whole numbers: dropout is of floats");
  Draw draw(node);
  if (node.wantsOutput(1))
    if (llvm::failed(node.result(1, node.cast(draw.like(value, "keep", *ratio), node.builder.getI1Type()))))
      return failure();
  return node.result(draw.dropout(value, *ratio));
}

/// The element type that a node's attribute dtype names (`otherwise` without); null, with a problem, if it is no float.
Type elementOf(NodeContext &node, Type otherwise) {
  Type element = otherwise;
  if (int64_t code = node.attributes.integer("dtype", 0)) {
    std::optional<DType> type = elementType(static_cast<int32_t>(code));
    element = type ? mlirType(node.builder.getContext(), *type) : Type();
  }
  if (!element || !isa<FloatType>(element)) {
    (void)node.fail("draws numbers of a type that is no float: export it with dtype float");
    return {};
  }
  return element;
}

/// number * factor + shift.
LogicalResult scaled(NodeContext &node, Value value, double factor, double shift, Type element) {
  if (factor != 1)
    value = node.mul(value, node.scalar(value, factor));
  if (shift != 0)
    value = node.add(value, node.scalar(value, shift));
  return node.result(node.cast(value, element));
}
LogicalResult normal(NodeContext &node, Value value, Type element) {
  return scaled(node, value, node.attributes.real("scale", 1), node.attributes.real("mean", 0), element);
}
LogicalResult uniform(NodeContext &node, Value value, Type element) {
  double low = node.attributes.real("low", 0);
  return scaled(node, value, node.attributes.real("high", 1) - low, low, element);
}

/// Draws with the shape of input 0.
template <LogicalResult (*kFinish)(NodeContext &, Value, Type)>
LogicalResult drawnLike(NodeContext &node, StringRef kind) {
  Value like = node.input(0);
  Type own = like ? getElementTypeOrSelf(like) : Type();
  Type element = like ? elementOf(node, isa<FloatType>(own) ? own : Type(node.builder.getF32Type())) : Type();
  return element ? kFinish(node, Draw(node).like(like, kind), element) : failure();
}
LogicalResult randomNormalLike(NodeContext &node) { return drawnLike<normal>(node, "normal"); }
LogicalResult randomUniformLike(NodeContext &node) { return drawnLike<uniform>(node, "uniform"); }

/// Draws of a shape that the node states: they belong to no rows, every micro-batch has the same.
template <LogicalResult (*kFinish)(NodeContext &, Value, Type)> LogicalResult drawn(NodeContext &node, StringRef kind) {
  auto shape = node.attributes.integers("shape");
  if (!shape || llvm::any_of(*shape, [](int64_t size) { return size < 1; }))
    return node.fail("needs an attribute shape of positive sizes");
  Type element = elementOf(node, node.builder.getF32Type());
  return element ? kFinish(node, Draw(node).random(*shape, Value(), kind), element) : failure();
}
LogicalResult randomNormal(NodeContext &node) { return drawn<normal>(node, "normal"); }
LogicalResult randomUniform(NodeContext &node) { return drawn<uniform>(node, "uniform"); }

/// 1 with the probability that input 0 is.
LogicalResult bernoulli(NodeContext &node) {
  Value probability = node.input(0);
  if (!probability)
    return failure();
  if (!nn::isReal(probability))
    return node.fail("needs probabilities that are floats");
  Type element = getElementTypeOrSelf(probability);
  if (int64_t code = node.attributes.integer("dtype", 0)) {
    std::optional<DType> type = elementType(static_cast<int32_t>(code));
    if (!type)
      return node.fail("draws numbers of a type that is not known");
    element = mlirType(node.builder.getContext(), *type);
  }
  Value hit =
      node.compare(Draw(node).like(probability, "uniform"), node.cast(probability, node.builder.getF32Type()), "lt");
  return node.result(node.cast(hit, element));
}

} // namespace

void addRandom(Converters &table) {
  table.add("Dropout", dropout);
  table.add("RandomNormal", randomNormal);
  table.add("RandomNormalLike", randomNormalLike);
  table.add("RandomUniform", randomUniform);
  table.add("RandomUniformLike", randomUniformLike);
  table.add("Bernoulli", bernoulli);
}

} // namespace mt::onnx
