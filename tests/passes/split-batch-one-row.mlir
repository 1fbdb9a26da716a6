// RUN: mtc-opt %s --split-input-file --mt-split-batch="batch=4 micro-batch=1" --verify-diagnostics | FileCheck %s
// A graph of one row mixes none, however its dimensions of one are turned about: of a loss that was added to it a micro-batch is a
// row. Its own loss may depend on how many rows there are; in a graph of four the rows see each other.
// Its own means are none over rows: evaluations fill batches up with rows that do not count.
// CHECK: module attributes {nn.loss = "causal-lm"} {
module attributes {nn.loss = "causal-lm"} {
  func.func @main(%x: tensor<1x6xi64> {nn.input = "ids", nn.vocabulary = 8 : i64}, %t: tensor<8x8xf32> {nn.parameter = "t", nn.trainable}) -> tensor<f32> {
    %e = nn.embedding %t, %x : (tensor<8x8xf32>, tensor<1x6xi64>) -> tensor<1x6x8xf32>
    %k = nn.reshape %e : (tensor<1x6x8xf32>) -> tensor<6x8xf32>
    // expected-remark @+1 {{the graph has one row, and each is computed alone, as by a loop over rows; of several, matmul combines rows with one another, or so it looks: where they are to see each other, export the model with a dynamic batch}}
    %s = nn.matmul %e, %k {transposeRhs = true} : (tensor<1x6x8xf32>, tensor<6x8xf32>) -> tensor<1x6x6xf32>
    %p = nn.softmax %s : (tensor<1x6x6xf32>) -> tensor<1x6x6xf32>
    %y = nn.matmul %p, %k : (tensor<1x6x6xf32>, tensor<6x8xf32>) -> tensor<1x6x8xf32>
    %l = nn.reduce %y {kind = "mean", axes = array<i64: 0, 1, 2>, keepDims = false} : (tensor<1x6x8xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

module attributes {nn.loss = "output:loss"} {
  func.func @main(%x: tensor<1x6xi64> {nn.input = "ids", nn.vocabulary = 8 : i64}, %t: tensor<8x8xf32> {nn.parameter = "t", nn.trainable}) -> tensor<f32> {
    %e = nn.embedding %t, %x : (tensor<8x8xf32>, tensor<1x6xi64>) -> tensor<1x6x8xf32>
    %k = nn.reshape %e : (tensor<1x6x8xf32>) -> tensor<6x8xf32>
    // expected-error @+1 {{rows of the batch see each other: matmul combines rows with one another, so that micro-batches do not add up to the loss of the batch; the graph fixes its batch: compile with --batch 1, or export the model with a dynamic batch}}
    %s = nn.matmul %e, %k {transposeRhs = true} : (tensor<1x6x8xf32>, tensor<6x8xf32>) -> tensor<1x6x6xf32>
    %p = nn.softmax %s : (tensor<1x6x6xf32>) -> tensor<1x6x6xf32>
    %y = nn.matmul %p, %k : (tensor<1x6x6xf32>, tensor<6x8xf32>) -> tensor<1x6x8xf32>
    %l = nn.reduce %y {kind = "mean", axes = array<i64: 0, 1, 2>, keepDims = false} : (tensor<1x6x8xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

module attributes {nn.loss = "causal-lm"} {
  func.func @main(%x: tensor<4x6xi64> {nn.input = "ids", nn.vocabulary = 8 : i64}, %t: tensor<8x8xf32> {nn.parameter = "t", nn.trainable}) -> tensor<f32> {
    %e = nn.embedding %t, %x : (tensor<8x8xf32>, tensor<4x6xi64>) -> tensor<4x6x8xf32>
    %k = nn.reshape %e : (tensor<4x6x8xf32>) -> tensor<24x8xf32>
    // expected-error @+1 {{so that micro-batches do not add up to the loss of the batch; compile with --micro-batch 4 (the whole batch), or a smaller --batch}}
    %s = nn.matmul %e, %k {transposeRhs = true} : (tensor<4x6x8xf32>, tensor<24x8xf32>) -> tensor<4x6x24xf32>
    %p = nn.softmax %s : (tensor<4x6x24xf32>) -> tensor<4x6x24xf32>
    %y = nn.matmul %p, %k : (tensor<4x6x24xf32>, tensor<24x8xf32>) -> tensor<4x6x8xf32>
    %l = nn.reduce %y {kind = "mean", axes = array<i64: 0, 1, 2>, keepDims = false} : (tensor<4x6x8xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
