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
