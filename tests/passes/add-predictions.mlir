// A language model's last layer predicts, too: logits of the last token of each row whose label counts, by the head's product
// for these alone, with its scale and cap. Other losses have none.
// RUN: mtc-opt %s --split-input-file --mt-add-predictions | FileCheck %s

// CHECK-LABEL: func.func private @head(
// CHECK-SAME: -> tensor<f32>
// CHECK-LABEL: func.func private @head.predict(
// CHECK-SAME: %[[H:[a-z0-9]+]]: tensor<6x8xf32>, %[[W:[a-z0-9]+]]: tensor<5x8xf32>, %[[L:[a-z0-9]+]]: tensor<2x3xi64>
// CHECK-SAME: -> (tensor<f32>, tensor<2x5xf32>)
// CHECK: %[[R:.*]] = nn.reshape %[[L]]
// CHECK: %[[T:.*]] = nn.reshape %[[R]] : (tensor<6xi64>) -> tensor<2x3xi64>
// CHECK: %[[C:.*]] = nn.compare %[[T]], %{{.*}} {predicate = "ne"}
// CHECK: %[[P:.*]] = nn.select %[[C]], %{{.*}}, %{{.*}}
// CHECK: %[[LAST:.*]] = nn.reduce %[[P]] {axes = array<i64: 1>, keepDims = false, kind = "max"} : (tensor<2x3xi64>) -> tensor<2xi64>
// CHECK: %[[FIRST:.*]] = nn.iota {dimension = 0 : i64, step = 3.000000e+00 : f64}
// CHECK: %[[N:.*]] = nn.add %[[LAST]], %[[FIRST]]
// CHECK: %[[ROWS:.*]] = nn.embedding %[[H]], %[[N]] : (tensor<6x8xf32>, tensor<2xi64>) -> tensor<2x8xf32>
// CHECK: %[[X:.*]] = nn.matmul %[[ROWS]], %[[W]] {transposeRhs = true} : (tensor<2x8xf32>, tensor<5x8xf32>) -> tensor<2x5xf32>
// CHECK: %[[S:.*]] = nn.mul %[[X]], %{{.*}}
// CHECK: %[[D:.*]] = nn.mul %[[S]], %{{.*}}
// CHECK: %[[TANH:.*]] = nn.tanh %[[D]]
// CHECK: %[[LOGITS:.*]] = nn.mul %[[TANH]], %{{.*}}
// CHECK: %[[LOSS:.*]] = nn.linear_cross_entropy %[[H]], %[[W]], %[[R]]
// CHECK: return %[[LOSS]], %[[LOGITS]]
module attributes {mt.settings = {sequence = 3 : i64}, nn.loss = "causal-lm"} {
  func.func private @head(%h: tensor<6x8xf32>, %w: tensor<5x8xf32>, %l: tensor<2x3xi64>, %s: tensor<16xf64>) -> tensor<f32> {
    %r = nn.reshape %l : (tensor<2x3xi64>) -> tensor<6xi64>
    %loss = nn.linear_cross_entropy %h, %w, %r, %s {logitScale = 0.5, softCap = 30.0} : (tensor<6x8xf32>, tensor<5x8xf32>, tensor<6xi64>, tensor<16xf64>) -> tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @main(%h: tensor<6x8xf32> {nn.input = "h"}, %w: tensor<5x8xf32> {nn.parameter = "w", nn.trainable}, %l: tensor<2x3xi64> {nn.labels},
                  %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
    %loss = func.call @head(%h, %w, %l, %s) : (tensor<6x8xf32>, tensor<5x8xf32>, tensor<2x3xi64>, tensor<16xf64>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// CHECK-LABEL: func.func private @classes(
// CHECK-NOT: predict
module attributes {mt.settings = {sequence = 3 : i64}, nn.loss = "cross-entropy"} {
  func.func private @classes(%x: tensor<6x5xf32>, %l: tensor<6xi64>, %s: tensor<16xf64>) -> tensor<f32> {
    %loss = nn.cross_entropy %x, %l, %s : (tensor<6x5xf32>, tensor<6xi64>, tensor<16xf64>) -> tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @main(%x: tensor<6x5xf32> {nn.input = "x"}, %l: tensor<6xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
    %loss = func.call @classes(%x, %l, %s) : (tensor<6x5xf32>, tensor<6xi64>, tensor<16xf64>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
