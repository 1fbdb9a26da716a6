// RUN: mtc-opt %s --mt-differentiate --cse --split-input-file | FileCheck %s
// Gradients of bf16 parameters leave a template in 32 bits: from the kernel that sums them where it can write them, else
// by a cast as early as the sum. Gradients of activations keep the activation's type.

// A lookup and a norm. Nothing is cast.
// CHECK-LABEL: func.func private @lookup.backward.input(
// CHECK-SAME: -> (tensor<9x4xf32> {nn.gradient = 0 : i64}, tensor<4xf32> {nn.gradient = 2 : i64}, tensor<4xf32> {nn.gradient = 3 : i64})
// CHECK-NOT: nn.cast
// CHECK: nn.layer_norm_grad {{.*}} -> (tensor<2x4xbf16>, tensor<4xf32>, tensor<4xf32>)
// CHECK-NOT: nn.cast
// CHECK: nn.embedding_grad {{.*}} -> tensor<9x4xf32>
// CHECK-NOT: nn.cast
// CHECK: return

// A product's right side and its bias; the left side stays bf16.
// CHECK-LABEL: func.func private @product.backward.input(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<2x4xbf16> {nn.argument = 0 : i64}, %[[W:[^ ]*]]: tensor<4x4xbf16> {nn.argument = 1 : i64}, %[[DY:[^ ]*]]: tensor<2x4xbf16> {nn.gradient = 0 : i64}) -> (tensor<2x4xbf16> {nn.gradient = 0 : i64}, tensor<4x4xf32> {nn.gradient = 1 : i64}, tensor<4xf32> {nn.gradient = 2 : i64})
// CHECK-DAG: %[[DX:.*]] = nn.matmul %[[DY]], %[[W]] {transposeRhs = true} : {{.*}} -> tensor<2x4xbf16>
// CHECK-DAG: %[[DB:.*]] = nn.reduce %[[DY]] {{.*}} : (tensor<2x4xbf16>) -> tensor<4xf32>
// CHECK-DAG: %[[DW:.*]] = nn.matmul %[[X]], %[[DY]] {transposeLhs = true} : {{.*}} -> tensor<4x4xf32>
// CHECK: return %[[DX]], %[[DW]], %[[DB]]

