// Operators that do nothing here: Identity, Dropout of inference. Branches and functions are in GraphImporter.cpp,
// loops in ImportLoops.cpp.
#include "compiler/onnx/Converters.h"

using namespace mlir;

namespace mt::onnx {
namespace {

LogicalResult identity(NodeContext &node) {
  if (!node.has(0) || !node.given(0).isSequence)
    return node.result(node.input(0));
  node.result(0, node.given(0));
  return success();
}

LogicalResult dropout(NodeContext &node) {
  const HostTensor *ratio = node.known(1), *training = node.known(2);
  bool noRatio = (ratio && ratio->elements() == 1 && ratio->realAt(0) == 0) ||
                 (!node.has(1) && node.attributes.has("ratio") && node.attributes.real("ratio", 0.5) == 0);
  bool inference = !node.has(2) || (training && training->elements() == 1 && training->intAt(0) == 0);
  if (!noRatio && !inference)
    (void)node.fail("dropout in training form is not supported: export the model in eval mode, or with all dropout "
                    "ratios 0"); // and go on as without, so that every such node is named
  Value value = node.input(0);
  if (!value)
    return failure();
  if (node.wantsOutput(1))
    node.knownResult(1, HostTensor::splatInteger(DType::boolean, Dims(nn::shapeOf(value)), 1));
  return node.result(value);
}

} // namespace

void addControl(Converters &table) {
  table.add("Identity", identity);
  table.add("Dropout", dropout); // inference
}

} // namespace mt::onnx
