// The passes of the compiler, and the options they share. Passes.td documents each; compiler/pipeline puts them in
// order.
#ifndef MT_PASSES_PASSES_H
#define MT_PASSES_PASSES_H
#include "compiler/nn/Nn.h"
#include "compiler/schedule/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mt {
#define GEN_PASS_DECL
#include "passes/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"
namespace passes {
/// Behind the name of the last layer's template: that of the one which gives predictions beside the loss.
inline constexpr llvm::StringLiteral kPredicts = ".predict";
} // namespace passes
} // namespace mt
#endif
