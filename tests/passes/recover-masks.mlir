// RUN: mtc-opt %s --mt-recover-ops --canonicalize --split-input-file | FileCheck %s

// A window, or the first keys, all of it causal: future keys are never seen, so it is no predicate.
// CHECK-LABEL: func.func @causal_and_window_or_first
// CHECK: nn.attention
// CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>
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
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
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
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  return %0 : tensor<1x8x2x4xf32>
}

// -----

// What two masks say is decided together: the second one narrows a window that the first has given a prefix.
// CHECK-LABEL: func.func @order_of_conjuncts
// CHECK: nn.attention
// CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>
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
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  return %0 : tensor<1x8x2x4xf32>
}

// -----

// A query that may see no key: the mask is finite, so softmax gives a mean of all values there, and a predicate zeros.
// CHECK-LABEL: func.func @strictly_earlier
// CHECK: nn.attention
// CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>
func.func @strictly_earlier(%q: tensor<1x8x2x4xf32>, %k: tensor<1x8x2x4xf32>, %v: tensor<1x8x2x4xf32>) -> tensor<1x8x2x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x8x1xi64>
  %column = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x1x8xi64>
  %seen = nn.compare %column, %row {predicate = "lt"} : (tensor<1x1x1x8xi64>, tensor<1x1x8x1xi64>) -> tensor<1x1x8x8xi1>
  %mask = nn.select %seen, %zero, %low : (tensor<1x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  return %0 : tensor<1x8x2x4xf32>
}

// -----

