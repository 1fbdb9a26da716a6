// RUN: mtc-opt %s --mt-append-loss --split-input-file | FileCheck %s
// What loss a model's predictions get, and what becomes part of it.

// 3-D logits of an integer input: causal-lm. The head product with its scale and soft cap becomes one operation with
// the loss, rows flattened; what is left of the head goes. Labels and input are bound by the vocabulary.
// CHECK: module attributes {mt.settings = {sequence = 4 : i64}, nn.loss = "causal-lm"}
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[IDS:[^ ]*]]: tensor<2x4xi64> {nn.input = "input_ids", nn.vocabulary = 9 : i64}
// CHECK-SAME: %[[W:[^ ]*]]: tensor<9x6xf32>
// CHECK-SAME: %[[L:[^ ]*]]: tensor<2x4xi64> {nn.labels, nn.vocabulary = 9 : i64}
// CHECK-SAME: %[[S:[^ ]*]]: tensor<16xf64> {nn.scalars}) -> tensor<f32>
// CHECK-NEXT: %[[E:.*]] = nn.embedding %[[W]], %[[IDS]]
// CHECK-DAG: %[[ROWS:.*]] = nn.reshape %[[L]] : (tensor<2x4xi64>) -> tensor<8xi64>
// CHECK-DAG: %[[H:.*]] = nn.reshape %[[E]] : (tensor<2x4x6xf32>) -> tensor<8x6xf32>
// CHECK-NEXT: %[[LOSS:.*]] = nn.linear_cross_entropy %[[H]], %[[W]], %[[ROWS]], %[[S]] {logitScale = 5.000000e-01 : f64, softCap = 3.000000e+01 : f64} :
// CHECK-NEXT: return %[[LOSS]] : tensor<f32>
func.func @main(%ids: tensor<2x4xi64> {nn.input = "input_ids"}, %t: tensor<9x6xf32> {nn.parameter = "wte", nn.trainable}) -> (tensor<2x4x9xf32> {nn.output = "logits"}) {
  %cap = nn.constant dense<30.0> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %h = nn.embedding %t, %ids : (tensor<9x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %l = nn.matmul %h, %t {transposeRhs = true} : (tensor<2x4x6xf32>, tensor<9x6xf32>) -> tensor<2x4x9xf32>
  %s = nn.mul %half, %l : (tensor<f32>, tensor<2x4x9xf32>) -> tensor<2x4x9xf32>
  %d = nn.div %s, %cap : (tensor<2x4x9xf32>, tensor<f32>) -> tensor<2x4x9xf32>
  %e = nn.tanh %d : (tensor<2x4x9xf32>) -> tensor<2x4x9xf32>
  %f = nn.mul %e, %cap : (tensor<2x4x9xf32>, tensor<f32>) -> tensor<2x4x9xf32>
  return %f : tensor<2x4x9xf32>
}

// -----

// Of several outputs the one called logits; its bias goes along, and a weight stored as [D, V].
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[IDS:[^ ]*]]: tensor<2x4xi64>
// CHECK-NOT: nn.tanh
// CHECK: nn.linear_cross_entropy %{{.*}}, %arg2, %arg3, %{{.*}}, %{{.*}} {transposed = true} :
// CHECK-NOT: nn.tanh
// CHECK: return
func.func @main(%ids: tensor<2x4xi64> {nn.input = "input_ids"}, %t: tensor<9x6xf32> {nn.parameter = "t", nn.trainable},
                %w: tensor<6x9xf32> {nn.parameter = "w", nn.trainable}, %b: tensor<9xf32> {nn.parameter = "b", nn.trainable})
    -> (tensor<2x4x6xf32> {nn.output = "hidden"}, tensor<2x4x9xf32> {nn.output = "logits"}) {
  %h = nn.embedding %t, %ids : (tensor<9x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %g = nn.tanh %h : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %l = nn.matmul %h, %w, %b : (tensor<2x4x6xf32>, tensor<6x9xf32>, tensor<9xf32>) -> tensor<2x4x9xf32>
  return %g, %l : tensor<2x4x6xf32>, tensor<2x4x9xf32>
}

// -----

// A tanh whose factors are not each other's inverse is no soft cap: the logits stay as they are.
// CHECK-LABEL: func.func @main(
// CHECK: nn.tanh
// CHECK: nn.mul
// CHECK: nn.cross_entropy
func.func @main(%ids: tensor<2x4xi64> {nn.input = "input_ids"}, %t: tensor<9x6xf32> {nn.parameter = "wte", nn.trainable}) -> tensor<2x4x9xf32> {
  %cap = nn.constant dense<30.0> : tensor<f32>
  %third = nn.constant dense<0.333> : tensor<f32>
  %h = nn.embedding %t, %ids : (tensor<9x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %l = nn.matmul %h, %t {transposeRhs = true} : (tensor<2x4x6xf32>, tensor<9x6xf32>) -> tensor<2x4x9xf32>
  %d = nn.mul %l, %third : (tensor<2x4x9xf32>, tensor<f32>) -> tensor<2x4x9xf32>
  %e = nn.tanh %d : (tensor<2x4x9xf32>) -> tensor<2x4x9xf32>
  %f = nn.mul %e, %cap : (tensor<2x4x9xf32>, tensor<f32>) -> tensor<2x4x9xf32>
  return %f : tensor<2x4x9xf32>
}

// -----

// A head whose rows hold several predictions is no head product of single ones: the loss sees the logits as they are.
// CHECK-LABEL: func.func @main(
// CHECK: nn.matmul %{{.*}} -> tensor<8x18xf32>
// CHECK: %[[V:.*]] = nn.reshape %{{.*}} -> tensor<16x9xf32>
// CHECK: nn.cross_entropy %[[V]], %{{.*}} : (tensor<16x9xf32>, tensor<16xi64>, tensor<16xf64>)
func.func @main(%ids: tensor<8xi64> {nn.input = "input_ids"}, %t: tensor<9x6xf32> {nn.parameter = "t", nn.trainable},
                %w: tensor<6x18xf32> {nn.parameter = "w", nn.trainable}) -> tensor<8x2x9xf32> {
  %h = nn.embedding %t, %ids : (tensor<9x6xf32>, tensor<8xi64>) -> tensor<8x6xf32>
  %l = nn.matmul %h, %w : (tensor<8x6xf32>, tensor<6x18xf32>) -> tensor<8x18xf32>
  %r = nn.reshape %l : (tensor<8x18xf32>) -> tensor<8x2x9xf32>
  return %r : tensor<8x2x9xf32>
}

// -----

// Inputs that the model has sequence first: labels have a row for each of the batch, and go where the logits have it.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[L:[^ ]*]]: tensor<2x4xi64> {nn.labels, nn.vocabulary = 9 : i64}
// CHECK: %[[T:.*]] = nn.transpose %[[L]] {permutation = array<i64: 1, 0>} : (tensor<2x4xi64>) -> tensor<4x2xi64>
// CHECK: %[[ROWS:.*]] = nn.reshape %[[T]] : (tensor<4x2xi64>) -> tensor<8xi64>
// CHECK: nn.linear_cross_entropy %{{.*}}, %arg1, %[[ROWS]]
func.func @main(%ids: tensor<2x4xi64> {nn.input = "input_ids"}, %t: tensor<9x6xf32> {nn.parameter = "wte", nn.trainable}) -> (tensor<4x2x9xf32> {nn.output = "logits"}) {
  %i = nn.transpose %ids {permutation = array<i64: 1, 0>} : (tensor<2x4xi64>) -> tensor<4x2xi64>
  %h = nn.embedding %t, %i : (tensor<9x6xf32>, tensor<4x2xi64>) -> tensor<4x2x6xf32>
  %l = nn.matmul %h, %t {transposeRhs = true} : (tensor<4x2x6xf32>, tensor<9x6xf32>) -> tensor<4x2x9xf32>
  return %l : tensor<4x2x9xf32>
}
