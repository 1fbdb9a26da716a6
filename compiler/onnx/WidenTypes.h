// A model of 16-bit reals with few exponents, or of 64 bits, as one of 32: what it is trained as.
#ifndef MT_COMPILER_ONNX_WIDENTYPES_H
#define MT_COMPILER_ONNX_WIDENTYPES_H

#include "compiler/nn/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt::onnx {

/// Gives every value of `function` that is f16 or f64 the type f32: arguments, results, constants (a finite number
/// beyond the range becomes its end), and takes out the casts that are none then.
void computeIn32Bits(mlir::func::FuncOp function);

} // namespace mt::onnx
#endif
