// Two equal layers and a loss that holds the head, as mt-partition-layers leaves them; two rows a micro-batch.
func.func private @block(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.tanh %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
func.func private @loss(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>, %l: tensor<2xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.linear_cross_entropy %x, %w, %l, %s {transposed = true} : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %a: tensor<4x4xf32> {nn.parameter = "a", nn.trainable},
                %b: tensor<4x4xf32> {nn.parameter = "b", nn.trainable}, %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable},
                %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @block(%x, %a) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = call @block(%0, %b) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = call @loss(%1, %h, %l, %s) : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %2 : tensor<f32>
}
