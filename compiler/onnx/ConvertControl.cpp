// Operators that do nothing here: Identity. Branches and functions are in GraphImporter.cpp, loops in ImportLoops.cpp.
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

} // namespace

void addControl(Converters &table) { table.add("Identity", identity); }

} // namespace mt::onnx
