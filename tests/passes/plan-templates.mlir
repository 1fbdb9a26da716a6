// RUN: mtc-opt %s --mt-plan-templates | FileCheck %s
// RUN: mtc-opt %s --mt-plan-templates=alignment=4 | FileCheck %s --check-prefix=TIGHT
// Offsets inside a template's workspace, small enough to be worked out by hand.

// Alive, by index of operation (views count for what they view; results of the template lie at the caller's):
//   %0 256 bytes [0, 2], %1 64 bytes [1, 3], %2 256 bytes [2, 5], %3 64 bytes [3, 7].
// Most is alive at 2: 576 bytes, and no more are needed, since %3 fits where %0 was.
// CHECK-LABEL: func.func private @chain(
// CHECK-SAME: attributes {nn.workspace = 576 : i64}
// CHECK-NEXT: nn.exp %arg1 {nn.offsets = array<i64: 0, -1>}
// CHECK-NEXT: nn.exp %arg0 {nn.offsets = array<i64: 512, -1>}
// CHECK-NEXT: nn.tanh %{{.*}} {nn.offsets = array<i64: 256, -1>}
// CHECK-NEXT: nn.tanh %{{.*}} {nn.offsets = array<i64: 0, -1>}
// CHECK-NEXT: nn.reshape %{{[0-9]+}} :
// CHECK-NEXT: nn.relu %{{.*}} {nn.offsets = array<i64: -1, -1>}
// CHECK-NEXT: nn.reshape %{{[0-9]+}} :
// CHECK-NEXT: nn.sin %{{.*}} {nn.offsets = array<i64: -1, -1>}
func.func private @chain(%x: tensor<16xf32>, %y: tensor<64xf32>) -> (tensor<16xf32>, tensor<64xf32>) {
  %0 = nn.exp %y : (tensor<64xf32>) -> tensor<64xf32>
  %1 = nn.exp %x : (tensor<16xf32>) -> tensor<16xf32>
  %2 = nn.tanh %0 : (tensor<64xf32>) -> tensor<64xf32>
  %3 = nn.tanh %1 : (tensor<16xf32>) -> tensor<16xf32>
  %v = nn.reshape %2 : (tensor<64xf32>) -> tensor<8x8xf32>
  %4 = nn.relu %v : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = nn.reshape %4 : (tensor<8x8xf32>) -> tensor<64xf32>
  %6 = nn.sin %3 : (tensor<16xf32>) -> tensor<16xf32>
  return %6, %5 : tensor<16xf32>, tensor<64xf32>
}

// An operand and the result of one operation never share bytes: 256 + 256. Two chains of one long value after another do.
// CHECK-LABEL: func.func private @one_after_another(
// CHECK-SAME: attributes {nn.workspace = 512 : i64}
func.func private @one_after_another(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = nn.exp %x : (tensor<64xf32>) -> tensor<64xf32>
  %1 = nn.tanh %0 : (tensor<64xf32>) -> tensor<64xf32>
  %2 = nn.sin %1 : (tensor<64xf32>) -> tensor<64xf32>
  %3 = nn.cos %2 : (tensor<64xf32>) -> tensor<64xf32>
  %4 = nn.relu %3 : (tensor<64xf32>) -> tensor<64xf32>
  return %4 : tensor<64xf32>
}

// Results that nothing uses have no place, and nothing is kept for them: rms_norm's statistics here.
// CHECK-LABEL: func.func private @unused(
// CHECK-SAME: attributes {nn.workspace = 512 : i64}
// CHECK: nn.rms_norm {{.*}} nn.offsets = array<i64: 0, -1, -1>
func.func private @unused(%x: tensor<2x64xf32>) -> tensor<2x64xf32> {
  %y, %r = nn.rms_norm %x {epsilon = 1.0e-5 : f64} : (tensor<2x64xf32>) -> (tensor<2x64xf32>, tensor<2xf32>)
  %s = nn.softmax %y : (tensor<2x64xf32>) -> tensor<2x64xf32>
  return %s : tensor<2x64xf32>
}

// Constants are values like others; booleans take a byte each. With offsets aligned to 64: 4 bytes at 0, 3 at 64.
// CHECK-LABEL: func.func private @small(
// CHECK-SAME: attributes {nn.workspace = 67 : i64}
// CHECK: nn.constant {nn.offsets = array<i64: 0, -1>} dense<0.000000e+00>
// CHECK: nn.not %{{.*}} {nn.offsets = array<i64: 64, -1>}
// TIGHT-LABEL: func.func private @small(
// TIGHT-SAME: attributes {nn.workspace = 7 : i64}
func.func private @small(%x: tensor<3xf32>, %b: tensor<3xi1>) -> tensor<3xf32> {
  %c = nn.constant dense<0.0> : tensor<f32>
  %0 = nn.not %b : (tensor<3xi1>) -> tensor<3xi1>
  %1 = nn.select %0, %x, %c : (tensor<3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// A kernel's own scratch is the last entry; it is needed only while the kernel runs, so a later value can lie there.
// CHECK-LABEL: func.func private @scratch(
// CHECK: nn.linear_cross_entropy {{.*}} nn.offsets = array<i64: -1, 0>
// CHECK: nn.exp %{{.*}} {nn.offsets = array<i64: 0, -1>}
func.func private @scratch(%h: tensor<32x8xf32>, %w: tensor<64x8xf32>, %l: tensor<32xi64>, %s: tensor<16xf64>) -> (tensor<f32>, tensor<32x8xf32>) {
  %0 = nn.linear_cross_entropy %h, %w, %l, %s {chunk = 16 : i64} : (tensor<32x8xf32>, tensor<64x8xf32>, tensor<32xi64>, tensor<16xf64>) -> tensor<f32>
  %1 = nn.exp %h : (tensor<32x8xf32>) -> tensor<32x8xf32>
  %2 = nn.tanh %1 : (tensor<32x8xf32>) -> tensor<32x8xf32>
  return %0, %2 : tensor<f32>, tensor<32x8xf32>
}