// Attention whose probabilities are dropped stays written out. Its mask, looked up for each row of the batch by its number,
// is one of positions, the same for all rows, and what the rows bring.
// CHECK-LABEL: func.func @dropped
// CHECK: %[[SEEN:.*]] = nn.compare %{{.*}}, %{{.*}} {predicate = "ge"} : (tensor<1x1x4x4xi64>, tensor<i64>) -> tensor<1x1x4x4xi1>
// CHECK: %[[MASK:.*]] = nn.select %[[SEEN]], %{{.*}} -> tensor<1x1x4x4xf32>
// CHECK: nn.add %{{.*}}, %[[MASK]] : (tensor<2x2x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<2x2x4x4xf32>
// CHECK: nn.dropout
func.func @dropped(%x: tensor<2x2x4x4xf32>, %s: tensor<16xf64>, %n: tensor<i64>) -> tensor<2x2x4x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hidden = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %row = nn.iota {dimension = 0 : i64} : () -> tensor<2x1x4x1xi64>
  %query = nn.iota {dimension = 2 : i64} : () -> tensor<2x1x4x1xi64>
  %key = nn.iota {dimension = 3 : i64} : () -> tensor<1x1x1x4xi64>
  %places = nn.iota {dimension = 1 : i64} : () -> tensor<2x4xi64>
  %r = nn.reshape %row : (tensor<2x1x4x1xi64>) -> tensor<2x1x4x1x1xi64>
  %q = nn.reshape %query : (tensor<2x1x4x1xi64>) -> tensor<2x1x4x1x1xi64>
  %pair = nn.concat %r, %q {axis = 4 : i64} : (tensor<2x1x4x1x1xi64>, tensor<2x1x4x1x1xi64>) -> tensor<2x1x4x1x2xi64>
  %at = nn.gather_nd %places, %pair : (tensor<2x4xi64>, tensor<2x1x4x1x2xi64>) -> tensor<2x1x4x1xi64>
  %seen = nn.compare %key, %at {predicate = "le"} : (tensor<1x1x1x4xi64>, tensor<2x1x4x1xi64>) -> tensor<2x1x4x4xi1>
  %mask = nn.select %seen, %zero, %hidden : (tensor<2x1x4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x4x4xf32>
  %scores = nn.add %x, %mask : (tensor<2x2x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x2x4x4xf32>
  %p = nn.softmax %scores : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %d = nn.dropout %p, %s, %n {ratio = 0.1 : f64} : (tensor<2x2x4x4xf32>, tensor<16xf64>, tensor<i64>) -> tensor<2x2x4x4xf32>
  return %d : tensor<2x2x4x4xf32>
}

// -----

// A mask of the data's.
// CHECK-LABEL: func.func @dropped_keys
// CHECK: %[[KEYS:.*]] = nn.reshape %arg1 : (tensor<2x4xi1>) -> tensor<2x1x1x4xi1>
// CHECK: nn.select %{{.*}} -> tensor<2x1x1x4xf32>
func.func @dropped_keys(%x: tensor<2x2x4x4xf32>, %m: tensor<2x4xi1>, %s: tensor<16xf64>, %n: tensor<i64>) -> tensor<2x2x4x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hidden = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %keys = nn.reshape %m : (tensor<2x4xi1>) -> tensor<2x1x1x4xi1>
  %wide = nn.broadcast %keys : (tensor<2x1x1x4xi1>) -> tensor<2x1x4x4xi1>
  %mask = nn.select %wide, %zero, %hidden : (tensor<2x1x4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x4x4xf32>
  %scores = nn.add %x, %mask : (tensor<2x2x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x2x4x4xf32>
  %p = nn.softmax %scores : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %d = nn.dropout %p, %s, %n {ratio = 0.1 : f64} : (tensor<2x2x4x4xf32>, tensor<16xf64>, tensor<i64>) -> tensor<2x2x4x4xf32>
  return %d : tensor<2x2x4x4xf32>
}

// -----

// As transformers (4.38 to 4.52) extends a causal mask by one of keys, and the older exporter writes that it is put back
// where it was.
// CHECK-LABEL: func.func @extended
// CHECK: %[[SEEN:.*]] = nn.compare %arg3, %{{.*}} {predicate = "ne"} : (tensor<2x8xi64>
// CHECK: nn.attention %arg0, %arg1, %arg2, %[[SEEN]] {minDistance = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0>
func.func @extended(%q: tensor<2x8x2x4xf32>, %k: tensor<2x8x2x4xf32>, %v: tensor<2x8x2x4xf32>, %m: tensor<2x8xi64>) -> tensor<2x8x2x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %eight = nn.constant dense<8> : tensor<i64>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %full = nn.constant dense<-3.40282347E+38> : tensor<8x8xf32>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<8x1xi64>
  %next = nn.iota {dimension = 0 : i64, start = 1.0 : f64} : () -> tensor<8x1xi64>
  %upper = nn.compare %i, %next {predicate = "ge"} : (tensor<8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
  %triangle = nn.select %upper, %full, %zero : (tensor<8x8xi1>, tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %later = nn.compare %i, %row {predicate = "gt"} : (tensor<8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
  %factor = nn.cast %later : (tensor<8x8xi1>) -> tensor<8x8xf32>
  %causal = nn.mul %triangle, %factor : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %one = nn.reshape %causal : (tensor<8x8xf32>) -> tensor<1x1x8x8xf32>
  %wide = nn.broadcast %one : (tensor<1x1x8x8xf32>) -> tensor<2x1x8x8xf32>
  %keys = nn.reshape %m : (tensor<2x8xi64>) -> tensor<2x1x1x8xi64>
  %numbers = nn.cast %keys : (tensor<2x1x1x8xi64>) -> tensor<2x1x1x8xf32>
  %sum = nn.add %wide, %numbers : (tensor<2x1x8x8xf32>, tensor<2x1x1x8xf32>) -> tensor<2x1x8x8xf32>
  %padding = nn.compare %sum, %zero {predicate = "eq"} : (tensor<2x1x8x8xf32>, tensor<f32>) -> tensor<2x1x8x8xi1>
  %hidden = nn.select %padding, %low, %wide : (tensor<2x1x8x8xi1>, tensor<f32>, tensor<2x1x8x8xf32>) -> tensor<2x1x8x8xf32>
  %places = nn.broadcast %i : (tensor<8xi64>) -> tensor<2x1x8x8xi64>
  %within = nn.mod %places, %eight : (tensor<2x1x8x8xi64>, tensor<i64>) -> tensor<2x1x8x8xi64>
  %rows = nn.reshape %wide : (tensor<2x1x8x8xf32>) -> tensor<16x8xf32>
  %at = nn.reshape %within : (tensor<2x1x8x8xi64>) -> tensor<16x8xi64>
  %new = nn.reshape %hidden : (tensor<2x1x8x8xf32>) -> tensor<16x8xf32>
  %put = nn.scatter_elements %rows, %at, %new {axis = 1 : i64} : (tensor<16x8xf32>, tensor<16x8xi64>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %mask = nn.reshape %put : (tensor<16x8xf32>) -> tensor<2x1x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x1x8x8xf32>) -> (tensor<2x8x2x4xf32>, tensor<2x2x8xf32>)
  return %0 : tensor<2x8x2x4xf32>
}

// -----

// As it inverts one of keys, then hides by it.
// CHECK-LABEL: func.func @inverted
// CHECK: %[[SEEN:.*]] = nn.compare %arg3, %{{.*}} {predicate = "eq"} : (tensor<2x8xi64>
// CHECK: nn.attention %arg0, %arg1, %arg2, %[[SEEN]] {minDistance = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0>
func.func @inverted(%q: tensor<2x8x2x4xf32>, %k: tensor<2x8x2x4xf32>, %v: tensor<2x8x2x4xf32>, %m: tensor<2x8xi64>) -> tensor<2x8x2x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<8x1xi64>
  %seen = nn.compare %i, %row {predicate = "le"} : (tensor<8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
  %causal = nn.select %seen, %zero, %low : (tensor<8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  %keys = nn.reshape %m : (tensor<2x8xi64>) -> tensor<2x1x1x8xi64>
  %wide = nn.broadcast %keys : (tensor<2x1x1x8xi64>) -> tensor<2x1x8x8xi64>
  %numbers = nn.cast %wide : (tensor<2x1x8x8xi64>) -> tensor<2x1x8x8xf32>
  %rest = nn.sub %one, %numbers : (tensor<f32>, tensor<2x1x8x8xf32>) -> tensor<2x1x8x8xf32>
  %some = nn.cast %rest : (tensor<2x1x8x8xf32>) -> tensor<2x1x8x8xi1>
  %filled = nn.select %some, %low, %rest : (tensor<2x1x8x8xi1>, tensor<f32>, tensor<2x1x8x8xf32>) -> tensor<2x1x8x8xf32>
  %hides = nn.cast %filled : (tensor<2x1x8x8xf32>) -> tensor<2x1x8x8xi1>
  %mask = nn.select %hides, %low, %causal : (tensor<2x1x8x8xi1>, tensor<f32>, tensor<8x8xf32>) -> tensor<2x1x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x1x8x8xf32>) -> (tensor<2x8x2x4xf32>, tensor<2x2x8xf32>)
  return %0 : tensor<2x8x2x4xf32>
}

// -----

// Zero times minus infinity is no number, and what is no number is no predicate.
// CHECK-LABEL: func.func @infinite
// CHECK: nn.attention
// CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>
func.func @infinite(%q: tensor<1x8x2x4xf32>, %k: tensor<1x8x2x4xf32>, %v: tensor<1x8x2x4xf32>) -> tensor<1x8x2x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<0xFF800000> : tensor<f32>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<8x1xi64>
  %seen = nn.compare %i, %row {predicate = "le"} : (tensor<8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
  %causal = nn.select %seen, %zero, %low : (tensor<8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  %later = nn.compare %i, %row {predicate = "gt"} : (tensor<8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
  %factor = nn.cast %later : (tensor<8x8xi1>) -> tensor<8x8xf32>
  %product = nn.mul %causal, %factor : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %mask = nn.reshape %product : (tensor<8x8xf32>) -> tensor<1x1x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %mask {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x8x2x4xf32>, tensor<1x2x8xf32>)
  return %0 : tensor<1x8x2x4xf32>
}
