// Folders of nn operations: identities go, single numbers fold, and nothing larger is computed at compile time.
// RUN: mtc-opt %s --canonicalize --split-input-file | FileCheck %s

// Neutral elements on either side, where the shape stays; a neutral element that broadcasts does not go.
// CHECK-LABEL: func.func @neutral(
// CHECK-SAME: %[[X:.*]]: tensor<3xf32>
// CHECK-NEXT: %[[ONE:.*]] = nn.constant dense<1.000000e+00> : tensor<2x3xf32>
// CHECK-NEXT: %[[WIDE:.*]] = nn.mul %[[X]], %[[ONE]] : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[WIDE]]
func.func @neutral(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>) {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %ones = nn.constant dense<1.0> : tensor<2x3xf32>
  %0 = nn.add %zero, %x : (tensor<f32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = nn.sub %0, %zero : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %2 = nn.mul %1, %one : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = nn.div %2, %one : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %4 = nn.mul %x, %ones : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1, %2, %3, %4 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>
}

// -----

// 0 - x and 1 / x are no identities.
// CHECK-LABEL: func.func @not_neutral(
// CHECK: nn.sub
// CHECK: nn.div
func.func @not_neutral(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.sub %zero, %x : (tensor<f32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = nn.div %one, %0 : (tensor<f32>, tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// -----

// -sqrt(16) * 0.5 + 3 = 1, 2^3 / 4 = 2, rsqrt(0.25) = 2, 1/8.
// CHECK-LABEL: func.func @numbers(
// CHECK-DAG: %[[A:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK-DAG: %[[B:.*]] = nn.constant dense<2.000000e+00> : tensor<f32>
// CHECK-DAG: %[[C:.*]] = nn.constant dense<1.250000e-01> : tensor<2xf64>
// CHECK-NOT: nn.{{[^c]}}
// CHECK: return %[[A]], %[[B]], %[[B]], %[[C]]
func.func @numbers() -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<2xf64>) {
  %16 = nn.constant dense<16.0> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %quarter = nn.constant dense<0.25> : tensor<f32>
  %2 = nn.constant dense<2.0> : tensor<f32>
  %3 = nn.constant dense<3.0> : tensor<f32>
  %4 = nn.constant dense<4.0> : tensor<f32>
  %8 = nn.constant dense<8.0> : tensor<2xf32>
  %a = nn.sqrt %16 : (tensor<f32>) -> tensor<f32>
  %b = nn.neg %a : (tensor<f32>) -> tensor<f32>
  %c = nn.mul %b, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %d = nn.add %c, %3 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %e = nn.pow %2, %3 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %f = nn.div %e, %4 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %g = nn.rsqrt %quarter : (tensor<f32>) -> tensor<f32>
  %h = nn.reciprocal %8 : (tensor<2xf32>) -> tensor<2xf32>
  %i = nn.cast %h : (tensor<2xf32>) -> tensor<2xf64>
  return %d, %f, %g, %i : tensor<f32>, tensor<f32>, tensor<f32>, tensor<2xf64>
}

// -----

// Constants that are no splats are left alone, and so are integers: truncating them is the kernels' business.
// CHECK-LABEL: func.func @larger(
// CHECK: nn.add
// CHECK: nn.div
func.func @larger() -> (tensor<2xf32>, tensor<i64>) {
  %a = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %7 = nn.constant dense<7> : tensor<i64>
  %2 = nn.constant dense<2> : tensor<i64>
  %0 = nn.add %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = nn.div %7, %2 : (tensor<i64>, tensor<i64>) -> tensor<i64>
  return %0, %1 : tensor<2xf32>, tensor<i64>
}

// -----

// Views of views are one view; a view back is none.
// CHECK-LABEL: func.func @views(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.reshape %[[X]] : (tensor<2x3x4xf32>) -> tensor<4x6xf32>
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @views(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<4x6xf32>) {
  %0 = nn.reshape %x : (tensor<2x3x4xf32>) -> tensor<24xf32>
  %1 = nn.reshape %0 : (tensor<24xf32>) -> tensor<2x3x4xf32>
  %2 = nn.reshape %0 : (tensor<24xf32>) -> tensor<4x6xf32>
  return %1, %2 : tensor<2x3x4xf32>, tensor<4x6xf32>
}

// -----

// Dimension i of the second result is dimension [1, 2, 0][[2, 0, 1][i]] of x: the identity. Twice [1, 2, 0] is [2, 0, 1].
// CHECK-LABEL: func.func @transposes(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.transpose %[[X]] {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<4x2x3xf32>) {
  %0 = nn.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = nn.transpose %0 {permutation = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  %2 = nn.transpose %0 {permutation = array<i64: 1, 2, 0>} : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  return %1, %2 : tensor<2x3x4xf32>, tensor<4x2x3xf32>
}

// -----

// What moves nothing goes; splats are moved by changing their type.
// CHECK-LABEL: func.func @moves(
// CHECK-SAME: %[[X:.*]]: tensor<3xf32>
// CHECK-NEXT: %[[C:.*]] = nn.constant dense<5.000000e+00> : tensor<4x2xf32>
// CHECK-NEXT: %[[R:.*]] = nn.slice %[[X]] {{.*}}strides = array<i64: -1>
// CHECK-NEXT: return %[[X]], %[[C]], %[[R]]
func.func @moves(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<4x2xf32>, tensor<3xf32>) {
  %0 = nn.slice %x {starts = array<i64: 0>, sizes = array<i64: 3>, strides = array<i64: 1>} : (tensor<3xf32>) -> tensor<3xf32>
  %none = nn.slice %x {starts = array<i64: 0>, sizes = array<i64: 0>, strides = array<i64: 1>} : (tensor<3xf32>) -> tensor<0xf32>
  %1 = nn.concat %0, %none {axis = 0 : i64} : (tensor<3xf32>, tensor<0xf32>) -> tensor<3xf32>
  %2 = nn.broadcast %1 : (tensor<3xf32>) -> tensor<3xf32>
  %3 = nn.cast %2 : (tensor<3xf32>) -> tensor<3xf32>
  %c = nn.constant dense<5.0> : tensor<f32>
  %4 = nn.broadcast %c : (tensor<f32>) -> tensor<2x8xf32>
  %5 = nn.transpose %4 {permutation = array<i64: 1, 0>} : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %6 = nn.slice %5 {starts = array<i64: 0, 0>, sizes = array<i64: 4, 2>, strides = array<i64: 2, 1>} : (tensor<8x2xf32>) -> tensor<4x2xf32>
  %7 = nn.slice %x {starts = array<i64: 2>, sizes = array<i64: 3>, strides = array<i64: -1>} : (tensor<3xf32>) -> tensor<3xf32>
  return %3, %6, %7 : tensor<3xf32>, tensor<4x2xf32>, tensor<3xf32>
}
