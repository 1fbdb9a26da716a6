// Identity, which does nothing unless it is PyTorch's detach. Branches and functions are in GraphImporter.cpp, loops in
// ImportLoops.cpp.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ExportMetadata.h"

using namespace mlir;

namespace mt::onnx {
namespace {

LogicalResult identity(NodeContext &node) {
  if (!node.has(0) || !node.given(0).isSequence) {
    Value value = node.input(0);
    bool isReal = value && nn::isReal(value);
    return node.result(isReal && isDetach(node.node) ? node.emit<nn::DetachOp>({value}) : value);
  }
  node.result(0, node.given(0));
  return success();
}

} // namespace

void addControl(Converters &table) { table.add("Identity", identity); }

} // namespace mt::onnx
