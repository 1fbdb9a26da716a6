// RUN: mtc-opt %s --mt-build-schedule --verify-diagnostics
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-build-schedule=batch=3 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-differentiate --mt-build-schedule=optimizer=adam 2>&1 | FileCheck %s --check-prefix=OPTIMIZER
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-differentiate --mt-build-schedule=saved-activations=most 2>&1 | FileCheck %s --check-prefix=RUNG
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-build-schedule=target=abacus 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-differentiate --mt-build-schedule=prefetch-distance=-1 2>&1 | FileCheck %s --check-prefix=DISTANCE
// BATCH: error: {{.*}}
// OPTIMIZER: optimizer 'adam': must be adamw or sgd
// RUNG: saved activations 'most': must be input, attention or all
// TARGET: abacus
// DISTANCE: prefetch distance -1: must not be negative
// expected-error @+1 {{the last layer does not compute a loss that a trainable parameter reaches; check --loss and --train}}
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}
