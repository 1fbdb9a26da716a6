// The nn dialect: what a training graph is made of.
#ifndef MT_NN_DIALECT
#define MT_NN_DIALECT
include "mlir/IR/OpBase.td"

def Nn_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::mt::nn";
  let summary = "Pure operations on statically shaped tensors: what a training graph is made of.";
  let description = [{
    ONNX nodes convert straight into this dialect, each with its node's name as location. Shapes are inferred and
    checked by the operations; a gradient is built by the operation it belongs to (`DifferentiableOpInterface`).
    An operation is lowered to the kernel of the same mnemonic (kernels/Catalogue.h): its operands, then its
    results, are the kernel's operands, its attributes the kernel's attributes. `reshape` is the exception: it is
    a view and costs nothing.

    A model is a function `@main`. Its arguments are graph inputs (`nn.input = "name"`), parameters
    (`nn.parameter = "name"`, and `nn.trainable`, or `nn.buffer` where it is no weight: rotary frequencies, a mask),
    labels (`nn.labels`), the numbers of the batch's rows (`nn.rows`) and the step's scalars (`nn.scalars`); bytes of parameters never enter the IR.

    ```mlir
    func.func @main(%ids: tensor<2x8xi64> {nn.input = "input_ids"},
                    %table: tensor<256x64xf32> {nn.parameter = "wte", nn.trainable}) -> tensor<2x8x64xf32> {
      %0 = nn.embedding %table, %ids : (tensor<256x64xf32>, tensor<2x8xi64>) -> tensor<2x8x64xf32>
      return %0 : tensor<2x8x64xf32>
    }
    ```
  }];
  let hasConstantMaterializer = 1;
}
#endif
