// RUN: mtc-opt %s --mt-number-rows 2>/dev/null | FileCheck %s
// Of a graph of one row all numbers are that row's, whatever they are drawn for.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[ROWS:arg[0-9]+]]: tensor<1xi64> {nn.rows})
// CHECK: nn.dropout %{{.*}}, %[[ROWS]], %{{.*}}, %{{.*}} {ratio = 5.000000e-01 : f64} : (tensor<4xf32>, tensor<1xi64>, tensor<16xf64>, tensor<i64>) -> tensor<4xf32>
module attributes {nn.loss = "mse"} {
  func.func @main(%x: tensor<1x4xf32> {nn.input = "x"}, %w: tensor<4xf32> {nn.parameter = "w", nn.trainable}, %s: tensor<16xf64> {nn.scalars},
                  %n: tensor<i64> {nn.parameter = "n", nn.buffer}) -> tensor<f32> {
    %v = nn.dropout %w, %s, %n {ratio = 0.5 : f64} : (tensor<4xf32>, tensor<16xf64>, tensor<i64>) -> tensor<4xf32>
    %m = nn.mul %x, %v : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
    %l = nn.reduce %m {kind = "sum", axes = array<i64: 0, 1>, keepDims = false} : (tensor<1x4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
