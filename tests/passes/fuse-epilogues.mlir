// Products with gelu in the model, and with what gradients leave beside them in templates.
// RUN: mtc-opt --mt-fuse-epilogues %s | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]], %[[I:.*]] = nn.matmul_gelu %arg0, %arg1, %arg2 {transposeRhs = true}
// CHECK: %[[V:.*]] = nn.reshape %[[R]]
// CHECK: nn.add %[[V]]
// CHECK: nn.exp %[[I]]
// Another form is another function:
// CHECK: %[[P:.*]] = nn.matmul %
// CHECK: nn.gelu %[[P]] :
func.func @main(%x: tensor<6x8xf32>, %w: tensor<4x8xf32>, %b: tensor<4xf32>, %y: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) {
  %0 = nn.matmul %x, %w, %b {transposeRhs = true} : (tensor<6x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  %1 = nn.reshape %0 : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %2 = nn.gelu %1 {form = "tanh"} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %3 = nn.add %2, %y : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %4 = nn.exp %0 : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %5 = nn.matmul %x, %w {transposeRhs = true} : (tensor<6x8xf32>, tensor<4x8xf32>) -> tensor<6x4xf32>
  %6 = nn.gelu %5 {form = "erf"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  return %3, %4, %6 : tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
}

// CHECK-LABEL: func.func @backward
// CHECK: nn.matmul_gelu_grad %arg0, %arg1, %{{.*}} :
// CHECK: %[[W:.*]], %[[S:.*]] = nn.matmul_sums %arg3, {{.*}} {transposeLhs = true}
// CHECK: return %[[W]], %[[S]]
func.func @backward(%dy: tensor<6x8xf32>, %w: tensor<8x4xf32>, %input: tensor<2x3x4xf32>, %x: tensor<6x5xf32>) -> (tensor<5x4xf32>, tensor<4xf32>) {
  %0 = nn.matmul %dy, %w : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %1 = nn.reshape %0 : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %2 = nn.activation_grad %input, %1 {activation = "gelu_tanh"} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %3 = nn.reduce %2 {axes = array<i64: 0, 1>, keepDims = false, kind = "sum"} : (tensor<2x3x4xf32>) -> tensor<4xf32>
  %4 = nn.reshape %2 : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %5 = nn.matmul %x, %4 {transposeLhs = true} : (tensor<6x5xf32>, tensor<6x4xf32>) -> tensor<5x4xf32>
  return %5, %3 : tensor<5x4xf32>, tensor<4xf32>
}

// The weight lies the other way: the sums are those of the left side.
// CHECK-LABEL: func.func @left
// CHECK: nn.matmul_sums %arg0, %arg1 {sumsOfLhs = true, transposeLhs = true}
func.func @left(%dy: tensor<6x4xf32>, %x: tensor<6x5xf32>) -> (tensor<4x5xf32>, tensor<4xf32>) {
  %0 = nn.matmul %dy, %x {transposeLhs = true} : (tensor<6x4xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %1 = nn.reduce %dy {axes = array<i64: 0>, keepDims = false, kind = "sum"} : (tensor<6x4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4x5xf32>, tensor<4xf32>
}

// What is used between both cannot wait for the later; a product that something else reads is not replaced.
// CHECK-LABEL: func.func @apart
// CHECK: nn.matmul %
// CHECK: nn.reduce
// CHECK: nn.activation_grad
func.func @apart(%dy: tensor<6x4xf32>, %x: tensor<6x6xf32>, %w: tensor<4x4xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) {
  %0 = nn.matmul %x, %dy : (tensor<6x6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %1 = nn.exp %0 : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %2 = nn.reduce %dy {axes = array<i64: 0>, keepDims = false, kind = "sum"} : (tensor<6x4xf32>) -> tensor<4xf32>
  %3 = nn.add %1, %2 : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  %4 = nn.activation_grad %dy, %0 {activation = "gelu_tanh"} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %3, %4, %0 : tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
}

// Sums with products: through a view; the right one of two products, and a chain of them; not one that something else reads,
// nor one that is broadcast.
// CHECK-LABEL: func.func @sums
// CHECK: %[[V:.*]] = nn.reshape %arg0 : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
// CHECK: nn.matmul_add %[[V]], %arg1, %arg3, %arg2 {transposeRhs = true}
// CHECK: %[[A:.*]] = nn.matmul %arg0, %arg1
// CHECK: %[[B:.*]] = nn.matmul_add %arg4, %arg1, %[[A]] {transposeRhs = true}
// CHECK: nn.matmul_add %arg0, %arg5, %[[B]] :
// CHECK: %[[D:.*]] = nn.matmul %arg4, %arg5
// CHECK: nn.add %[[D]], %arg4
// CHECK: nn.add
func.func @sums(%x: tensor<6x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>, %y: tensor<2x3x4xf32>, %z: tensor<6x4xf32>, %v: tensor<4x4xf32>) -> (tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) {
  %0 = nn.matmul %x, %w, %b {transposeRhs = true} : (tensor<6x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  %1 = nn.reshape %0 : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %2 = nn.add %1, %y : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %3 = nn.matmul %x, %w {transposeRhs = true} : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %4 = nn.matmul %z, %w {transposeRhs = true} : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %5 = nn.add %3, %4 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %6 = nn.matmul %x, %v : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %7 = nn.add %5, %6 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %8 = nn.matmul %z, %v : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %9 = nn.add %8, %z : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %10 = nn.matmul %x, %w : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %11 = nn.add %10, %b : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  return %2, %7, %8, %9, %11 : tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
}

// Sums with a norm's gradient: not with what comes after it.
// CHECK-LABEL: func.func @norms
// CHECK: %[[D:.*]], %{{.*}} = nn.rms_norm_grad %arg0, %arg1, %arg2, %arg3 {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>}
// CHECK: %[[E:.*]], %{{.*}} = nn.rms_norm_grad %arg3, %arg1, %arg2 {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}
// CHECK: %[[L:.*]] = nn.exp %arg0
// CHECK: %[[S:.*]] = nn.add %[[L]], %[[E]]
// CHECK: return %[[D]], %[[S]]
func.func @norms(%dy: tensor<6x4xf32>, %x: tensor<6x4xf32>, %r: tensor<6xf32>, %z: tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
  %0, %1 = nn.rms_norm_grad %dy, %x, %r {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> (tensor<6x4xf32>, tensor<4xf32>)
  %2 = nn.add %z, %0 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %3, %4 = nn.rms_norm_grad %z, %x, %r {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> (tensor<6x4xf32>, tensor<4xf32>)
  %5 = nn.exp %dy : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %6 = nn.add %5, %3 : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %2, %6 : tensor<6x4xf32>, tensor<6x4xf32>
}

// Gradients of slices that together are the whole, in any order of sums; not where a part lacks, or overlaps.
// CHECK-LABEL: func.func @parts
// CHECK: %[[S:.*]] = nn.concat %arg0, %arg1, %arg2 {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
// CHECK: nn.pad
// CHECK: nn.pad
// CHECK: %[[T:.*]] = nn.add
// CHECK: return %[[S]], %[[T]]
func.func @parts(%a: tensor<2x3xf32>, %b: tensor<2x1xf32>, %c: tensor<2x4xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %0 = nn.pad %a {low = array<i64: 0, 0>, high = array<i64: 0, 5>, interior = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x8xf32>
  %1 = nn.pad %b {low = array<i64: 0, 3>, high = array<i64: 0, 4>, interior = array<i64: 0, 0>} : (tensor<2x1xf32>) -> tensor<2x8xf32>
  %2 = nn.pad %c {low = array<i64: 0, 4>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<2x8xf32>
  %3 = nn.add %2, %0 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = nn.add %3, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %5 = nn.pad %a {low = array<i64: 0, 0>, high = array<i64: 0, 5>, interior = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x8xf32>
  %6 = nn.pad %c {low = array<i64: 0, 4>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<2x8xf32>
  %7 = nn.add %5, %6 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %4, %7 : tensor<2x8xf32>, tensor<2x8xf32>
}
