// Losses that are part of a model: cross-entropy and negative log-likelihood, by their formulas
// (https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html).
#include "compiler/onnx/Converters.h"

#include <numeric>

using namespace mlir;

namespace mt::onnx {
namespace {

// Classes stand in dimension 1 in ONNX, in the last one here.
Value classesLast(NodeContext &node, Value value, bool back) {
  Dims order(value ? nn::shapeOf(value).size() : 0);
  std::iota(order.begin(), order.end(), 0);
  if (order.size() <= 2)
    return value;
  if (back)
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  else
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return node.transpose(value, order);
}

// The mean (or sum, or all) of -logarithms[.., label] over the labels that count.
LogicalResult likelihood(NodeContext &node, Value logarithms, Value labels) {
  if (!logarithms || !labels)
    return failure();
  if (node.has(2))
    return node.fail("class weights are not supported");
  SmallVector<int64_t> shape(nn::shapeOf(labels)), classes(shape.size() + 1, 1);
  if (nn::shapeOf(logarithms).empty())
    return node.fail("its first input must have a dimension of classes");
  classes.back() = nn::shapeOf(logarithms).back();
  shape.push_back(1);
  Type integer = getElementTypeOrSelf(labels);
  Value hit = node.compare(node.reshape(labels, shape),
                           node.iota(classes, integer, static_cast<int64_t>(shape.size()) - 1, 0, 1), "eq");
  Value picked = node.reduce(node.emit<nn::SelectOp>({hit, logarithms, node.scalar(logarithms, 0)}), "sum",
                             {static_cast<int64_t>(shape.size()) - 1}, false);
  Value loss = node.emit<nn::NegOp>({picked});
  Value valid;
  if (node.attributes.has("ignore_index")) {
    double ignored = static_cast<double>(node.attributes.integer("ignore_index", 0));
    valid = node.compare(labels, node.scalar(labels, ignored), "ne");
    loss = node.emit<nn::SelectOp>({valid, loss, node.scalar(loss, 0)});
  }
  if (!loss)
    return failure();
  std::string reduction = node.attributes.text("reduction", "mean");
  Dims all(nn::shapeOf(loss).size());
  std::iota(all.begin(), all.end(), 0);
  if (reduction == "none")
    return node.result(loss);
  if (reduction == "mean" && !valid)
    return node.result(node.reduce(loss, "mean", all, false));
  Value sum = node.reduce(loss, "sum", all, false);
  if (reduction == "sum")
    return node.result(sum);
  Value count = node.reduce(node.cast(valid, getElementTypeOrSelf(loss)), "sum", all, false);
  return node.result(node.div(sum, count));
}

LogicalResult crossEntropy(NodeContext &node) {
  Value logits = classesLast(node, node.input(0), false);
  Value logarithms = node.emit<nn::LogSoftmaxOp>({logits});
  if (node.wantsOutput(1) && failed(node.result(1, classesLast(node, logarithms, true))))
    return failure();
  return likelihood(node, logarithms, node.input(1));
}

LogicalResult negativeLogLikelihood(NodeContext &node) {
  return likelihood(node, classesLast(node, node.input(0), false), node.input(1));
}

} // namespace

void addLosses(Converters &table) {
  table.add("SoftmaxCrossEntropyLoss", crossEntropy);
  table.add("NegativeLogLikelihoodLoss", negativeLogLikelihood);
}

} // namespace mt::onnx
