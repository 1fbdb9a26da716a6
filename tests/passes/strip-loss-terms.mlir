// Label smoothing and z-loss are of losses that are appended: others are refused by name.
// RUN: not mtc-opt %s "--mt-append-loss=loss=mse label-smoothing=0.1" 2>&1 | FileCheck %s --check-prefix=MSE
// RUN: not mtc-opt %s "--mt-append-loss=loss=output:penalty z-loss=0.1" 2>&1 | FileCheck %s --check-prefix=OWN
// MSE: error: --label-smoothing is of the losses causal-lm and cross-entropy, and --loss mse has no classes: leave it out
// OWN: error: --z-loss is of the losses causal-lm and cross-entropy, and --loss output:penalty is the model's own: leave it out

// Gradients have them, the function of the layer itself, which evaluations call, does not keep them.
// RUN: mtc-opt %s "--mt-append-loss=loss=cross-entropy label-smoothing=0.1 z-loss=0.001" --mt-partition-layers --mt-differentiate --mt-strip-loss-terms | FileCheck %s --check-prefix=LAYERS
// LAYERS: nn.cross_entropy %{{[^{]*}} :
// LAYERS: nn.cross_entropy_grad %{{.*}} {labelSmoothing = 1.000000e-01 : f64, zLoss = 1.000000e-03 : f64} :
func.func @main(%x: tensor<4x6xf32> {nn.input = "x"}, %w: tensor<6x9xf32> {nn.parameter = "w", nn.trainable})
    -> (tensor<4x9xf32> {nn.output = "scores"}, tensor<f32> {nn.output = "penalty"}) {
  %l = nn.matmul %x, %w : (tensor<4x6xf32>, tensor<6x9xf32>) -> tensor<4x9xf32>
  %r = nn.relu %l : (tensor<4x9xf32>) -> tensor<4x9xf32>
  %p = nn.reduce %l {kind = "mean", axes = array<i64: 0, 1>, keepDims = false} : (tensor<4x9xf32>) -> tensor<f32>
  return %r, %p : tensor<4x9xf32>, tensor<f32>
}
