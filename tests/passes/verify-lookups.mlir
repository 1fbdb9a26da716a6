// RUN: mtc-opt %s --mt-verify-lookups --split-input-file --verify-diagnostics
// Positions that the model computes must lie in its table; what is fed is not known here.

func.func @main(%ids: tensor<2x4xi64>, %t: tensor<5x3xf32>) -> (tensor<2x4x3xf32>, tensor<4x3xf32>) {
  %one = nn.constant dense<1> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<4xi64>
  %p = nn.add %i, %one : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  %a = nn.embedding %t, %ids : (tensor<5x3xf32>, tensor<2x4xi64>) -> tensor<2x4x3xf32>
  %b = nn.embedding %t, %p : (tensor<5x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  return %a, %b : tensor<2x4x3xf32>, tensor<4x3xf32>
}

// -----

func.func @main(%t: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %one = nn.constant dense<1> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<4xi64>
  %p = nn.add %i, %one : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  // expected-error @+1 {{looks up entry 4 of 4; if these are positions, compile with a --seq that the model has positions for}}
  %b = nn.embedding %t, %p : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  return %b : tensor<4x3xf32>
}

// -----

func.func @main(%t: tensor<2x4xf32>) -> tensor<2x8xf32> {
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  // expected-error @+1 {{looks up entry 7 of 4}}
  %b = nn.gather %t, %i {axis = 1 : i64} : (tensor<2x4xf32>, tensor<8xi64>) -> tensor<2x8xf32>
  return %b : tensor<2x8xf32>
}
