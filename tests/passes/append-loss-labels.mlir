// An input of the model called labels, beside the labels of the loss: gone where only another loss used it, the same
// where the model uses it too, refused where it is another thing.
// RUN: mtc-opt %s --split-input-file --mt-append-loss=loss=cross-entropy --verify-diagnostics | FileCheck %s

// CHECK: func.func @main(%arg0: tensor<2x4xf32> {nn.input = "x"}, %arg1: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}, %arg2: tensor<2xi64> {nn.labels, nn.vocabulary = 4 : i64}, %arg3: tensor<16xf64>
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %y: tensor<2xi64> {nn.input = "labels"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable})
    -> (tensor<2x4xf32> {nn.output = "logits"}, tensor<2xf32> {nn.output = "loss"}) {
  %l = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  // expected-remark @+1 {{this output of the model takes no part in the loss}}
  %c = nn.cast %y : (tensor<2xi64>) -> tensor<2xf32>
  return %l, %c : tensor<2x4xf32>, tensor<2xf32>
}

// -----

// CHECK: func.func @main(%arg0: tensor<2xi64> {nn.ignored = -100 : i64, nn.input = "labels", nn.labels, nn.vocabulary = 4 : i64}, %arg1: tensor<4x4xf32>
// CHECK: nn.embedding %arg1, %arg0
// CHECK: nn.cross_entropy %{{.*}}, %arg0
func.func @main(%y: tensor<2xi64> {nn.input = "labels"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<2x4xf32> {nn.output = "logits"}) {
  %l = nn.embedding %w, %y : (tensor<4x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %l : tensor<2x4xf32>
}

// -----

// expected-error @+1 {{the model has an input 'labels' of type 'tensor<2x4xf32>', which it uses besides its loss, and --loss cross-entropy has labels of type 'tensor<2xi64>': data could name only one of them; rename the model's input, or train on its own loss with --loss output:NAME}}
func.func @main(%y: tensor<2x4xf32> {nn.input = "labels"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<2x4xf32> {nn.output = "logits"}) {
  %l = nn.matmul %y, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %l : tensor<2x4xf32>
}

// -----

// Logits that have sequence and batch as one dimension, sequence first: labels have rows first.
// CHECK: func.func @main(%arg0: tensor<2x4xi64> {nn.input = "input_ids"}, %{{[^ ]*}}: tensor<9x6xf32> {{{.*}}}, %[[L:[^ ]*]]: tensor<2x4xi64> {nn.labels, nn.vocabulary = 9 : i64}
// CHECK: %[[T:.*]] = nn.transpose %[[L]] {permutation = array<i64: 1, 0>} : (tensor<2x4xi64>) -> tensor<4x2xi64>
// CHECK: nn.reshape %[[T]] : (tensor<4x2xi64>) -> tensor<8xi64>
func.func @main(%ids: tensor<2x4xi64> {nn.input = "input_ids"}, %t: tensor<9x6xf32> {nn.parameter = "wte", nn.trainable}) -> (tensor<8x9xf32> {nn.output = "logits"}) {
  %i = nn.transpose %ids {permutation = array<i64: 1, 0>} : (tensor<2x4xi64>) -> tensor<4x2xi64>
  %h = nn.embedding %t, %i : (tensor<9x6xf32>, tensor<4x2xi64>) -> tensor<4x2x6xf32>
  %r = nn.reshape %h : (tensor<4x2x6xf32>) -> tensor<8x6xf32>
  %l = nn.matmul %r, %t {transposeRhs = true} : (tensor<8x6xf32>, tensor<9x6xf32>) -> tensor<8x9xf32>
  return %l : tensor<8x9xf32>
}

// -----

// expected-error @+1 {{--loss cross-entropy: the batch, which is not dimension 0 of the inputs, cannot be followed to the output: labels could not be given row by row; choose another output with --loss output:NAME, or export the loss}}
func.func @main(%x: tensor<2x4x3xf32> {nn.input = "x"}, %w: tensor<3x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<4x2x4xf32> {nn.output = "logits"}) {
  %t = nn.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x4x3xf32>) -> tensor<4x3x2xf32>
  %s = nn.softmax %t : (tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %b = nn.transpose %s {permutation = array<i64: 0, 2, 1>} : (tensor<4x3x2xf32>) -> tensor<4x2x3xf32>
  %l = nn.matmul %b, %w : (tensor<4x2x3xf32>, tensor<3x4xf32>) -> tensor<4x2x4xf32>
  return %l : tensor<4x2x4xf32>
}
