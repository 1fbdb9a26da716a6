// Fused operators of ONNX Runtime (domain com.microsoft) that optimized exports contain
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md): products and convolutions with what
// follows them. Other families have theirs beside the standard's.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"

#include <fmt/ranges.h>

#include <numeric>
#include <set>

using namespace mlir;

namespace mt::onnx {
namespace {

using Attributes = std::vector<std::pair<std::string, double>>;

// What the node's attribute `activation` names, with these attributes.
Value activated(NodeContext &node, Value value, const Attributes &attributes) {
  static const std::set<std::string> known{"Clip",    "Elu",      "HardSigmoid", "LeakyRelu", "Relu",           "Selu",
                                           "Sigmoid", "Softplus", "Softsign",    "Tanh",      "ThresholdedRelu"};
  const std::string name = node.attributes.text("activation", "");
  if (!value || name.empty())
    return value;
  if (!known.contains(name)) {
    (void)node.fail("its activation '{}' is not known; those that are: {}", name, fmt::join(known, " "));
    return {};
  }
  ::onnx::NodeProto proto;
  for (const auto &[what, number] : attributes) {
    ::onnx::AttributeProto *attribute = proto.add_attribute();
    attribute->set_name(what);
    attribute->set_f(static_cast<float>(number));
  }
  NodeValue of;
  of.value = value;
  return converted(node, name, {&of}, NodeAttributes(proto, nullptr));
}

LogicalResult fusedMatMul(NodeContext &node) {
  Value a = node.input(0), b = node.input(1);
  if (!a || !b)
    return failure();
  // The first dimension goes behind the other batch dimensions; then the last two change places.
  auto flipped = [&](Value value, const char *batch, const char *matrix) {
    Dims order(nn::shapeOf(value).size());
    std::iota(order.begin(), order.end(), 0);
    if (order.size() < 2)
      return value;
    if (node.attributes.integer(batch, 0))
      std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
    if (node.attributes.integer(matrix, 0))
      std::swap(order[order.size() - 1], order[order.size() - 2]);
    return llvm::is_sorted(order) ? value : node.transpose(value, order);
  };
  Value product = matmulOf(node, flipped(a, "transBatchA", "transA"), flipped(b, "transBatchB", "transB"));
  double alpha = node.attributes.real("alpha", 1);
  return node.result(alpha == 1 ? product : node.mul(product, node.scalar(product, alpha)));
}

// Gemm, and an activation.
LogicalResult fusedGemm(NodeContext &node) {
  Attributes attributes;
  for (const char *name : {"alpha", "beta", "gamma"})
    if (const std::string own = std::string("activation_") + name; node.attributes.has(own))
      attributes.emplace_back(name, node.attributes.real(own, 0));
  return node.result(activated(node, converted(node, "Gemm", node.givenInputs(3), node.attributes), attributes));
}

// Conv, what is added to it, and an activation.
LogicalResult fusedConv(NodeContext &node) {
  Value result = converted(node, "Conv", node.givenInputs(3), node.attributes);
  if (node.has(3))
    result = node.add(result, node.input(3));
  const bool clips = node.attributes.text("activation", "") == "Clip";
  const char *const names[] = {clips ? "min" : "alpha", clips ? "max" : "beta"};
  const std::vector<float> given = node.attributes.reals("activation_params").value_or(std::vector<float>());
  Attributes attributes;
  for (size_t i = 0; i < std::min(given.size(), std::size(names)); ++i)
    attributes.emplace_back(names[i], given[i]);
  return node.result(activated(node, result, attributes));
}

// Conv of [N, H, W, C] by a kernel [M, h, w, C].
LogicalResult nhwcConv(NodeContext &node) {
  NodeValue image, kernel;
  image.value = node.input(0);
  kernel.value = node.input(1);
  if (!image.value || !kernel.value)
    return failure();
  if (nn::shapeOf(image.value).size() != 4 || nn::shapeOf(kernel.value).size() != 4)
    return node.fail("its image and its kernel must have four dimensions");
  image.value = node.transpose(image.value, {0, 3, 1, 2});
  kernel.value = node.transpose(kernel.value, {0, 3, 1, 2});
  std::vector<NodeValue *> inputs = node.givenInputs(3);
  inputs[0] = &image;
  inputs[1] = &kernel;
  return node.result(node.transpose(converted(node, "Conv", inputs, node.attributes), {0, 2, 3, 1}));
}

// x + bias + skip.
LogicalResult biasAdd(NodeContext &node) {
  return node.result(node.add(node.add(node.input(0), node.input(1)), node.input(2)));
}

// Of x + bias, the first half of the columns times the gelu of the second.
LogicalResult biasSplitGelu(NodeContext &node) {
  Value sum = node.add(node.input(0), node.input(1));
  if (!sum)
    return failure();
  const Dims shape(nn::shapeOf(sum));
  if (shape.empty() || shape.back() % 2 != 0)
    return node.fail("needs an even number of columns");
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  const int64_t half = shape.back() / 2;
  Value gate = node.emit<nn::GeluOp>({node.slice(sum, last, half, half)}, {node.textAttr("form", "erf")});
  return node.result(node.mul(node.slice(sum, last, 0, half), gate));
}

} // namespace

void addContrib(Converters &table) {
  table.addContrib("FusedMatMul", fusedMatMul);
  table.addContrib("FusedGemm", fusedGemm);
  table.addContrib("FusedConv", fusedConv);
  table.addContrib("NhwcConv", nhwcConv);
  table.addContrib("BiasAdd", biasAdd);
  table.addContrib("BiasSplitGelu", biasSplitGelu);
}

} // namespace mt::onnx
