// DEFINE: %{commands} = sed -nE 's/^ *schedule\.((prefetch|offload|compute|update) [a-z]+ [0-9] "[^"]*"( @[a-z0-9.]+)?).*/\1/p'
// DEFINE: %{layers} = mtc-opt %s --mt-differentiate --cse --mt-select-kernels --mt-plan-templates
// RUN: %{layers} --mt-build-schedule="target=cpu-discrete" --symbol-dce | %{commands} | FileCheck %s
// RUN: %{layers} --mt-build-schedule="target=cpu-discrete residency=weights" --symbol-dce | %{commands} | FileCheck %s --check-prefix=KEPT
// RUN: %{layers} --mt-build-schedule="target=cpu-discrete clip=true" --symbol-dce | %{commands} | FileCheck %s --check-prefix=CLIP
// RUN: %{layers} --mt-build-schedule="target=cpu" --symbol-dce | %{commands} | FileCheck %s --check-prefix=UNIFIED
// RUN: %{layers} --mt-build-schedule="target=cpu-discrete" --symbol-dce | FileCheck %s --check-prefix=PLACES
// Three layers that share two weights. Their gradients are added up on the host where the first part, of the last layer,
// has landed; norm and update follow the last part.

// The weights stay on the device from layer to layer, but not beyond the loss.
// CHECK: prefetch step 0 "weights layer 0"
// CHECK: forward layer 0 mb 0
// CHECK-NOT: "weight {{.*}} layer 1"
// CHECK: prefetch step 0 "weight w and 1 more layer 2"
// CHECK-NOT: "weight
// CHECK: compute step 1 "loss layer 3 mb 0"
// CHECK-NEXT: compute step 1 "norms layer 3"
// CHECK-NEXT: offload step 2 "gradients layer 3"
// CHECK: compute step 1 "backward layer 2 mb 0"
// CHECK: offload step 2 "gradient w and 1 more layer 2"
// CHECK: compute step 1 "backward layer 1 mb 0"
// CHECK: offload step 2 "gradient w and 1 more layer 1"
// CHECK: compute step 1 "backward layer 0 mb 0"
// CHECK: compute step 4 "sum gradients of w and 1 more"
// CHECK: offload step 2 "gradients layer 0"
// CHECK: compute step 4 "sum gradients of w and 1 more"
// CHECK-NEXT: compute step 4 "norm of w and 1 more"
// CHECK-NEXT: compute step 4 "gradient norm"
// CHECK-NEXT: compute step 4 "report"
// CHECK-NEXT: update step 4 "update layer 0"

// Kept, they come once.
// KEPT: prefetch step 0 "weights layer 0"
// KEPT-NOT: prefetch step 0 "weight w
// KEPT: compute step 4 "gradient norm"

// With clipping the one update follows the norm of the step, and comes first: it is needed first.
// CLIP: compute step 4 "norm of w and 1 more"
// CLIP-NEXT: compute step 4 "gradient norm"
// CLIP-NEXT: compute step 4 "report"
// CLIP-NEXT: update step 4 "update layer 0"
// CLIP-NEXT: update step 4 "update layer 3"

// One memory: parts are added where the first was made.
// UNIFIED: compute step 0 "backward layer 2 mb 0"
// UNIFIED-NEXT: compute step 0 "backward layer 1 mb 0"
// UNIFIED-NEXT: compute step 0 "sum gradients of w and 1 more"
// UNIFIED-NEXT: compute step 0 "backward layer 0 mb 0"
// UNIFIED-NEXT: compute step 0 "sum gradients of w and 1 more"
// UNIFIED-NEXT: compute step 0 "norm of w and 1 more"
// UNIFIED-NEXT: update step 0 "update layer 0"

// The sum reads one part and adds to the place where the first landed, parameter by parameter.
// PLACES: schedule.offload step 2 "gradient w and 1 more layer 2" %{{.*}}[0] to %[[SUM:.*]][0] bytes 272
// PLACES: schedule.offload step 2 "gradient w and 1 more layer 1" %{{.*}}[0] to %[[PART:.*]][0] bytes 272
// PLACES: schedule.compute step 4 "sum gradients of w and 1 more" kernel "pairwise_sum"(%[[PART]], %[[SUM]], %[[PART]], %[[SUM]]) offsets [0, 0, 256, 256] effects [0, 3, 0, 3]
func.func private @block(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.add %0, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = nn.tanh %1 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}
func.func private @loss(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>, %l: tensor<2xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.linear_cross_entropy %x, %w, %l, %s {transposed = true} : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable},
                %b: tensor<4xf32> {nn.parameter = "b", nn.trainable}, %h: tensor<4x6xf32> {nn.parameter = "h", nn.trainable},
                %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @block(%x, %w, %b) : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %1 = call @block(%0, %w, %b) : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = call @block(%1, %w, %b) : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %3 = call @loss(%2, %h, %l, %s) : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %3 : tensor<f32>
}
