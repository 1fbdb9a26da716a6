// RUN: mtc-opt %s --mt-recover-ops --canonicalize --split-input-file | FileCheck %s

// A window, or the first keys, all of it causal: future keys are never seen, so it is no predicate.
// CHECK-LABEL: func.func @causal_and_window_or_first
// CHECK: nn.attention
// CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>
func.func @causal_and_window_or_first(%q: tensor<1x8x2x4xf32>, %k: tensor<1x8x2x4xf32>, %v: tensor<1x8x2x4xf32>) -> tensor<1x8x2x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %four = nn.constant dense<4> : tensor<i64>
  %two = nn.constant dense<2> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x8x1xi64>
  %column = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x1x8xi64>
  %causal = nn.compare %column, %row {predicate = "le"} : (tensor<1x1x1x8xi64>, tensor<1x1x8x1xi64>) -> tensor<1x1x8x8xi1>
  %distance = nn.sub %row, %column : (tensor<1x1x8x1xi64>, tensor<1x1x1x8xi64>) -> tensor<1x1x8x8xi64>
  %near = nn.compare %distance, %four {predicate = "lt"} : (tensor<1x1x8x8xi64>, tensor<i64>) -> tensor<1x1x8x8xi1>
  %first = nn.compare %column, %two {predicate = "lt"} : (tensor<1x1x1x8xi64>, tensor<i64>) -> tensor<1x1x1x8xi1>
  %either = nn.or %near, %first : (tensor<1x1x8x8xi1>, tensor<1x1x1x8xi1>) -> tensor<1x1x8x8xi1>
  %seen = nn.and %causal, %either : (tensor<1x1x8x8xi1>, tensor<1x1x8x8xi1>) -> tensor<1x1x8x8xi1>
  %mask = nn.select %seen, %zero, %low : (tensor<1x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  return %0 : tensor<1x8x2x4xf32>
}

// -----

// The same parts joined the other way are one, and so is a window written with a magnitude, in an attention that already
// has a predicate.
// CHECK-LABEL: func.func @causal_and_window_or_else_first
// CHECK: nn.attention %arg0, %arg1, %arg2 {maxDistance = 3 : i64, minDistance = 0 : i64, {{.*}}prefix = 2 : i64
func.func @causal_and_window_or_else_first(%q: tensor<1x8x2x4xf32>, %k: tensor<1x8x2x4xf32>, %v: tensor<1x8x2x4xf32>) -> tensor<1x8x2x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %four = nn.constant dense<4> : tensor<i64>
  %two = nn.constant dense<2> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x8x1xi64>
  %column = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x1x8xi64>
  %causal = nn.compare %column, %row {predicate = "le"} : (tensor<1x1x1x8xi64>, tensor<1x1x8x1xi64>) -> tensor<1x1x8x8xi1>
  %distance = nn.sub %row, %column : (tensor<1x1x8x1xi64>, tensor<1x1x1x8xi64>) -> tensor<1x1x8x8xi64>
  %size = nn.abs %distance : (tensor<1x1x8x8xi64>) -> tensor<1x1x8x8xi64>
  %near = nn.compare %size, %four {predicate = "lt"} : (tensor<1x1x8x8xi64>, tensor<i64>) -> tensor<1x1x8x8xi1>
  %window = nn.and %causal, %near : (tensor<1x1x8x8xi1>, tensor<1x1x8x8xi1>) -> tensor<1x1x8x8xi1>
  %first = nn.compare %column, %two {predicate = "lt"} : (tensor<1x1x1x8xi64>, tensor<i64>) -> tensor<1x1x1x8xi1>
  %seen = nn.or %first, %window : (tensor<1x1x1x8xi1>, tensor<1x1x8x8xi1>) -> tensor<1x1x8x8xi1>
  %mask = nn.select %seen, %zero, %low : (tensor<1x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  return %0 : tensor<1x8x2x4xf32>
}

// -----

// What two masks say is decided together: the second one narrows a window that the first has given a prefix.
// CHECK-LABEL: func.func @order_of_conjuncts
// CHECK: nn.attention
// CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>
func.func @order_of_conjuncts(%q: tensor<1x8x2x4xf32>, %k: tensor<1x8x2x4xf32>, %v: tensor<1x8x2x4xf32>) -> tensor<1x8x2x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %four = nn.constant dense<4> : tensor<i64>
  %two = nn.constant dense<2> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x8x1xi64>
  %column = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x1x8xi64>
  %distance = nn.sub %row, %column : (tensor<1x1x8x1xi64>, tensor<1x1x1x8xi64>) -> tensor<1x1x8x8xi64>
  %near = nn.compare %distance, %four {predicate = "lt"} : (tensor<1x1x8x8xi64>, tensor<i64>) -> tensor<1x1x8x8xi1>
  %causal = nn.compare %column, %row {predicate = "le"} : (tensor<1x1x1x8xi64>, tensor<1x1x8x1xi64>) -> tensor<1x1x8x8xi1>
  %first = nn.compare %column, %two {predicate = "lt"} : (tensor<1x1x1x8xi64>, tensor<i64>) -> tensor<1x1x1x8xi1>
  %prefixed = nn.or %causal, %first : (tensor<1x1x8x8xi1>, tensor<1x1x1x8xi1>) -> tensor<1x1x8x8xi1>
  %seen = nn.and %prefixed, %near : (tensor<1x1x8x8xi1>, tensor<1x1x8x8xi1>) -> tensor<1x1x8x8xi1>
  %mask = nn.select %seen, %zero, %low : (tensor<1x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  return %0 : tensor<1x8x2x4xf32>
}

// -----

// A query that may see no key: the mask is finite, so softmax gives a mean of all values there, and a predicate zeros.
// CHECK-LABEL: func.func @strictly_earlier
// CHECK: nn.attention
// CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>
func.func @strictly_earlier(%q: tensor<1x8x2x4xf32>, %k: tensor<1x8x2x4xf32>, %v: tensor<1x8x2x4xf32>) -> tensor<1x8x2x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x8x1xi64>
  %column = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x1x8xi64>
  %seen = nn.compare %column, %row {predicate = "lt"} : (tensor<1x1x1x8xi64>, tensor<1x1x8x1xi64>) -> tensor<1x1x8x8xi1>
  %mask = nn.select %seen, %zero, %low : (tensor<1x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  return %0 : tensor<1x8x2x4xf32>
}
