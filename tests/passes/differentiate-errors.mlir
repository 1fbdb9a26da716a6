// RUN: mtc-opt %s --mt-differentiate --split-input-file --verify-diagnostics
// What cannot be differentiated is an error at the operation, not a wrong gradient.

func.func private @loss(%x: tensor<4xf32>, %w: tensor<4xf32>, %t: tensor<4xf32>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{has no gradient, but a trainable parameter reaches the loss only through it; freeze that parameter (--freeze PATTERN) or replace the operation in the model}}
  %1 = nn.softmax_grad %0, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.squared_error %1, %t, %s : (tensor<4xf32>, tensor<4xf32>, tensor<16xf64>) -> tensor<f32>
  return %2 : tensor<f32>
}
func.func @main(%x: tensor<4xf32> {nn.input = "x"}, %w: tensor<4xf32> {nn.parameter = "w", nn.trainable}, %t: tensor<4xf32> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @loss(%x, %w, %t, %s) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// The same operation where nothing trainable comes through it is no error.
func.func private @loss(%x: tensor<4xf32>, %w: tensor<4xf32>, %t: tensor<4xf32>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.softmax_grad %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.mul %0, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.squared_error %1, %t, %s : (tensor<4xf32>, tensor<4xf32>, tensor<16xf64>) -> tensor<f32>
  return %2 : tensor<f32>
}
func.func @main(%x: tensor<4xf32> {nn.input = "x"}, %w: tensor<4xf32> {nn.parameter = "w", nn.trainable}, %t: tensor<4xf32> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @loss(%x, %w, %t, %s) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func private @loss(%x: tensor<4xf32>, %w: tensor<6xf32>, %s: tensor<16xf64>) -> tensor<f32> {
  // expected-error @+1 {{has no gradient with negative padding}}
  %0 = nn.pad %w {low = array<i64: -1>, high = array<i64: -1>, interior = array<i64: 0>} : (tensor<6xf32>) -> tensor<4xf32>
  %1 = nn.squared_error %0, %x, %s : (tensor<4xf32>, tensor<4xf32>, tensor<16xf64>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func @main(%x: tensor<4xf32> {nn.input = "x"}, %w: tensor<6xf32> {nn.parameter = "w", nn.trainable}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @loss(%x, %w, %s) : (tensor<4xf32>, tensor<6xf32>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error @+1 {{has no layers; run mt-partition-layers first}}
func.func @main(%x: tensor<f32> {nn.input = "x"}) -> tensor<f32> {
  return %x : tensor<f32>
}
