// Parts of a loss that add up to that of a batch of eight, from micro-batches of two; and what cannot be split.
// RUN: mtc-opt %s --split-input-file --mt-append-loss=loss=output:loss --mt-split-batch=micro-batch=2 | FileCheck %s
// RUN: mtc-opt %s --split-input-file --mt-append-loss=loss=output:loss --mt-split-batch | FileCheck %s --check-prefix=WHOLE

// The mean over labels that count: the count is that of the step. The batch itself needs no change.
// CHECK: module attributes {nn.loss = "output:loss"} {
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<2x3xi64> {nn.ignored = -100 : i64, nn.input = "target", nn.labels, nn.targets = array<i64: 1, 3>, nn.vocabulary = 4 : i64}
// CHECK: nn.slice {{.*}}sizes = array<i64: 2, 2, 4>
// CHECK: %[[ONES:.*]] = nn.cast
// CHECK-NEXT: %[[COUNT:.*]] = nn.reduce %[[ONES]]
// CHECK: %[[STEP:.*]] = nn.step_sum %[[COUNT]] : (tensor<f32>) -> tensor<f32>
// CHECK: nn.div %{{.*}}, %[[STEP]]
// WHOLE: tensor<8x3xi64>
// WHOLE-NOT: nn.step_sum
func.func @main(%x: tensor<8x3x4xf32> {nn.input = "x"}, %y: tensor<8x3xi64> {nn.input = "target"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable})
    -> (tensor<f32> {nn.output = "loss"}) {
  %ignored = nn.constant dense<-100> : tensor<i64>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %classes = nn.iota {dimension = 2 : i64} : () -> tensor<1x1x4xi64>
  %l = nn.matmul %x, %w : (tensor<8x3x4xf32>, tensor<4x4xf32>) -> tensor<8x3x4xf32>
  %s = nn.slice %l {starts = array<i64: 0, 0, 0>, sizes = array<i64: 8, 2, 4>, strides = array<i64: 1, 1, 1>} : (tensor<8x3x4xf32>) -> tensor<8x2x4xf32>
  %t = nn.slice %y {starts = array<i64: 0, 1>, sizes = array<i64: 8, 2>, strides = array<i64: 1, 1>} : (tensor<8x3xi64>) -> tensor<8x2xi64>
  %p = nn.log_softmax %s : (tensor<8x2x4xf32>) -> tensor<8x2x4xf32>
  %column = nn.reshape %t : (tensor<8x2xi64>) -> tensor<8x2x1xi64>
  %hit = nn.compare %column, %classes {predicate = "eq"} : (tensor<8x2x1xi64>, tensor<1x1x4xi64>) -> tensor<8x2x4xi1>
  %picked = nn.select %hit, %p, %zero : (tensor<8x2x4xi1>, tensor<8x2x4xf32>, tensor<f32>) -> tensor<8x2x4xf32>
  %each = nn.reduce %picked {kind = "sum", axes = array<i64: 2>, keepDims = false} : (tensor<8x2x4xf32>) -> tensor<8x2xf32>
  %valid = nn.compare %t, %ignored {predicate = "ne"} : (tensor<8x2xi64>, tensor<i64>) -> tensor<8x2xi1>
  %left = nn.select %valid, %each, %zero : (tensor<8x2xi1>, tensor<8x2xf32>, tensor<f32>) -> tensor<8x2xf32>
  %sum = nn.reduce %left {kind = "sum", axes = array<i64: 0, 1>, keepDims = false} : (tensor<8x2xf32>) -> tensor<f32>
  %ones = nn.cast %valid : (tensor<8x2xi1>) -> tensor<8x2xf32>
  %count = nn.reduce %ones {kind = "sum", axes = array<i64: 0, 1>, keepDims = false} : (tensor<8x2xf32>) -> tensor<f32>
  %loss = nn.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Ones put among zeros where each row's own two largest are: zeros and ones are those of fewer rows.
// CHECK-LABEL: func.func @main
// CHECK: %[[ZEROS:.*]] = nn.constant dense<0.000000e+00> : tensor<2x4xf32>
// CHECK: nn.scatter_elements %{{.*}} : (tensor<2x4xf32>, tensor<2x2xi64>, tensor<2x2xf32>) -> tensor<2x4xf32>
// WHOLE: tensor<8x4xf32>
func.func @main(%x: tensor<8x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<f32> {nn.output = "loss"}) {
  %zeros = nn.constant dense<0.0> : tensor<8x4xf32>
  %ones = nn.constant dense<1.0> : tensor<8x2xf32>
  %l = nn.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %places = nn.top_k %l {k = 2 : i64} : (tensor<8x4xf32>) -> tensor<8x2xi64>
  %mask = nn.scatter_elements %zeros, %places, %ones {axis = 1 : i64} : (tensor<8x4xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<8x4xf32>
  %kept = nn.mul %l, %mask : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %loss = nn.reduce %kept {kind = "mean", axes = array<i64: 0, 1>, keepDims = false} : (tensor<8x4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A mean over rows is scaled to the share of the batch, and so is a penalty of weights alone; every row counts.
// CHECK: module attributes {nn.every_row, nn.loss = "output:loss", nn.loss_of_rows}
// CHECK-LABEL: func.func @main
// CHECK: %[[MEAN:.*]] = nn.reduce %{{.*}}kind = "mean"{{.*}} -> tensor<f32>
// CHECK: %[[QUARTER:.*]] = nn.constant dense<2.500000e-01> : tensor<f32>
// CHECK: %[[PART:.*]] = nn.mul %[[MEAN]], %[[QUARTER]]
// CHECK: %[[PENALTY:.*]] = nn.reduce %arg1
// CHECK: %[[ONCE:.*]] = nn.mul %[[PENALTY]], %{{.*}}
// CHECK: nn.add %[[PART]], %[[ONCE]]
// WHOLE: nn.every_row
// WHOLE-NOT: nn.mul
// WHOLE: nn.add
func.func @main(%x: tensor<8x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<f32> {nn.output = "loss"}) {
  %l = nn.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %mean = nn.reduce %l {kind = "mean", axes = array<i64: 0, 1>, keepDims = false} : (tensor<8x4xf32>) -> tensor<f32>
  %penalty = nn.reduce %w {kind = "sum", axes = array<i64: 0, 1>, keepDims = false} : (tensor<4x4xf32>) -> tensor<f32>
  %loss = nn.add %mean, %penalty : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// What counts rows by a shape counts those of the batch; what is repeated for every row, as positions are, is repeated for
// those of the part.
// CHECK: module attributes
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<2x3xi64> {nn.input = "x"
// CHECK: %[[POSITIONS:.*]] = nn.broadcast %{{.*}} -> tensor<2x3xi64>
// CHECK: nn.embedding %{{.*}}, %[[POSITIONS]] {{.*}} -> tensor<2x3x4xf32>
// CHECK: %[[ONES:.*]] = nn.constant dense<1.000000e+00> : tensor<2x3x1xf32>
// CHECK: %[[WEIGHTED:.*]] = nn.mul %{{.*}}, %[[ONES]] : (tensor<2x3x4xf32>, tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
// CHECK: %[[SUM:.*]] = nn.reduce %[[WEIGHTED]]
// CHECK: %[[COUNT:.*]] = nn.reduce %{{.*}} : (tensor<8x3x1xf32>) -> tensor<f32>
// CHECK: nn.div %[[SUM]], %[[COUNT]]
func.func @main(%x: tensor<8x3xi64> {nn.input = "x"}, %w: tensor<9x4xf32> {nn.parameter = "w", nn.trainable}) -> (tensor<f32> {nn.output = "loss"}) {
  %words = nn.embedding %w, %x : (tensor<9x4xf32>, tensor<8x3xi64>) -> tensor<8x3x4xf32>
  %range = nn.iota {dimension = 1 : i64} : () -> tensor<1x3xi64>
  %positions = nn.broadcast %range : (tensor<1x3xi64>) -> tensor<8x3xi64>
  %places = nn.embedding %w, %positions : (tensor<9x4xf32>, tensor<8x3xi64>) -> tensor<8x3x4xf32>
  %both = nn.add %words, %places : (tensor<8x3x4xf32>, tensor<8x3x4xf32>) -> tensor<8x3x4xf32>
  %ones = nn.constant dense<1.0> : tensor<8x3x1xf32>
  %weighted = nn.mul %both, %ones : (tensor<8x3x4xf32>, tensor<8x3x1xf32>) -> tensor<8x3x4xf32>
  %sum = nn.reduce %weighted {kind = "sum", axes = array<i64: 0, 1, 2>, keepDims = false} : (tensor<8x3x4xf32>) -> tensor<f32>
  %count = nn.reduce %ones {kind = "sum", axes = array<i64: 0, 1, 2>, keepDims = false} : (tensor<8x3x1xf32>) -> tensor<f32>
  %loss = nn.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}
