// What depends on the distance of query and key alone, sinks, and masks looked up in a flattened one: nothing is left that
// grows with the square of the sequence.
// RUN: mtc-opt %s --split-input-file --mt-recover-ops --canonicalize --cse | FileCheck %s

// Relative positions of T5: a table looked up at a bucket of the distance, beside a causal mask.
// CHECK-LABEL: func.func @table
// CHECK-NOT: 8192x8192
// CHECK: nn.iota {dimension = 1 : i64, start = 8.191000e+03 : f64, step = -1.000000e+00 : f64} : () -> tensor<1x16383xi64>
// CHECK: nn.attention %arg0, %arg1, %arg2, %{{.*}} {minDistance = 0 : i64, {{.*}}tensor<1x4x1x16383xf32>)
func.func @table(%q: tensor<2x8192x4x4xf32>, %k: tensor<2x8192x4x4xf32>, %v: tensor<2x8192x4x4xf32>, %table: tensor<9x4xf32>) -> tensor<2x8192x4x4xf32> {
  %zero = nn.constant dense<0> : tensor<i64>
  %eight = nn.constant dense<8> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8192xi64>
  %row = nn.reshape %i : (tensor<8192xi64>) -> tensor<8192x1xi64>
  %column = nn.reshape %i : (tensor<8192xi64>) -> tensor<1x8192xi64>
  %distance = nn.sub %column, %row : (tensor<1x8192xi64>, tensor<8192x1xi64>) -> tensor<8192x8192xi64>
  %back = nn.neg %distance : (tensor<8192x8192xi64>) -> tensor<8192x8192xi64>
  %past = nn.maximum %back, %zero : (tensor<8192x8192xi64>, tensor<i64>) -> tensor<8192x8192xi64>
  %bucket = nn.minimum %past, %eight : (tensor<8192x8192xi64>, tensor<i64>) -> tensor<8192x8192xi64>
  %looked = nn.embedding %table, %bucket : (tensor<9x4xf32>, tensor<8192x8192xi64>) -> tensor<8192x8192x4xf32>
  %turned = nn.transpose %looked {permutation = array<i64: 2, 0, 1>} : (tensor<8192x8192x4xf32>) -> tensor<4x8192x8192xf32>
  %bias = nn.reshape %turned : (tensor<4x8192x8192xf32>) -> tensor<1x4x8192x8192xf32>
  %none = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %seen = nn.compare %column, %row {predicate = "le"} : (tensor<1x8192xi64>, tensor<8192x1xi64>) -> tensor<8192x8192xi1>
  %mask = nn.select %seen, %none, %low : (tensor<8192x8192xi1>, tensor<f32>, tensor<f32>) -> tensor<8192x8192xf32>
  %both = nn.add %bias, %mask : (tensor<1x4x8192x8192xf32>, tensor<8192x8192xf32>) -> tensor<1x4x8192x8192xf32>
  %0, %l = nn.attention %q, %k, %v, %both {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<2x8192x4x4xf32>, tensor<2x8192x4x4xf32>, tensor<2x8192x4x4xf32>, tensor<1x4x8192x8192xf32>) -> (tensor<2x8192x4x4xf32>, tensor<2x4x8192xf32>)
  return %0 : tensor<2x8192x4x4xf32>
}

// -----

