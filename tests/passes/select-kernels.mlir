// RUN: mtc-opt %s --mt-select-kernels | FileCheck %s
// Templates fitted to the kernels: results have places of their own, gradients can be added to, heads go by chunks.

// A result that is a view of an argument, an argument itself, or returned twice is copied; the first return is not.
// CHECK-LABEL: func.func private @results(
// CHECK: %[[V:.*]] = nn.reshape %arg0
// CHECK: %[[E:.*]] = nn.exp %arg1
// CHECK: %[[VC:.*]] = nn.copy %[[V]]
// CHECK: %[[EC:.*]] = nn.copy %[[E]]
// CHECK: %[[AC:.*]] = nn.copy %arg1
// CHECK: return %[[VC]], %[[E]], %[[EC]], %[[AC]] :
func.func private @results(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>
  %1 = nn.exp %w : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %1, %w : tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// What is made again stands before its first use.
// CHECK-LABEL: func.func private @again(
// CHECK-NEXT: %[[E:.*]] = nn.exp %arg1
// CHECK-NEXT: %[[R:.*]] = nn.relu %arg0 :
// CHECK-NEXT: nn.matmul %[[R]], %[[E]]
func.func private @again(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = nn.relu %x {nn.again} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = nn.exp %y : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = nn.matmul %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// A gradient may land on what other micro-batches left. A kernel adds to it, unless its value is read again here: that
// must not be mixed with what was there before. An argument is copied.
// CHECK-LABEL: func.func private @t.backward.input(
// CHECK: %[[A:.*]] = nn.matmul %arg0, %arg0
// CHECK: %[[B:.*]] = nn.matmul %arg1, %arg1
// CHECK: %[[R:.*]] = nn.relu %[[B]]
// CHECK: %[[BC:.*]] = nn.copy %[[B]]
// CHECK: %[[XC:.*]] = nn.copy %arg0
// CHECK: return %[[A]], %[[BC]], %[[R]], %[[XC]] :
func.func private @t.backward.input(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>)
    -> (tensor<4x4xf32> {nn.gradient = 0 : i64}, tensor<4x4xf32> {nn.gradient = 1 : i64}, tensor<4x4xf32> {nn.gradient = 2 : i64}, tensor<4x4xf32> {nn.gradient = 3 : i64}) {
  %1 = nn.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = nn.matmul %y, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = nn.relu %2 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %2, %3, %x : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// 64 MiB of logits are 333 rows of 50,257 numbers: 320, a multiple of 16. Few rows are one chunk; a chosen one stays.
// CHECK-LABEL: func.func private @heads(
// CHECK: nn.linear_cross_entropy {{.*}} {chunk = 320 : i64} : (tensor<4096x6xf32>
// CHECK: nn.linear_cross_entropy_grad {{.*}} {chunk = 4 : i64, transposed = true} : (tensor<4x6xf32>
// CHECK: nn.linear_cross_entropy {{.*}} {chunk = 2 : i64} : (tensor<4x6xf32>
func.func private @heads(%h: tensor<4096x6xf32>, %w: tensor<50257x6xf32>, %l: tensor<4096xi64>, %s: tensor<16xf64>,
                         %g: tensor<4x6xf32>, %v: tensor<6x9xf32>, %u: tensor<9x6xf32>, %k: tensor<4xi64>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.linear_cross_entropy %h, %w, %l, %s : (tensor<4096x6xf32>, tensor<50257x6xf32>, tensor<4096xi64>, tensor<16xf64>) -> tensor<f32>
  %1, %dh, %dw = nn.linear_cross_entropy_grad %g, %v, %k, %s {transposed = true} : (tensor<4x6xf32>, tensor<6x9xf32>, tensor<4xi64>, tensor<16xf64>) -> (tensor<f32>, tensor<4x6xf32>, tensor<6x9xf32>)
  %2 = nn.linear_cross_entropy %g, %u, %k, %s {chunk = 2 : i64} : (tensor<4x6xf32>, tensor<9x6xf32>, tensor<4xi64>, tensor<16xf64>) -> tensor<f32>
  return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}

// A weight that is made of stored numbers is made where it is used, for each use; a view's or a result's stays.
// CHECK-LABEL: func.func private @stored(
// CHECK: nn.relu
// CHECK-NEXT: %[[W:.*]] = nn.dequantize %arg0, %arg1
// CHECK-NEXT: %[[Y:.*]] = nn.matmul %{{.*}}, %[[W]]
// CHECK-NEXT: %[[Z:.*]] = nn.relu %[[Y]]
// CHECK-NEXT: %[[V:.*]] = nn.dequantize %arg0, %arg1
// CHECK-NEXT: nn.matmul %[[Z]], %[[V]] {transposeRhs = true}
func.func private @stored(%c: tensor<4x2xui8>, %s: tensor<bf16>, %x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %w = nn.dequantize %c, %s {bits = 4 : i64} : (tensor<4x2xui8>, tensor<bf16>) -> tensor<4x4xf32>
  %0 = nn.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = nn.matmul %0, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = nn.relu %1 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = nn.matmul %2, %w {transposeRhs = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
