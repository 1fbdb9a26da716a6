// Losses that are part of a model: cross-entropy and negative log-likelihood, by their formulas
// (https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html).
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ExportMetadata.h"

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

// The mean (or sum, or all) of -weight[label] logarithms[.., label] over the labels that count; the mean divides by the
// weights of those labels. The share `smoothing` of it is the mean over all classes in place of the label's
// (https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html).
LogicalResult likelihood(NodeContext &node, Value logarithms, Value labels, double smoothing = 0) {
  if (!logarithms || !labels)
    return failure();
  SmallVector<int64_t> shape(nn::shapeOf(labels)), classes(shape.size() + 1, 1);
  if (nn::shapeOf(logarithms).empty())
    return node.fail("its first input must have a dimension of classes");
  if (nn::shapeOf(logarithms).drop_back() != ArrayRef<int64_t>(shape) || !getElementTypeOrSelf(labels).isInteger())
    return node.fail("its labels of shape {} are not one integer for each prediction of shape {}",
                     dimsText(Dims(nn::shapeOf(labels))), dimsText(Dims(nn::shapeOf(logarithms))));
  classes.back() = nn::shapeOf(logarithms).back();
  shape.push_back(1);
  Type integer = getElementTypeOrSelf(labels);
  Value hit = node.compare(node.reshape(labels, shape),
                           node.iota(classes, integer, static_cast<int64_t>(shape.size()) - 1, 0, 1), "eq");
  auto pick = [&](Value ofClasses) {
    return node.reduce(node.emit<nn::SelectOp>({hit, ofClasses, node.scalar(ofClasses, 0)}), "sum", {static_cast<int64_t>(shape.size()) - 1}, false);
  };
  Value loss = node.emit<nn::NegOp>({pick(logarithms)}), valid, counted;
  if (node.has(2)) {
    Value weights = node.input(2);
    if (!weights || nn::shapeOf(weights) != ArrayRef(classes.back()))
      return weights ? node.fail("its third input must hold a weight for each of {} classes", classes.back()) : failure();
    counted = pick(weights);
    loss = node.mul(loss, counted);
  }
  if (smoothing > 0 && loss) {
    Value all = node.has(2) ? node.mul(logarithms, node.input(2)) : logarithms;
    Value mean = node.reduce(all, "mean", {static_cast<int64_t>(shape.size()) - 1}, false);
    if (mean)
      loss = node.sub(node.mul(loss, node.scalar(loss, 1 - smoothing)), node.mul(mean, node.scalar(mean, smoothing)));
  }
  if (!loss || (node.has(2) && !counted))
    return failure();
  if (node.attributes.has("ignore_index")) {
    double ignored = static_cast<double>(node.attributes.integer("ignore_index", 0));
    valid = node.compare(labels, node.scalar(labels, ignored), "ne");
    loss = node.emit<nn::SelectOp>({valid, loss, node.scalar(loss, 0)});
    counted = counted ? node.emit<nn::SelectOp>({valid, counted, node.scalar(counted, 0)}) : node.cast(valid, getElementTypeOrSelf(loss));
  }
  std::string reduction = node.attributes.text("reduction", "mean");
  Dims all(nn::shapeOf(loss).size());
  std::iota(all.begin(), all.end(), 0);
  if (reduction == "none")
    return node.result(loss);
  if (reduction == "mean" && !counted)
    return node.result(node.reduce(loss, "mean", all, false));
  Value sum = node.reduce(loss, "sum", all, false);
  if (reduction == "sum")
    return node.result(sum);
  return node.result(node.div(sum, node.reduce(counted, "sum", all, false)));
}

// The mean (or sum, or all) of -sum over classes of weight * share * logarithm, where labels are the classes' shares:
// what PyTorch computes of such and its exporter writes down as it is; the standard has only numbers of classes. The
// mean divides by the number of predictions.
LogicalResult likelihoodOfShares(NodeContext &node, Value logarithms, Value shares, double smoothing) {
  const auto last = static_cast<int64_t>(nn::shapeOf(logarithms).size()) - 1;
  const int64_t classes = nn::shapeOf(logarithms).back();
  if (smoothing > 0)
    shares = node.add(node.mul(shares, node.scalar(shares, 1 - smoothing)),
                      node.scalar(shares, smoothing / static_cast<double>(classes)));
  Value each = node.mul(shares, logarithms);
  if (node.has(2)) {
    Value weights = node.input(2);
    if (!weights || nn::shapeOf(weights) != ArrayRef(classes))
      return weights ? node.fail("its third input must hold a weight for each of {} classes", classes) : failure();
    node.isStatistic(2);
    each = node.mul(each, weights);
  }
  Value loss = node.emit<nn::NegOp>({node.reduce(each, "sum", {last}, false)});
  std::string reduction = node.attributes.text("reduction", "mean");
  Dims all(static_cast<size_t>(last));
  std::iota(all.begin(), all.end(), 0);
  return node.result(reduction == "none" ? loss : node.reduce(loss, reduction == "sum" ? "sum" : "mean", all, false));
}

LogicalResult crossEntropy(NodeContext &node) {
  Value logits = classesLast(node, node.input(0), false), labels = node.input(1);
  Value logarithms = node.emit<nn::LogSoftmaxOp>({logits});
  if (!logarithms || !labels || (node.wantsOutput(1) && failed(node.result(1, classesLast(node, logarithms, true)))))
    return failure();
  if (nn::isReal(labels) && !nn::shapeOf(labels).empty() && labels.getType() == node.input(0).getType())
    return likelihoodOfShares(node, logarithms, classesLast(node, labels, false), labelSmoothingOf(node.node));
  return likelihood(node, logarithms, node.input(1), labelSmoothingOf(node.node));
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
