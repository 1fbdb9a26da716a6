// What of a model takes no part in the loss is said: outputs that are not computed, parameters that nothing trains.
// RUN: mtc-opt %s --mt-append-loss=loss=cross-entropy --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.tanh
// CHECK: return
// expected-warning @+1 {{no part in the loss, so neither trained nor changed: parameters 'a', 'b', 'c' and 1 more}}
func.func @main(%x: tensor<4x6xf32> {nn.input = "x"}, %w: tensor<6x9xf32> {nn.parameter = "w", nn.trainable},
                %a: tensor<4x6xf32> {nn.parameter = "a", nn.trainable}, %b: tensor<4x6xf32> {nn.parameter = "b", nn.trainable},
                %c: tensor<4x6xf32> {nn.parameter = "c", nn.trainable}, %d: tensor<4x6xf32> {nn.parameter = "d", nn.trainable},
                %frozen: tensor<4x6xf32> {nn.parameter = "frozen"})
    -> (tensor<4x9xf32> {nn.output = "logits"}, tensor<4x6xf32> {nn.output = "pooled"}, tensor<4x6xf32> {nn.output = "x"}) {
  %l = nn.matmul %x, %w : (tensor<4x6xf32>, tensor<6x9xf32>) -> tensor<4x9xf32>
  %0 = nn.mul %a, %b : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = nn.mul %0, %c : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = nn.add %1, %d : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  // expected-remark @+1 {{this output of the model takes no part in the loss and is not computed}}
  %3 = nn.tanh %2 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %l, %3, %x : tensor<4x9xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// expected-warning @+1 {{no part in the loss, so neither trained nor changed: parameter 'a'}}
func.func @main(%x: tensor<4x6xf32> {nn.input = "x"}, %w: tensor<6x9xf32> {nn.parameter = "w", nn.trainable},
                %a: tensor<4x6xf32> {nn.parameter = "a", nn.trainable}) -> (tensor<4x9xf32> {nn.output = "logits"}) {
  %l = nn.matmul %x, %w : (tensor<4x6xf32>, tensor<6x9xf32>) -> tensor<4x9xf32>
  return %l : tensor<4x9xf32>
}
