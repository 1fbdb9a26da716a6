// RUN: mtc-opt %s --mt-differentiate --cse --mt-select-kernels --mt-plan-templates --mt-build-schedule="target=cpu-discrete batch=4 summed=2" --symbol-dce | FileCheck %s
// RUN: mtc-opt %s --mt-differentiate --cse --mt-select-kernels --mt-plan-templates --mt-build-schedule="target=cpu-discrete optimizer=sgd clip=true" --symbol-dce | FileCheck %s --check-prefix=SGD

// A layer of 16 bf16 weights: 32 bytes staged and brought in, 64 bytes of gradient offloaded. Beside the moments lies
// the remainder of the master (roles 1, 2, 3 at multiples of 256 bytes), and the update takes both halves.
// CHECK: schedule.slot "weights layer 0" persistent {schedule.holds = array<i64: 0, 0, 0>, schedule.kind = "weight"}
// CHECK: schedule.slot "state layer 0" persistent {schedule.holds = array<i64: 0, 1, 0, 0, 2, 256, 0, 3, 512>, schedule.kind = "state"} : <"state", 768>
// CHECK: schedule.prefetch step 0 "weights layer 0" {{.*}} bytes 32 {{.*}}
// CHECK: schedule.compute step 1 "norms layer 0" kernel "squared_norm"{{.*}} types = [tensor<4x4xf32>, tensor<1xf64>]
// CHECK: schedule.offload step 2 "gradients layer 0" {{.*}} bytes 64 {{.*}}
// CHECK: schedule.update step 4 "update layer 0" kernel "adamw_split"
// CHECK-SAME: effects [0, 0, 0, 3, 3, 3, 3]
// CHECK-SAME: types = [tensor<4x4xf32>, tensor<1xf64>, tensor<16xf64>, tensor<4x4xbf16>, tensor<4x4xi16>, tensor<4x4xf32>, tensor<4x4xf32>]

// SGD has one moment; clipping keeps 32-bit gradients.
// SGD: schedule.slot "state layer 0" persistent {schedule.holds = array<i64: 0, 1, 0, 0, 2, 256>, schedule.kind = "state"} : <"state", 512>
// SGD: schedule.slot "landed gradients layer 0" {schedule.kind = "gradient"} : <"staging", 64>
// SGD: schedule.update step 4 "update layer 0" kernel "sgd_split"
// SGD-SAME: types = [tensor<4x4xf32>, tensor<1xf64>, tensor<16xf64>, tensor<4x4xbf16>, tensor<4x4xi16>, tensor<4x4xf32>]
func.func private @block(%x: tensor<2x4xbf16>, %w: tensor<4x4xbf16>) -> tensor<2x4xbf16> {
  %0 = nn.matmul %x, %w : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %1 = nn.silu %0 : (tensor<2x4xbf16>) -> tensor<2x4xbf16>
  return %1 : tensor<2x4xbf16>
}
func.func private @loss(%x: tensor<2x4xbf16>, %w: tensor<4x6xbf16>, %l: tensor<2xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.linear_cross_entropy %x, %w, %l, %s {transposed = true} : (tensor<2x4xbf16>, tensor<4x6xbf16>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<2x4xbf16> {nn.input = "x"}, %a: tensor<4x4xbf16> {nn.parameter = "a", nn.trainable},
                %b: tensor<4x4xbf16> {nn.parameter = "b", nn.trainable}, %h: tensor<4x6xbf16> {nn.parameter = "h", nn.trainable},
                %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @block(%x, %a) : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %1 = call @block(%0, %b) : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %2 = call @loss(%1, %h, %l, %s) : (tensor<2x4xbf16>, tensor<4x6xbf16>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %2 : tensor<f32>
}
