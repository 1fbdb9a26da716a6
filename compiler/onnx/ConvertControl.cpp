// Operators that do nothing here: Identity. Branches and functions are in GraphImporter.cpp.
#include "compiler/onnx/Converters.h"

using namespace mlir;

namespace mt::onnx {
namespace {

LogicalResult identity(NodeContext &node) { return node.result(node.input(0)); }

LogicalResult unsupportedLoop(NodeContext &node) {
  return node.fail("loops are not supported: export the model so that its layers are unrolled");
}

} // namespace

void addControl(Converters &table) {
  table.add("Identity", identity);
  table.add("Loop", unsupportedLoop);
  table.add("Scan", unsupportedLoop);
}

} // namespace mt::onnx
