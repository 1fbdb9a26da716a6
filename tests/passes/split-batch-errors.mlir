// Rows that see each other: an error for a part of the batch, a warning for the whole, both at the operation and with what it does.
// RUN: mtc-opt %s --split-input-file --mt-append-loss=loss=output:loss --mt-split-batch=batch=8 --verify-diagnostics
// RUN: mtc-opt %s --split-input-file --mt-append-loss=loss=output:loss --mt-split-batch 2>%t.said | FileCheck %s
// RUN: FileCheck %s --check-prefix=SAID < %t.said

// SAID: warning: rows of the batch see each other: matmul combines rows with one another; the micro-batch is the whole batch, and evaluation leaves out rows that do not fill one
// CHECK: module attributes {nn.every_row, nn.loss = "output:loss", nn.mixed = "matmul combines rows with one another"}
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<f32> {nn.output = "loss"}) {
  %l = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  // expected-error @+1 {{rows of the batch see each other: matmul combines rows with one another, so that micro-batches do not add up to the loss of the batch; compile with --micro-batch 8 (the whole batch), or a smaller --batch}}
  %pairs = nn.matmul %l, %l {transposeRhs = true} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  %loss = nn.reduce %pairs {kind = "mean", axes = array<i64: 0, 1>, keepDims = false} : (tensor<2x2xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Statistics of the batch.
// SAID: warning: rows of the batch see each other: sub combines rows with a sum over rows;
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<f32> {nn.output = "loss"}) {
  %l = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %m = nn.reduce %l {kind = "mean", axes = array<i64: 0>, keepDims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  // expected-error @+1 {{rows of the batch see each other: sub combines rows with a sum over rows}}
  %c = nn.sub %l, %m : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %loss = nn.reduce %c {kind = "mean", axes = array<i64: 0, 1>, keepDims = false} : (tensor<2x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The root of a mean.
// SAID: warning: rows of the batch see each other: sqrt is not linear in a sum over rows;
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<f32> {nn.output = "loss"}) {
  %l = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %q = nn.mul %l, %l : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = nn.reduce %q {kind = "mean", axes = array<i64: 0, 1>, keepDims = false} : (tensor<2x4xf32>) -> tensor<f32>
  // expected-error @+1 {{rows of the batch see each other: sqrt is not linear in a sum over rows}}
  %loss = nn.sqrt %m : (tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}
