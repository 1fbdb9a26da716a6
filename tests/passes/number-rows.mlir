// Random numbers of a batch get the numbers of its rows where their elements belong to rows; micro-batches have theirs.
// RUN: mtc-opt %s --split-input-file --mt-number-rows 2>%t.said | FileCheck %s
// RUN: FileCheck %s --check-prefix=SAID < %t.said
// RUN: mtc-opt %s --split-input-file --mt-number-rows --mt-split-batch=micro-batch=2 2>/dev/null | FileCheck %s --check-prefix=PART

// SAID: remark: dropout in training form: 1 of ratio 0.1, 2 of ratio 0.5; on in training, where mtrun's --seed decides what is dropped, and off in evaluations
// SAID-NOT: remark

// Rows first; rows within, four parts before them; the same for all rows: without numbers.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[ROWS:arg[0-9]+]]: tensor<8xi64> {nn.rows})
// CHECK: nn.dropout %{{.*}}, %[[ROWS]], %{{.*}}, %{{.*}} {ratio = 1.000000e-01 : f64} : (tensor<8x4xf32>, tensor<8xi64>, tensor<16xf64>, tensor<i64>) -> tensor<8x4xf32>
// CHECK: nn.dropout %{{.*}}, %[[ROWS]], %{{.*}}, %{{.*}} {outer = 4 : i64, ratio = 5.000000e-01 : f64}
// CHECK: nn.dropout %{{.*}}, %{{.*}}, %{{.*}} {ratio = 5.000000e-01 : f64} : (tensor<4xf32>, tensor<16xf64>, tensor<i64>) -> tensor<4xf32>
// PART: %[[ROWS:arg[0-9]+]]: tensor<2xi64> {nn.rows})
// PART: nn.dropout %{{.*}}, %[[ROWS]], {{.*}} -> tensor<2x4xf32>
// PART: nn.dropout %{{.*}}, %[[ROWS]], {{.*}} {outer = 4 : i64, {{.*}} -> tensor<4x2xf32>
// PART: nn.dropout {{.*}} -> tensor<4xf32>
func.func @main(%x: tensor<8x4xf32> {nn.input = "x"}, %w: tensor<4xf32> {nn.parameter = "w", nn.trainable}, %s: tensor<16xf64> {nn.scalars},
                %n: tensor<i64> {nn.parameter = "n", nn.buffer}) -> tensor<f32> {
  %a = nn.dropout %x, %s, %n {ratio = 0.1 : f64} : (tensor<8x4xf32>, tensor<16xf64>, tensor<i64>) -> tensor<8x4xf32>
  %t = nn.transpose %a {permutation = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %b = nn.dropout %t, %s, %n {ratio = 0.5 : f64} : (tensor<4x8xf32>, tensor<16xf64>, tensor<i64>) -> tensor<4x8xf32>
  %v = nn.dropout %w, %s, %n {ratio = 0.5 : f64} : (tensor<4xf32>, tensor<16xf64>, tensor<i64>) -> tensor<4xf32>
  %c = nn.reshape %v : (tensor<4xf32>) -> tensor<4x1xf32>
  %m = nn.mul %b, %c : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %l = nn.reduce %m {kind = "sum", axes = array<i64: 0, 1>, keepDims = false} : (tensor<4x8xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Numbers with the rows of another value, which they do not need; and numbers of no rows.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[ROWS:arg[0-9]+]]: tensor<8xi64> {nn.rows})
// CHECK: nn.random %[[ROWS]], %{{.*}}, %{{.*}} {kind = "normal"} : (tensor<8xi64>, tensor<16xf64>, tensor<i64>) -> tensor<8x4xf32>
// CHECK: nn.random %{{.*}}, %{{.*}} {kind = "uniform"} : (tensor<16xf64>, tensor<i64>) -> tensor<4xf32>
// PART: nn.random {{.*}} -> tensor<2x4xf32>
// PART: nn.random {{.*}} -> tensor<4xf32>
func.func @main(%x: tensor<8x4xf32> {nn.input = "x"}, %w: tensor<4xf32> {nn.parameter = "w", nn.trainable}, %s: tensor<16xf64> {nn.scalars},
                %n: tensor<i64> {nn.parameter = "n", nn.buffer}) -> tensor<f32> {
  %e = nn.random %x, %s, %n {kind = "normal"} : (tensor<8x4xf32>, tensor<16xf64>, tensor<i64>) -> tensor<8x4xf32>
  %u = nn.random %w, %s, %n {kind = "uniform"} : (tensor<4xf32>, tensor<16xf64>, tensor<i64>) -> tensor<4xf32>
  %v = nn.mul %w, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a = nn.add %x, %e : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %m = nn.mul %a, %v : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %l = nn.reduce %m {kind = "sum", axes = array<i64: 0, 1>, keepDims = false} : (tensor<8x4xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
