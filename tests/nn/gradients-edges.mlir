// RUN: mtc-opt %s --split-input-file --mt-differentiate | FileCheck %s
// Gradients that textbooks leave out.

// One right side for a batch of transposed left ones, as convolutions and mixed tokens become: the gradient of the left
// side is a product with the right side on the right, turned back, and that of the right side a sum over the batch.

// CHECK-LABEL: func.func private @f.backward.input
// CHECK-SAME: (%[[X:.*]]: tensor<2x6x5xf32> {nn.argument = 0 : i64}, %[[W:.*]]: tensor<4x6xf32> {nn.argument = 1 : i64}, %[[C:.*]]: tensor<2x5x4xf32>
// CHECK: %[[ONE:.*]] = nn.broadcast
// CHECK: %[[DY:.*]] = nn.mul %[[ONE]], %[[C]]
// CHECK: %[[D:.*]] = nn.matmul %[[DY]], %[[W]] : (tensor<2x5x4xf32>, tensor<4x6xf32>) -> tensor<2x5x6xf32>
// CHECK: %[[DX:.*]] = nn.transpose %[[D]] {permutation = array<i64: 0, 2, 1>}
// CHECK: %[[EACH:.*]] = nn.matmul %[[DY]], %[[X]] {transposeLhs = true, transposeRhs = true} : (tensor<2x5x4xf32>, tensor<2x6x5xf32>) -> tensor<2x4x6xf32>
// CHECK: %[[DW:.*]] = nn.reduce %[[EACH]] {axes = array<i64: 0>, keepDims = false, kind = "sum"}
// CHECK: return %{{.*}}, %[[DX]], %[[DW]] :
func.func private @f(%x: tensor<2x6x5xf32>, %w: tensor<4x6xf32>, %c: tensor<2x5x4xf32>) -> tensor<f32> {
  %y = nn.matmul %x, %w {transposeLhs = true, transposeRhs = true} : (tensor<2x6x5xf32>, tensor<4x6xf32>) -> tensor<2x5x4xf32>
  %z = nn.mul %y, %c : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  %l = nn.reduce %z {kind = "sum", axes = array<i64: 0, 1, 2>, keepDims = false} : (tensor<2x5x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
func.func @main(%x: tensor<2x6x5xf32> {nn.parameter = "x", nn.trainable}, %w: tensor<4x6xf32> {nn.parameter = "w", nn.trainable},
                %c: tensor<2x5x4xf32> {nn.input = "c"}) -> tensor<f32> {
  %0 = call @f(%x, %w, %c) : (tensor<2x6x5xf32>, tensor<4x6xf32>, tensor<2x5x4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// A loss that the model goes on with: what it makes of the loss stays before the gradient, which computes the loss again.

// CHECK-LABEL: func.func private @g.backward.input
// CHECK: %[[LOSS:.*]] = nn.cross_entropy %
// CHECK: %[[RESULT:.*]] = nn.mul %[[LOSS]], %[[LOSS]]
// CHECK: %{{.*}}, %[[DX:.*]] = nn.cross_entropy_grad
// CHECK: return %[[RESULT]],
func.func private @g(%x: tensor<2x4xf32>, %l: tensor<2xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %y = nn.cross_entropy %x, %l, %s : (tensor<2x4xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  %z = nn.mul %y, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %z : tensor<f32>
}
func.func @main(%x: tensor<2x4xf32> {nn.parameter = "x", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @g(%x, %l, %s) : (tensor<2x4xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// A zero among the factors of a product: the others are not found by dividing, zeros are left out and counted.

// CHECK-LABEL: func.func private @h.backward.input
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xf32>
// CHECK: nn.reduce %{{.*}} {axes = array<i64: 1>, keepDims = true, kind = "prod"}
// CHECK: nn.reduce %{{.*}} {axes = array<i64: 1>, keepDims = true, kind = "sum"}
// CHECK: nn.select
func.func private @h(%x: tensor<2x4xf32>) -> tensor<f32> {
  %y = nn.reduce %x {kind = "prod", axes = array<i64: 1>, keepDims = false} : (tensor<2x4xf32>) -> tensor<2xf32>
  %l = nn.reduce %y {kind = "sum", axes = array<i64: 0>, keepDims = false} : (tensor<2xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
func.func @main(%x: tensor<2x4xf32> {nn.parameter = "x", nn.trainable}) -> tensor<f32> {
  %0 = call @h(%x) : (tensor<2x4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