// Slopes of ALiBi in both directions, over fewer queries than keys: slope * -|q - k|.
// CHECK-LABEL: func.func @slopes
// CHECK-NOT: 100x8192
// CHECK: nn.attention %arg0, %arg1, %arg2, %{{.*}} {{.*}}tensor<1x4x1x8291xf32>)
func.func @slopes(%q: tensor<2x100x4x4xf32>, %k: tensor<2x8192x4x4xf32>, %v: tensor<2x8192x4x4xf32>, %slopes: tensor<4x1x1xf32>) -> tensor<2x100x4x4xf32> {
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<100xi64>
  %j = nn.iota {dimension = 0 : i64} : () -> tensor<8192xi64>
  %row = nn.reshape %i : (tensor<100xi64>) -> tensor<100x1xi64>
  %distance = nn.sub %row, %j : (tensor<100x1xi64>, tensor<8192xi64>) -> tensor<100x8192xi64>
  %far = nn.abs %distance : (tensor<100x8192xi64>) -> tensor<100x8192xi64>
  %near = nn.neg %far : (tensor<100x8192xi64>) -> tensor<100x8192xi64>
  %real = nn.cast %near : (tensor<100x8192xi64>) -> tensor<100x8192xf32>
  %scaled = nn.mul %real, %slopes : (tensor<100x8192xf32>, tensor<4x1x1xf32>) -> tensor<4x100x8192xf32>
  %bias = nn.reshape %scaled : (tensor<4x100x8192xf32>) -> tensor<1x4x100x8192xf32>
  %0, %l = nn.attention %q, %k, %v, %bias {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<2x100x4x4xf32>, tensor<2x8192x4x4xf32>, tensor<2x8192x4x4xf32>, tensor<1x4x100x8192xf32>) -> (tensor<2x100x4x4xf32>, tensor<2x4x100xf32>)
  return %0 : tensor<2x100x4x4xf32>
}

// -----

// A bias that knows positions themselves stays what it is.
// CHECK-LABEL: func.func @positions
// CHECK: nn.attention %arg0, %arg1, %arg2, %{{.*}} {{.*}}tensor<1x1x8x8xf32>)
func.func @positions(%q: tensor<2x8x4x4xf32>, %k: tensor<2x8x4x4xf32>, %v: tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32> {
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xf32>
  %row = nn.reshape %i : (tensor<8xf32>) -> tensor<1x1x8x1xf32>
  %bias = nn.mul %row, %i : (tensor<1x1x8x1xf32>, tensor<8xf32>) -> tensor<1x1x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %bias {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x4x8xf32>)
  return %0 : tensor<2x8x4x4xf32>
}

// -----

// A learned sink beside the scores, whose largest element the exporter took out.
// CHECK-LABEL: func.func @sink
// CHECK-NOT: 8192x8192
// CHECK-NOT: 8192x8193
// CHECK: nn.attention %arg0, %arg1, %arg2, %arg3 {minDistance = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 1>, scale = 5.000000e-01 : f64}
func.func @sink(%q: tensor<2x8192x4x4xf32>, %k: tensor<2x8192x1x4xf32>, %v: tensor<2x8192x1x4xf32>, %sinks: tensor<4xf32>) -> tensor<2x4x8192x4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %none = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8192xi64>
  %row = nn.reshape %i : (tensor<8192xi64>) -> tensor<8192x1xi64>
  %seen = nn.compare %i, %row {predicate = "le"} : (tensor<8192xi64>, tensor<8192x1xi64>) -> tensor<8192x8192xi1>
  %mask = nn.select %seen, %none, %low : (tensor<8192x8192xi1>, tensor<f32>, tensor<f32>) -> tensor<8192x8192xf32>
  %queries = nn.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x8192x4x4xf32>) -> tensor<2x4x8192x4xf32>
  %keys = nn.transpose %k {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x8192x1x4xf32>) -> tensor<2x1x8192x4xf32>
  %values = nn.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x8192x1x4xf32>) -> tensor<2x1x8192x4xf32>
  %repeatedKeys = nn.broadcast %keys : (tensor<2x1x8192x4xf32>) -> tensor<2x4x8192x4xf32>
  %repeatedValues = nn.broadcast %values : (tensor<2x1x8192x4xf32>) -> tensor<2x4x8192x4xf32>
  %product = nn.matmul %queries, %repeatedKeys {transposeRhs = true} : (tensor<2x4x8192x4xf32>, tensor<2x4x8192x4xf32>) -> tensor<2x4x8192x8192xf32>
  %scaled = nn.mul %product, %half : (tensor<2x4x8192x8192xf32>, tensor<f32>) -> tensor<2x4x8192x8192xf32>
  %scores = nn.add %scaled, %mask : (tensor<2x4x8192x8192xf32>, tensor<8192x8192xf32>) -> tensor<2x4x8192x8192xf32>
  %heads = nn.reshape %sinks : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
  %column = nn.broadcast %heads : (tensor<1x4x1x1xf32>) -> tensor<2x4x8192x1xf32>
  %joined = nn.concat %scores, %column {axis = 3 : i64} : (tensor<2x4x8192x8192xf32>, tensor<2x4x8192x1xf32>) -> tensor<2x4x8192x8193xf32>
  %most = nn.reduce %joined {kind = "max", axes = array<i64: 3>, keepDims = true} : (tensor<2x4x8192x8193xf32>) -> tensor<2x4x8192x1xf32>
  %shifted = nn.sub %joined, %most : (tensor<2x4x8192x8193xf32>, tensor<2x4x8192x1xf32>) -> tensor<2x4x8192x8193xf32>
  %all = nn.softmax %shifted : (tensor<2x4x8192x8193xf32>) -> tensor<2x4x8192x8193xf32>
  %probabilities = nn.slice %all {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 4, 8192, 8192>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x8192x8193xf32>) -> tensor<2x4x8192x8192xf32>
  %0 = nn.matmul %probabilities, %repeatedValues : (tensor<2x4x8192x8192xf32>, tensor<2x4x8192x4xf32>) -> tensor<2x4x8192x4xf32>
  return %0 : tensor<2x4x8192x4xf32>
}

