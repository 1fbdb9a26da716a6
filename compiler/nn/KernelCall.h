// From an nn operation to the kernel call it becomes: name, attributes, operand types (kernels/Catalogue.h). The one
// place that knows how operations and kernels correspond; where operands lie is planned elsewhere.
#ifndef MT_COMPILER_NN_KERNELCALL_H
#define MT_COMPILER_NN_KERNELCALL_H
#include "compiler/nn/Nn.h"
#include "kernels/Catalogue.h"

namespace mt::nn {

/// Attribute of a module: what the plan is compiled for, a dictionary with `device`, "cpu" or "cuda".
constexpr llvm::StringLiteral kTargetAttr = "mt.target";
/// Whose code runs templates and kernels of compute streams; those of host streams are the CPU's.
kernels::Backend backendOf(mlir::ModuleOp module);
/// Whether GPUs can execute its plans, too: not those of a processor that has the device's memory and its own in one.
bool mayRunOnGpu(mlir::ModuleOp module);

/// A call's signature without the scratch operand, and the value behind each operand: null where one is absent.
struct KernelCall {
  kernels::Signature signature;
  llvm::SmallVector<mlir::Value> values;
};

/// False for views, which need no kernel.
bool hasKernel(mlir::Operation *op);
/// The kernel call of an operation with a kernel. An unused result is absent.
KernelCall kernelCallOf(mlir::Operation *op);
/// An operand of a statically shaped tensor type.
kernels::OperandType operandType(mlir::Type type, kernels::Effect effect);
/// The tensor type of an element type and shape of the catalogue.
mlir::RankedTensorType tensorTypeOf(mlir::MLIRContext *context, kernels::DType type, llvm::ArrayRef<int64_t> dims);
/// The attributes of an operation in the catalogue's terms.
kernels::Attributes kernelAttributes(mlir::DictionaryAttr attributes);
/// Follows views to the value whose bytes `value` shows.
mlir::Value viewedBy(mlir::Value value);

} // namespace mt::nn
#endif
