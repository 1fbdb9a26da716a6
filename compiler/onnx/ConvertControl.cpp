// Operators that do nothing here: Identity. Branches and functions are in GraphImporter.cpp, loops in ImportLoops.cpp.
#include "compiler/onnx/Converters.h"

using namespace mlir;

namespace mt::onnx {
namespace {

LogicalResult identity(NodeContext &node) { return node.result(node.input(0)); }

} // namespace

void addControl(Converters &table) { table.add("Identity", identity); }

} // namespace mt::onnx
