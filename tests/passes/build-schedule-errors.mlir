// RUN: mtc-opt %s --mt-build-schedule --verify-diagnostics
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-build-schedule=batch=3 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-differentiate --mt-build-schedule=optimizer=adam 2>&1 | FileCheck %s --check-prefix=OPTIMIZER
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-differentiate --mt-build-schedule=saved-activations=most 2>&1 | FileCheck %s --check-prefix=RUNG
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-build-schedule=target=abacus 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-differentiate --mt-build-schedule=prefetch-distance=-1 2>&1 | FileCheck %s --check-prefix=DISTANCE
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-differentiate --mt-build-schedule=residency=all 2>&1 | FileCheck %s --check-prefix=RESIDENCY
// RUN: not mtc-opt %S/Inputs/two-layers.mlir --mt-differentiate --mt-build-schedule=summed=3 2>&1 | FileCheck %s --check-prefix=SUMMED
// RUN: mtc-opt %S/Inputs/two-layers.mlir --mt-differentiate -o %t.layers
// RUN: sed -E 's/^module \{/module attributes {mt.limits = {}} {/; s/nn.backward = "block"/&, mt.summed = 6 : i64/' %t.layers | not mtc-opt --mt-build-schedule 2>&1 | FileCheck %s --check-prefix=SUMMEDCALL
// RUN: sed -E 's/^module \{/module attributes {mt.limits = {}} {/; s/nn.backward = "block"/&, mt.parts = 9 : i64/' %t.layers | not mtc-opt --mt-build-schedule 2>&1 | FileCheck %s --check-prefix=PARTS
// RUN: sed -E 's/^module \{/module attributes {mt.limits = {}} {/; s/nn.backward = "block"/&, mt.saved = "some"/' %t.layers | not mtc-opt --mt-build-schedule 2>&1 | FileCheck %s --check-prefix=SAVED
// RUN: sed -E 's/^module \{/module attributes {mt.limits = {}} {/; s/nn.backward = "block"/&, mt.parked = array<i64: 1>/' %t.layers | not mtc-opt --mt-build-schedule 2>&1 | FileCheck %s --check-prefix=PARKED
// RESIDENCY: residency 'all': must be none, weights or state
// SUMMED: summed 3: must be a power of two
// SUMMEDCALL: has the gradients of 6 micro-batches added up on the device: it must be a power of two
// PARTS: is cut in 9 parts: there may be 1 to 8
// SAVED: saved activations 'some': the layer has no such templates
// PARKED: parks result 1 of 1
// BATCH: error: {{.*}}
// OPTIMIZER: optimizer 'adam': must be adamw, sgd or lion
// RUNG: saved activations 'most': must be input, attention or all
// TARGET: abacus
// DISTANCE: prefetch distance -1: must not be negative
// expected-error @+1 {{the last layer does not compute a loss that a trainable parameter reaches; check --loss and --train}}
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}
