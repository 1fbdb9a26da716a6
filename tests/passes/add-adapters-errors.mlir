// Adapters that cannot be.
// RUN: mtc-opt %s --split-input-file --mt-add-adapters --verify-diagnostics
module attributes {mt.adapters = [{parameter = "w", module = "w", rank = 2 : i64}]} {
  // expected-error @+1 {{an adapter is for parameter 'w', which @main does not have}}
  func.func @main(%x: tensor<4x8xf32> {nn.input = "x"}) -> tensor<4x8xf32> {
    return %x : tensor<4x8xf32>
  }
}

// -----

module attributes {mt.adapters = [{parameter = "w", module = "w", rank = 2 : i64}]} {
  // expected-error @+1 {{parameter 'w' is multiplied both as it is and transposed: it cannot have one adapter for both}}
  func.func @main(%x: tensor<4x8xf32> {nn.input = "x"}, %w: tensor<8x8xf32> {nn.parameter = "w"}) -> tensor<4x8xf32> {
    %y = nn.matmul %x, %w {transposeRhs = true} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %z = nn.matmul %y, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %z : tensor<4x8xf32>
  }
}

// -----

module attributes {mt.adapters = [{parameter = "w", module = "w", rank = 2 : i64, dropout = 0.5}]} {
  // expected-error @+1 {{dropout needs the step's scalars: run mt-append-loss first}}
  func.func @main(%x: tensor<4x8xf32> {nn.input = "x"}, %w: tensor<8x8xf32> {nn.parameter = "w"}) -> tensor<4x8xf32> {
    %y = nn.matmul %x, %w {transposeRhs = true} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}
