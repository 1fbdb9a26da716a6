// The interface through which every differentiable operation builds its own gradient.
#ifndef MT_NN_INTERFACES
#define MT_NN_INTERFACES
include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mt::nn";
  let description = [{ An operation that can build its own vector-Jacobian product. }];
  let methods = [InterfaceMethod<[{
      Appends operations that compute the gradients of those operands for which `gradients.wants` holds, given
      the gradients of the results in `gradients`, and adds them to `gradients`. Fails with an error on the
      operation where it cannot.
    }], "::llvm::LogicalResult", "buildGradient",
    (ins "::mlir::OpBuilder &":$builder, "::mt::nn::Gradients &":$gradients)>];
}
#endif
