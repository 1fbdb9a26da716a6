// What tells apart the nodes that draw random numbers: a number each, in the model's order. It is an argument of the
// function, 8 bytes that the plan makes, and not an attribute, so that equal layers stay equal.
#ifndef MT_COMPILER_ONNX_DRAWNUMBERS_H
#define MT_COMPILER_ONNX_DRAWNUMBERS_H

#include "compiler/onnx/ImportOnnx.h"
#include "compiler/onnx/NodeContext.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt::onnx {

/// Replaces what converters put there for the step's scalars and for nodes' numbers by arguments, the numbers' being
/// buffers that are appended to `parameters`.
void numberDraws(mlir::func::FuncOp function, std::vector<ImportedParameter> &parameters);

/// Notes that a node would drop something, were it not written for inference.
void noteIdleDropout(NodeContext &node);
/// The warning where a model has such nodes beside others that train, else empty; the notes go.
std::string warnIdleDropout(mlir::func::FuncOp function);

} // namespace mt::onnx
#endif
