// Rows that see each other: an error for a part of the batch, a warning for the whole, both at the operation and with what it does.
// RUN: mtc-opt %s --split-input-file --mt-append-loss=loss=output:loss --mt-split-batch=micro-batch=1 --verify-diagnostics
// RUN: mtc-opt %s --split-input-file --mt-append-loss=loss=output:loss --mt-split-batch 2>%t.said | FileCheck %s
// RUN: FileCheck %s --check-prefix=SAID < %t.said
// RUN: not mtc-opt %s --split-input-file --mt-append-loss=loss=output:loss "--mt-split-batch=batch=8 micro-batch=2" 2>&1 | FileCheck %s --check-prefix=FIXED

// SAID: warning: rows of the batch see each other: matmul combines rows with one another; the micro-batch is the whole batch, and evaluation leaves out rows that do not fill one; if the batch is another dimension of the inputs, give --batch-dim
// CHECK: module attributes {nn.every_row, nn.loss = "output:loss", nn.mixed = "matmul combines rows with one another"}
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<f32> {nn.output = "loss"}) {
  %l = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  // expected-error @+1 {{rows of the batch see each other: matmul combines rows with one another, so that micro-batches do not add up to the loss of the batch; compile with --micro-batch 2 (the whole batch), or a smaller --batch}}
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

// -----

// A mean of whole numbers is cut off: those of parts are not parts of it.
// SAID: warning: rows of the batch see each other: reduce takes an extreme, a product or a rounded mean over rows;
func.func @main(%x: tensor<2xi64> {nn.input = "x"}, %w: tensor<f32> {nn.parameter = "w", nn.trainable}) -> (tensor<f32> {nn.output = "loss"}) {
  // expected-error @+1 {{rows of the batch see each other: reduce takes an extreme, a product or a rounded mean over rows}}
  %m = nn.reduce %x {kind = "mean", axes = array<i64: 0>, keepDims = false} : (tensor<2xi64>) -> tensor<i64>
  %f = nn.cast %m : (tensor<i64>) -> tensor<f32>
  %loss = nn.mul %f, %w : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Entries that are looked up row by row of a table that differs from row to row.
// SAID: warning: rows of the batch see each other: gather_nd treats rows by their place in the batch;
func.func @main(%x: tensor<2x1xi64> {nn.input = "x"}, %w: tensor<2x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<f32> {nn.output = "loss"}) {
  // expected-error @+1 {{rows of the batch see each other: gather_nd treats rows by their place in the batch}}
  %g = nn.gather_nd %w, %x {batchDims = 1 : i64} : (tensor<2x4xf32>, tensor<2x1xi64>) -> tensor<2xf32>
  %loss = nn.reduce %g {kind = "sum", axes = array<i64: 0>, keepDims = false} : (tensor<2xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A divisor that a frozen network computes is none that comes before the layers.
// SAID: warning: rows of the batch see each other: div is not linear in a sum over rows;
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}, %f: tensor<4x4xf32> {nn.parameter = "f"}) -> (tensor<f32> {nn.output = "loss"}) {
  %a = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %b = nn.matmul %x, %f : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s = nn.reduce %a {kind = "sum", axes = array<i64: 0, 1>, keepDims = false} : (tensor<2x4xf32>) -> tensor<f32>
  %n = nn.reduce %b {kind = "sum", axes = array<i64: 0, 1>, keepDims = false} : (tensor<2x4xf32>) -> tensor<f32>
  // expected-error @+1 {{rows of the batch see each other: div is not linear in a sum over rows}}
  %loss = nn.div %s, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A graph that fixes its batch, with a loss of its own.
// FIXED: error: the graph fixes its batch, 2 rows, and its loss may depend on that number, so that micro-batches need not add up to the loss of 8; give --batch 2, or export the model with a dynamic batch
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<f32> {nn.output = "loss"}) {
  %a = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %loss = nn.reduce %a {kind = "sum", axes = array<i64: 0, 1>, keepDims = false} : (tensor<2x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
