// RUN: mtc-opt %s --mt-partition-layers --verify-diagnostics
// A model without a trainable parameter on the way from input to loss has no layers.
// expected-error @+1 {{nothing in the model depends on both an input and a trainable parameter; choose what to train with --train PATTERN}}
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %a: tensor<4x4xf32> {nn.parameter = "a"}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.cross_entropy %0, %l, %s : (tensor<2x4xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %1 : tensor<f32>
}