// -----

// A number that all scores have and the sink has not is no number that softmax passes over; without a sink it is.
// CHECK-LABEL: func.func @sinkBesideShiftedScores
// CHECK: %[[B:.*]] = nn.{{.*}}tensor<1x1x1x8xf32>
// CHECK: nn.attention %arg0, %arg1, %arg2, %[[B]], %arg3
func.func @sinkBesideShiftedScores(%q: tensor<2x8x4x4xf32>, %k: tensor<2x8x4x4xf32>, %v: tensor<2x8x4x4xf32>, %sinks: tensor<4xf32>) -> tensor<2x4x8x4xf32> {
  %three = nn.constant dense<3.0> : tensor<f32>
  %queries = nn.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x8x4x4xf32>) -> tensor<2x4x8x4xf32>
  %keys = nn.transpose %k {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x8x4x4xf32>) -> tensor<2x4x8x4xf32>
  %values = nn.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x8x4x4xf32>) -> tensor<2x4x8x4xf32>
  %product = nn.matmul %queries, %keys {transposeRhs = true} : (tensor<2x4x8x4xf32>, tensor<2x4x8x4xf32>) -> tensor<2x4x8x8xf32>
  %scores = nn.add %product, %three : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8x8xf32>
  %heads = nn.reshape %sinks : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
  %column = nn.broadcast %heads : (tensor<1x4x1x1xf32>) -> tensor<2x4x8x1xf32>
  %joined = nn.concat %scores, %column {axis = 3 : i64} : (tensor<2x4x8x8xf32>, tensor<2x4x8x1xf32>) -> tensor<2x4x8x9xf32>
  %all = nn.softmax %joined : (tensor<2x4x8x9xf32>) -> tensor<2x4x8x9xf32>
  %probabilities = nn.slice %all {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 4, 8, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x8x9xf32>) -> tensor<2x4x8x8xf32>
  %0 = nn.matmul %probabilities, %values : (tensor<2x4x8x8xf32>, tensor<2x4x8x4xf32>) -> tensor<2x4x8x4xf32>
  return %0 : tensor<2x4x8x4xf32>
}

// -----

