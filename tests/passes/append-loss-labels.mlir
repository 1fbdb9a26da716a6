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
  %t = nn.transpose %x {nn.moves_batch, permutation = array<i64: 1, 2, 0>} : (tensor<2x4x3xf32>) -> tensor<4x3x2xf32>
  %s = nn.softmax %t : (tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %b = nn.transpose %s {permutation = array<i64: 0, 2, 1>} : (tensor<4x3x2xf32>) -> tensor<4x2x3xf32>
  %l = nn.matmul %b, %w : (tensor<4x2x3xf32>, tensor<3x4xf32>) -> tensor<4x2x4xf32>
  return %l : tensor<4x2x4xf32>
}

// -----

// A model that turns its inputs by itself, and lets rows see each other: dimension 0 has them, as it did. Of two dimensions in
// one a warning says which is taken for the outer one.
// CHECK: func.func @main(%arg0: tensor<2x4x3xf32> {nn.input = "x"}, %{{[^ ]*}}: tensor<3x4xf32> {{{.*}}}, %[[L:[^ ]*]]: tensor<2x4xi64> {nn.labels, nn.vocabulary = 4 : i64}
// CHECK: nn.reshape %[[L]] : (tensor<2x4xi64>) -> tensor<8xi64>
// expected-warning @+1 {{rows of the batch see each other, and cannot be followed to the output 'tensor<8x4xf32>': its dimension 0 is taken for 2 rows of 4, as labels are}}
func.func @main(%x: tensor<2x4x3xf32> {nn.input = "x"}, %w: tensor<3x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<8x4xf32> {nn.output = "logits"}) {
  %t = nn.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x4x3xf32>) -> tensor<4x3x2xf32>
  %s = nn.softmax %t : (tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %b = nn.transpose %s {permutation = array<i64: 2, 0, 1>} : (tensor<4x3x2xf32>) -> tensor<2x4x3xf32>
  %f = nn.reshape %b : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  %l = nn.matmul %f, %w : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
  return %l : tensor<8x4xf32>
}

// -----

// Rows are followed to the output that is trained, whatever another one does with them.
// CHECK: func.func @main(%arg0: tensor<2x4xi64> {{{.*}}}, %{{[^ ]*}}: tensor<9x6xf32> {{{.*}}}, %[[L:[^ ]*]]: tensor<2x4xi64> {nn.labels, nn.vocabulary = 9 : i64}
// CHECK: nn.transpose %[[L]] {permutation = array<i64: 1, 0>} : (tensor<2x4xi64>) -> tensor<4x2xi64>
func.func @main(%ids: tensor<2x4xi64> {nn.input = "input_ids"}, %t: tensor<9x6xf32> {nn.parameter = "wte", nn.trainable})
    -> (tensor<8x9xf32> {nn.output = "logits"}, tensor<2x2xf32> {nn.output = "similar"}) {
  %e = nn.embedding %t, %ids : (tensor<9x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %m = nn.reduce %e {kind = "mean", axes = array<i64: 1>, keepDims = false} : (tensor<2x4x6xf32>) -> tensor<2x6xf32>
  // expected-remark @+1 {{this output of the model takes no part in the loss}}
  %s = nn.matmul %m, %m {transposeRhs = true} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x2xf32>
  %i = nn.transpose %e {permutation = array<i64: 1, 0, 2>} : (tensor<2x4x6xf32>) -> tensor<4x2x6xf32>
  %r = nn.reshape %i : (tensor<4x2x6xf32>) -> tensor<8x6xf32>
  %l = nn.matmul %r, %t {transposeRhs = true} : (tensor<8x6xf32>, tensor<9x6xf32>) -> tensor<8x9xf32>
  return %l, %s : tensor<8x9xf32>, tensor<2x2xf32>
}

// -----

// expected-error @+1 {{--loss cross-entropy: the batch is dimension 1 of the output 'tensor<4x2xf32>', where classes are: labels could not be given row by row}}
func.func @main(%x: tensor<2x3xf32> {nn.input = "x"}, %w: tensor<3x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<4x2xf32> {nn.output = "logits"}) {
  %l = nn.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %t = nn.transpose %l {permutation = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %t : tensor<4x2xf32>
}

// -----

// One row may lie anywhere.
// CHECK: func.func @main(%arg0: tensor<1x4xi64> {{{.*}}}, %{{[^ ]*}}: tensor<9x6xf32> {{{.*}}}, %[[L:[^ ]*]]: tensor<1x4xi64> {nn.labels, nn.vocabulary = 9 : i64}
func.func @main(%ids: tensor<1x4xi64> {nn.input = "input_ids"}, %t: tensor<9x6xf32> {nn.parameter = "wte", nn.trainable}) -> (tensor<4x1x9xf32> {nn.output = "logits"}) {
  %i = nn.transpose %ids {nn.moves_batch, permutation = array<i64: 1, 0>} : (tensor<1x4xi64>) -> tensor<4x1xi64>
  %h = nn.embedding %t, %i : (tensor<9x6xf32>, tensor<4x1xi64>) -> tensor<4x1x6xf32>
  %l = nn.matmul %h, %t {transposeRhs = true} : (tensor<4x1x6xf32>, tensor<9x6xf32>) -> tensor<4x1x9xf32>
  return %l : tensor<4x1x9xf32>
}
