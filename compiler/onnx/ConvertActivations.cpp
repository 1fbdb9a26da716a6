// Activation functions, each as the nn operation it is or by its formula (https://onnx.ai/onnx/operators).
#include "compiler/onnx/Converters.h"

using namespace mlir;

namespace mt::onnx {
namespace {

template <typename Op> LogicalResult unary(NodeContext &node) { return node.result(node.emit<Op>({node.input(0)})); }

Value geluOf(NodeContext &node, Value value, StringRef form) {
  return node.emit<nn::GeluOp>({value}, {node.textAttr("form", form)});
}

LogicalResult gelu(NodeContext &node) {
  std::string form = node.attributes.text("approximate", "none");
  if (form != "none" && form != "tanh")
    return node.fail("approximate '{}' is unknown", form);
  return node.result(geluOf(node, node.input(0), form == "tanh" ? "tanh" : "erf"));
}

// x where it is positive, else `negative`.
LogicalResult leaky(NodeContext &node, Value value, Value negative) {
  Value positive = node.compare(value, node.scalar(value, 0), "gt");
  return node.result(node.emit<nn::SelectOp>({positive, value, negative}));
}
LogicalResult leakyRelu(NodeContext &node) {
  Value value = node.input(0);
  return leaky(node, value, node.mul(value, node.scalar(value, node.attributes.real("alpha", 0.01))));
}
LogicalResult pRelu(NodeContext &node) {
  Value value = node.input(0);
  return leaky(node, value, node.mul(value, node.input(1)));
}
// The exponential only of what is negative: e^x of a large x would be infinite, and its gradient no number.
Value expOfNegative(NodeContext &node, Value value, double scale) {
  Value bounded = clipped(node, value, {}, node.scalar(value, 0), false);
  Value scaled = scale == 1 ? bounded : node.mul(bounded, node.scalar(value, scale));
  return node.sub(node.emit<nn::ExpOp>({scaled}), node.scalar(value, 1));
}
LogicalResult elu(NodeContext &node) {
  Value value = node.input(0);
  double alpha = node.attributes.real("alpha", 1);
  return leaky(node, value, node.mul(expOfNegative(node, value, 1), node.scalar(value, alpha)));
}
LogicalResult celu(NodeContext &node) {
  Value value = node.input(0);
  double alpha = node.attributes.real("alpha", 1);
  return leaky(node, value, node.mul(expOfNegative(node, value, 1 / alpha), node.scalar(value, alpha)));
}
LogicalResult selu(NodeContext &node) {
  Value value = node.input(0);
  double alpha = node.attributes.real("alpha", 1.67326319217681884765625);
  double gamma = node.attributes.real("gamma", 1.05070102214813232421875);
  Value negative = node.mul(expOfNegative(node, value, 1), node.scalar(value, alpha));
  Value positive = node.compare(value, node.scalar(value, 0), "gt");
  Value both = node.emit<nn::SelectOp>({positive, value, negative});
  return node.result(node.mul(both, node.scalar(value, gamma)));
}

LogicalResult softsign(NodeContext &node) {
  Value value = node.input(0);
  return node.result(node.div(value, node.add(node.emit<nn::AbsOp>({value}), node.scalar(value, 1))));
}

// max(0, min(1, alpha * x + beta)), without a gradient where that is zero or one
Value hardSigmoidOf(NodeContext &node, Value value, double alpha, double beta) {
  Value line = node.add(node.mul(value, node.scalar(value, alpha)), node.scalar(value, beta));
  return clipped(node, line, node.scalar(value, 0), node.scalar(value, 1), true);
}
LogicalResult hardSigmoid(NodeContext &node) {
  return node.result(hardSigmoidOf(node, node.input(0), node.attributes.real("alpha", 0.2), node.attributes.real("beta", 0.5)));
}
LogicalResult hardSwish(NodeContext &node) {
  Value value = node.input(0);
  return node.result(node.mul(value, hardSigmoidOf(node, value, 1.0 / 6, 0.5)));
}

LogicalResult mish(NodeContext &node) {
  Value value = node.input(0);
  return node.result(node.mul(value, node.emit<nn::TanhOp>({node.emit<nn::SoftplusOp>({value})})));
}

LogicalResult swish(NodeContext &node) {
  Value value = node.input(0);
  double alpha = node.attributes.real("alpha", 1);
  if (alpha == 1)
    return node.result(node.emit<nn::SiluOp>({value}));
  return node.result(node.mul(value, node.emit<nn::SigmoidOp>({node.mul(value, node.scalar(value, alpha))})));
}

LogicalResult swiGlu(NodeContext &node) {
  Value gate = node.input(0), up = node.input(1);
  if (!gate || !up)
    return failure();
  if (gate.getType() != up.getType())
    return node.fail("its inputs must have one shape and type");
  double alpha = node.attributes.real("alpha", 1);
  if (alpha == 1)
    return node.result(node.emit<nn::GatedProductOp>({gate, up}, {node.textAttr("activation", "silu")}));
  Value curve = node.emit<nn::SigmoidOp>({node.mul(gate, node.scalar(gate, alpha))});
  return node.result(node.mul(node.mul(gate, curve), up));
}

// Nearer to zero by the bias; zero within lambd of it.
LogicalResult shrink(NodeContext &node) {
  Value value = node.input(0);
  if (!value)
    return failure();
  double bound = node.attributes.real("lambd", 0.5), bias = node.attributes.real("bias", 0);
  Value below = node.compare(value, node.scalar(value, -bound), "lt"),
        above = node.compare(value, node.scalar(value, bound), "gt");
  Value lowered = node.emit<nn::SelectOp>({above, node.sub(value, node.scalar(value, bias)), node.scalar(value, 0)});
  return node.result(node.emit<nn::SelectOp>({below, node.add(value, node.scalar(value, bias)), lowered}));
}

LogicalResult thresholdedRelu(NodeContext &node) {
  Value value = node.input(0);
  Value above = node.compare(value, node.scalar(value, node.attributes.real("alpha", 1)), "gt");
  return node.result(node.emit<nn::SelectOp>({above, value, node.scalar(value, 0)}));
}

//===-- com.microsoft -----------------------------------------------------------------------------------------===//

LogicalResult contribGelu(NodeContext &node) { return node.result(geluOf(node, node.input(0), "erf")); }
LogicalResult biasGelu(NodeContext &node) {
  return node.result(geluOf(node, node.add(node.input(0), node.input(1)), "erf"));
}
LogicalResult fastGelu(NodeContext &node) {
  Value value = node.has(1) ? node.add(node.input(0), node.input(1)) : node.input(0);
  return node.result(geluOf(node, value, "tanh"));
}
LogicalResult quickGelu(NodeContext &node) {
  Value value = node.input(0);
  double alpha = node.attributes.real("alpha", 1.702);
  if (alpha > 1.7019 && alpha < 1.7021)
    return node.result(geluOf(node, value, "sigmoid"));
  if (alpha == 1)
    return node.result(node.emit<nn::SiluOp>({value}));
  return node.result(node.mul(value, node.emit<nn::SigmoidOp>({node.mul(value, node.scalar(value, alpha))})));
}

} // namespace

void addActivations(Converters &table) {
  table.add("Relu", unary<nn::ReluOp>);
  table.add("Sigmoid", unary<nn::SigmoidOp>);
  table.add("Tanh", unary<nn::TanhOp>);
  table.add("Softplus", unary<nn::SoftplusOp>);
  table.add("Gelu", gelu);
  table.add("LeakyRelu", leakyRelu);
  table.add("PRelu", pRelu);
  table.add("Elu", elu);
  table.add("Celu", celu);
  table.add("Selu", selu);
  table.add("Softsign", softsign);
  table.add("HardSigmoid", hardSigmoid);
  table.add("HardSwish", hardSwish);
  table.add("Mish", mish);
  table.add("Swish", swish);
  table.add("ThresholdedRelu", thresholdedRelu);
  table.add("SwiGLU", swiGlu);
  table.add("Shrink", shrink);
  table.addContrib("Gelu", contribGelu);
  table.addContrib("BiasGelu", biasGelu);
  table.addContrib("FastGelu", fastGelu);
  table.addContrib("QuickGelu", quickGelu);
}

} // namespace mt::onnx