// The older exporter looks a mask up in its rows, one after another.
// CHECK-LABEL: func.func @flattened
// CHECK-NOT: nn.gather
// CHECK: nn.attention %arg0, %arg1, %arg2, %arg3 {minDistance = 0 : i64
func.func @flattened(%q: tensor<2x8192x4x4xf32>, %k: tensor<2x8192x4x4xf32>, %v: tensor<2x8192x4x4xf32>, %mask: tensor<2x8192xi1>) -> tensor<2x8192x4x4xf32> {
  %none = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %length = nn.constant dense<8192> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8192xi64>
  %b = nn.iota {dimension = 0 : i64} : () -> tensor<2xi64>
  %batch = nn.reshape %b : (tensor<2xi64>) -> tensor<2x1x1x1xi64>
  %row = nn.reshape %i : (tensor<8192xi64>) -> tensor<1x1x8192x1xi64>
  %column = nn.reshape %i : (tensor<8192xi64>) -> tensor<1x1x1x8192xi64>
  %causal = nn.compare %column, %row {predicate = "le"} : (tensor<1x1x1x8192xi64>, tensor<1x1x8192x1xi64>) -> tensor<1x1x8192x8192xi1>
  %flat = nn.reshape %mask : (tensor<2x8192xi1>) -> tensor<16384x1xi1>
  %begin = nn.mul %batch, %length : (tensor<2x1x1x1xi64>, tensor<i64>) -> tensor<2x1x1x1xi64>
  %place = nn.add %column, %begin : (tensor<1x1x1x8192xi64>, tensor<2x1x1x1xi64>) -> tensor<2x1x1x8192xi64>
  %looked = nn.gather %flat, %place {axis = 0 : i64} : (tensor<16384x1xi1>, tensor<2x1x1x8192xi64>) -> tensor<2x1x1x8192x1xi1>
  %padding = nn.reshape %looked : (tensor<2x1x1x8192x1xi1>) -> tensor<2x1x1x8192xi1>
  %seen = nn.and %causal, %padding : (tensor<1x1x8192x8192xi1>, tensor<2x1x1x8192xi1>) -> tensor<2x1x8192x8192xi1>
  %bias = nn.select %seen, %none, %low : (tensor<2x1x8192x8192xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x8192x8192xf32>
  %0, %l = nn.attention %q, %k, %v, %bias {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<2x8192x4x4xf32>, tensor<2x8192x4x4xf32>, tensor<2x8192x4x4xf32>, tensor<2x1x8192x8192xf32>) -> (tensor<2x8192x4x4xf32>, tensor<2x4x8192xf32>)
  return %0 : tensor<2x8192x4x4xf32>
}

// -----

// A matrix looked up for every row is that row's expert: on either side of the product, stored either way round.
// CHECK-LABEL: func.func @experts
// CHECK-NOT: nn.gather
// CHECK: nn.expert_matmul %{{.*}}, %arg1, %arg2 {transposed = true} : (tensor<64x6xf32>, tensor<32x5x6xf32>, tensor<64xi64>) -> tensor<64x5xf32>
// CHECK: nn.expert_matmul %{{.*}}, %arg1, %arg2 : (tensor<64x5xf32>, tensor<32x5x6xf32>, tensor<64xi64>) -> tensor<64x6xf32>
func.func @experts(%x: tensor<64x6x1xf32>, %w: tensor<32x5x6xf32>, %e: tensor<64xi64>) -> tensor<64x1x6xf32> {
  %0 = nn.gather %w, %e {axis = 0 : i64} : (tensor<32x5x6xf32>, tensor<64xi64>) -> tensor<64x5x6xf32>
  %1 = nn.matmul %0, %x : (tensor<64x5x6xf32>, tensor<64x6x1xf32>) -> tensor<64x5x1xf32>
  %2 = nn.reshape %1 : (tensor<64x5x1xf32>) -> tensor<64x1x5xf32>
  %3 = nn.matmul %2, %0 : (tensor<64x1x5xf32>, tensor<64x5x6xf32>) -> tensor<64x1x6xf32>
  return %3 : tensor<64x1x6xf32>
}
