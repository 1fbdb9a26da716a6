// The loss as named by the user: cross-entropy and mse of one model, and an output that is the loss already.
// RUN: mtc-opt %s --mt-append-loss=loss=cross-entropy | FileCheck %s --check-prefixes=CHECK,ENTROPY
// RUN: mtc-opt %s --mt-append-loss=loss=mse | FileCheck %s --check-prefixes=CHECK,MSE
// RUN: mtc-opt %s --mt-append-loss=loss=output:penalty | FileCheck %s --check-prefixes=CHECK,NAMED
// RUN: mtc-opt %s "--mt-append-loss=loss=cross-entropy label-smoothing=0.1 z-loss=0.001" | FileCheck %s --check-prefix=TERMS

// Label smoothing and z-loss are attributes of the loss.
// TERMS: module attributes {mt.settings = {label_smoothing = 1.000000e-01 : f64, z_loss = 1.000000e-03 : f64}, nn.loss = "cross-entropy"}
// TERMS: nn.cross_entropy %{{.*}}, %{{.*}}, %{{.*}} {labelSmoothing = 1.000000e-01 : f64, zLoss = 1.000000e-03 : f64} :
// ENTROPY: module attributes {nn.loss = "cross-entropy"}
// MSE: module attributes {nn.loss = "mse"}
// NAMED: module attributes {nn.loss = "output:penalty"}
// CHECK: func.func @main(
// Class predictions of real inputs: labels are one index a row.
// ENTROPY-SAME: %[[L:[^ ]*]]: tensor<4xi64> {nn.labels, nn.vocabulary = 9 : i64}, %[[S:[^ ]*]]: tensor<16xf64> {nn.scalars}) -> tensor<f32>
// ENTROPY: %[[Y:.*]] = nn.relu
// ENTROPY-NEXT: nn.cross_entropy %[[Y]], %[[L]], %[[S]] :
// Predictions of any shape: labels have it too.
// MSE-SAME: %[[L:[^ ]*]]: tensor<4x9xf32> {nn.labels}, %[[S:[^ ]*]]: tensor<16xf64> {nn.scalars}) -> tensor<f32>
// MSE: %[[Y:.*]] = nn.relu
// MSE-NEXT: nn.squared_error %[[Y]], %[[L]], %[[S]] :
// The output itself, as a scalar: no labels, no scalars, and what only the other output needed goes.
// NAMED-NOT: nn.labels
// NAMED-SAME: -> tensor<f32>
// NAMED-NOT: nn.relu
// NAMED: %[[P:.*]] = nn.reduce
// NAMED-NEXT: %[[R:.*]] = nn.reshape %[[P]] : (tensor<1x1xf32>) -> tensor<f32>
// NAMED-NEXT: return %[[R]]
func.func @main(%x: tensor<4x6xf32> {nn.input = "x"}, %w: tensor<6x9xf32> {nn.parameter = "w", nn.trainable})
    -> (tensor<4x9xf32> {nn.output = "scores"}, tensor<1x1xf32> {nn.output = "penalty"}) {
  %l = nn.matmul %x, %w : (tensor<4x6xf32>, tensor<6x9xf32>) -> tensor<4x9xf32>
  %r = nn.relu %l : (tensor<4x9xf32>) -> tensor<4x9xf32>
  %p = nn.reduce %l {kind = "mean", axes = array<i64: 0, 1>, keepDims = true} : (tensor<4x9xf32>) -> tensor<1x1xf32>
  return %r, %p : tensor<4x9xf32>, tensor<1x1xf32>
}