// The head of the loss.
// CHECK-LABEL: func.func private @head.backward.input(
// CHECK: %[[LOSS:.*]], %[[DH:.*]], %[[DW:.*]] = nn.linear_cross_entropy_grad {{.*}} -> (tensor<f32>, tensor<2x4xbf16>, tensor<9x4xf32>)
// CHECK: return %[[LOSS]], %[[DH]], %[[DW]]
func.func private @lookup(%t: tensor<9x4xbf16>, %i: tensor<2xi64>, %g: tensor<4xbf16>, %c: tensor<4xbf16>) -> tensor<2x4xbf16> {
  %0 = nn.embedding %t, %i : (tensor<9x4xbf16>, tensor<2xi64>) -> tensor<2x4xbf16>
  %1, %m, %r = nn.layer_norm %0, %g, %c {epsilon = 1.0e-6 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<2x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<2x4xbf16>, tensor<2xf32>, tensor<2xf32>)
  return %1 : tensor<2x4xbf16>
}
func.func private @product(%x: tensor<2x4xbf16>, %w: tensor<4x4xbf16>, %b: tensor<4xbf16>) -> tensor<2x4xbf16> {
  %0 = nn.matmul %x, %w, %b : (tensor<2x4xbf16>, tensor<4x4xbf16>, tensor<4xbf16>) -> tensor<2x4xbf16>
  return %0 : tensor<2x4xbf16>
}
func.func private @head(%x: tensor<2x4xbf16>, %w: tensor<9x4xbf16>, %l: tensor<2xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.linear_cross_entropy %x, %w, %l, %s : (tensor<2x4xbf16>, tensor<9x4xbf16>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%i: tensor<2xi64> {nn.input = "i"}, %t: tensor<9x4xbf16> {nn.parameter = "t", nn.trainable}, %g: tensor<4xbf16> {nn.parameter = "g", nn.trainable},
                %c: tensor<4xbf16> {nn.parameter = "c", nn.trainable}, %w: tensor<4x4xbf16> {nn.parameter = "w", nn.trainable},
                %b: tensor<4xbf16> {nn.parameter = "b", nn.trainable}, %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @lookup(%t, %i, %g, %c) : (tensor<9x4xbf16>, tensor<2xi64>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<2x4xbf16>
  %1 = call @product(%0, %w, %b) : (tensor<2x4xbf16>, tensor<4x4xbf16>, tensor<4xbf16>) -> tensor<2x4xbf16>
  %2 = call @head(%1, %t, %l, %s) : (tensor<2x4xbf16>, tensor<9x4xbf16>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// Through what moves elements and through sums of two uses; 1 + w, which forward computes in 32 bits, passes its
// gradient on as it is. An elementwise factor's gradient is a product in 32 bits.
// CHECK-LABEL: func.func private @layer.backward.input(
// CHECK-SAME: -> (tensor<4x4xf32> {nn.gradient = 1 : i64}, tensor<4xf32> {nn.gradient = 2 : i64}, tensor<2x4xf32> {nn.gradient = 3 : i64})
// CHECK-DAG: %[[DX:.*]] = nn.cast %{{.*}} : (tensor<2x4xbf16>) -> tensor<2x4xf32>
// CHECK-DAG: %[[DF:.*]] = nn.mul %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-DAG: %{{.*}}, %[[DG:.*]] = nn.rms_norm_grad {{.*}} -> (tensor<2x4xbf16>, tensor<4xf32>)
// CHECK-DAG: %[[A:.*]] = nn.matmul {{.*}} -> tensor<4x4xf32>
// CHECK-DAG: %[[B:.*]] = nn.matmul {{.*}} -> tensor<4x4xf32>
// CHECK-DAG: %[[T:.*]] = nn.transpose %{{.*}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-DAG: %[[DW:.*]] = nn.add %{{.*}}, %{{.*}} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: return %[[DW]], %[[DG]], %[[DF]]
func.func private @layer(%x: tensor<2x4xbf16>, %w: tensor<4x4xbf16>, %g: tensor<4xbf16>, %f: tensor<2x4xbf16>) -> tensor<2x4xbf16> {
  %0 = nn.matmul %x, %w : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %1 = nn.transpose %w {permutation = array<i64: 1, 0>} : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %2 = nn.matmul %0, %1 : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %one = nn.constant dense<1.0> : tensor<f32>
  %3 = nn.cast %g : (tensor<4xbf16>) -> tensor<4xf32>
  %4 = nn.add %3, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %5, %r = nn.rms_norm %2, %4 {epsilon = 1.0e-6 : f64} : (tensor<2x4xbf16>, tensor<4xf32>) -> (tensor<2x4xbf16>, tensor<2xf32>)
  %6 = nn.mul %5, %f : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  return %6 : tensor<2x4xbf16>
}
func.func private @head(%x: tensor<2x4xbf16>, %w: tensor<9x4xbf16>, %l: tensor<2xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.linear_cross_entropy %x, %w, %l, %s : (tensor<2x4xbf16>, tensor<9x4xbf16>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<2x4xbf16> {nn.input = "x"}, %w: tensor<4x4xbf16> {nn.parameter = "w", nn.trainable}, %g: tensor<4xbf16> {nn.parameter = "g", nn.trainable},
                %f: tensor<2x4xbf16> {nn.parameter = "f", nn.trainable}, %h: tensor<9x4xbf16> {nn.parameter = "h", nn.trainable},
                %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @layer(%x, %w, %g, %f) : (tensor<2x4xbf16>, tensor<4x4xbf16>, tensor<4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  %1 = call @head(%0, %h, %l, %s) : (tensor<2x4xbf16>, tensor<9x4xbf16>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// A value that several layers use collects its gradient in 32 bits: each user's part has them, and so has what its maker
// gets. One that a single layer uses stays bf16, and so does the gradient of a recomputed activation's users.
// CHECK-LABEL: func.func private @encode.backward.input(
// CHECK-SAME: %[[DM:[^ ]*]]: tensor<2x4xf32> {nn.gradient = 0 : i64})
// CHECK: nn.cast %[[DM]] : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK-LABEL: func.func private @decode.backward.input(
// CHECK-SAME: -> (tensor<2x4xf32> {nn.gradient = 0 : i64}, tensor<4x4xf32> {nn.gradient = 2 : i64})
// CHECK-LABEL: func.func private @decode.1.backward.input(
// CHECK-SAME: %{{[^ ]*}}: tensor<2x4xbf16> {nn.gradient = 0 : i64}) -> (tensor<2x4xf32> {nn.gradient = 0 : i64}, tensor<2x4xbf16> {nn.gradient = 1 : i64}, tensor<4x4xf32> {nn.gradient = 2 : i64})
func.func private @encode(%x: tensor<2x4xbf16>, %w: tensor<4x4xbf16>) -> tensor<2x4xbf16> {
  %0 = nn.matmul %x, %w : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  return %0 : tensor<2x4xbf16>
}
func.func private @decode(%m: tensor<2x4xbf16>, %x: tensor<2x4xbf16>, %w: tensor<4x4xbf16>) -> tensor<2x4xbf16> {
  %0 = nn.matmul %x, %w : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %1 = nn.mul %0, %m : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  return %1 : tensor<2x4xbf16>
}
func.func private @head(%x: tensor<2x4xbf16>, %w: tensor<9x4xbf16>, %l: tensor<2xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.linear_cross_entropy %x, %w, %l, %s : (tensor<2x4xbf16>, tensor<9x4xbf16>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<2x4xbf16> {nn.input = "x"}, %y: tensor<2x4xbf16> {nn.input = "y"}, %a: tensor<4x4xbf16> {nn.parameter = "a", nn.trainable},
                %b: tensor<4x4xbf16> {nn.parameter = "b", nn.trainable}, %c: tensor<4x4xbf16> {nn.parameter = "c", nn.trainable},
                %h: tensor<9x4xbf16> {nn.parameter = "h", nn.trainable}, %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @encode(%x, %a) : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %1 = call @decode(%0, %y, %b) : (tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %2 = call @decode(%0, %1, %c) : (tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %3 = call @head(%2, %h, %l, %s) : (tensor<2x4xbf16>, tensor<9x4xbf16>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// The first gradient operation is the one that is widened: what widens its operands is no forward value to be saved.
// CHECK-LABEL: func.func private @scaled.backward.all(
// CHECK-SAME: %[[DY:[^ ]*]]: tensor<2x4xbf16> {nn.gradient = 0 : i64}, %[[T:[^ ]*]]: tensor<2x4xbf16> {nn.saved = 0 : i64}) -> (tensor<2x4xf32> {nn.gradient = 1 : i64})
// CHECK-DAG: %[[WIDE:.*]] = nn.cast %[[DY]] : (tensor<2x4xbf16>) -> tensor<2x4xf32>
// CHECK-DAG: %[[SAVED:.*]] = nn.cast %[[T]] : (tensor<2x4xbf16>) -> tensor<2x4xf32>
// CHECK: %[[DW:.*]] = nn.mul %[[WIDE]], %[[SAVED]]
// CHECK: return %[[DW]]
func.func private @scaled(%x: tensor<2x4xbf16>, %w: tensor<2x4xbf16>) -> tensor<2x4xbf16> {
  %0 = nn.tanh %x : (tensor<2x4xbf16>) -> tensor<2x4xbf16>
  %1 = nn.mul %0, %w : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  return %1 : tensor<2x4xbf16>
}
func.func private @loss(%x: tensor<2x4xbf16>, %c: tensor<2x4xbf16>) -> tensor<bf16> {
  %0 = nn.mul %x, %c : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  %1 = nn.reduce %0 {kind = "sum", axes = array<i64: 0, 1>, keepDims = false} : (tensor<2x4xbf16>) -> tensor<bf16>
  return %1 : tensor<bf16>
}
func.func @main(%x: tensor<2x4xbf16> {nn.input = "x"}, %w: tensor<2x4xbf16> {nn.parameter = "w", nn.trainable}, %c: tensor<2x4xbf16> {nn.input = "c"}) -> tensor<bf16> {
  %0 = call @scaled(%x, %w) : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  %1 = call @loss(%0, %c) : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<bf16>
  return %1 : tensor<bf16>
}
