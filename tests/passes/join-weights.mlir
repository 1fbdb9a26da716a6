// Frozen parameters that the model concatenates are one; what is trained, of another shape, or used elsewhere too, is not.
// RUN: mtc-opt %s --mt-join-weights | FileCheck %s
// RUN: mtc-opt %s --mt-join-weights --mt-pack-weights | FileCheck %s --check-prefix=PACKED

// CHECK: func.func @main(%[[X:[a-z0-9]+]]: tensor<6x4xf32> {nn.input = "x"}, %[[I:[a-z0-9]+]]: tensor<6xi64> {nn.input = "i"}, %{{.*}} {nn.parameter = "t.0", nn.trainable}
// CHECK-SAME: {nn.parameter = "t.1"}, %{{.*}} {nn.parameter = "u.0"}, %{{.*}} {nn.parameter = "u.1"}
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<2x8x4xf32> {nn.parameter = "experts.*.up", nn.pieces = ["experts.0.up", "experts.1.up"]}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<2x3x3xf32> {nn.parameter = "v.*", nn.pieces = ["v.a", "v.b.c"]})
// CHECK: nn.expert_matmul %[[X]], %[[W]], %[[I]]
// CHECK: nn.expert_matmul %{{.*}}, %[[V]], %[[I]]
// CHECK: nn.concat
// CHECK: nn.concat
// CHECK-NOT: nn.concat

// Nine numbers a piece are no whole bytes.
// PACKED: nn.packing = {{.*}}nn.pieces = ["experts.0.up", "experts.1.up"]}
// PACKED-NOT: codes = "v.*"
func.func @main(%x: tensor<6x4xf32> {nn.input = "x"}, %i: tensor<6xi64> {nn.input = "i"},
                %a: tensor<8x4xf32> {nn.parameter = "experts.0.up"}, %b: tensor<8x4xf32> {nn.parameter = "experts.1.up"},
                %c: tensor<1x3x3xf32> {nn.parameter = "v.a"}, %d: tensor<1x3x3xf32> {nn.parameter = "v.b.c"},
                %t0: tensor<8x4xf32> {nn.parameter = "t.0", nn.trainable}, %t1: tensor<8x4xf32> {nn.parameter = "t.1"},
                %u0: tensor<8x4xf32> {nn.parameter = "u.0"}, %u1: tensor<8x4xf32> {nn.parameter = "u.1"})
    -> (tensor<6x8xf32>, tensor<6x3xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<8x4xf32>) {
  %0 = nn.reshape %a : (tensor<8x4xf32>) -> tensor<1x8x4xf32>
  %1 = nn.reshape %b : (tensor<8x4xf32>) -> tensor<1x8x4xf32>
  %2 = nn.concat %0, %1 {axis = 0 : i64} : (tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<2x8x4xf32>
  %3 = nn.expert_matmul %x, %2, %i {transposed = true} : (tensor<6x4xf32>, tensor<2x8x4xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %4 = nn.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: 6, 3>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<6x3xf32>
  %5 = nn.concat %c, %d {axis = 0 : i64} : (tensor<1x3x3xf32>, tensor<1x3x3xf32>) -> tensor<2x3x3xf32>
  %6 = nn.expert_matmul %4, %5, %i {transposed = true} : (tensor<6x3xf32>, tensor<2x3x3xf32>, tensor<6xi64>) -> tensor<6x3xf32>
  %7 = nn.concat %t0, %t1 {axis = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %8 = nn.concat %u0, %u1 {axis = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %9 = nn.relu %u0 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %3, %6, %7, %8, %9 : tensor<6x8xf32>, tensor<6x3xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<8x4xf32>
}
