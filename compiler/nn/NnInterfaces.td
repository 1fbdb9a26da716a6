// The interfaces of nn operations: how an operation builds its own gradient, what it computes in where activations
// are bf16, and where in its results the rows of a batch are.
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

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mt::nn";
  let description = [{
    An operation with wishes about the types of its 32-bit operands and results where activations are bf16
    (mt-lower-precision). Without it an operation computes in the type that its operands join to.
  }];
  let methods = [
    InterfaceMethod<"What it wants of an operand.", "::mt::nn::Precision", "operandPrecision", (ins "unsigned":$index)>,
    InterfaceMethod<"What it gives as a result.", "::mt::nn::Precision", "resultPrecision", (ins "unsigned":$index)>
  ];
}

def RowsOpInterface : OpInterface<"RowsOpInterface"> {
  let cppNamespace = "::mt::nn";
  let description = [{
    An operation that knows where the rows of a batch lie in its results (Rows.h). Elementwise operations say so by
    their trait. Of an operation with neither, rows are taken to see each other.
  }];
  let methods = [InterfaceMethod<[{
      Where the rows are in the results, given where they are in the operands, at least one of which depends on them and
      none of which is mixed.
    }], "::mt::nn::Rows", "rowsOfResults", (ins "::mt::nn::OperandRows &":$operands)>];
}
#endif
