// Biases that depend on the difference of places in windows and pictures, segments of windows, windows with gaps, factors of
// heads: nothing is left that has a number for every query and key. What is put where it is.
// RUN: mtc-opt %s --split-input-file --mt-recover-ops --canonicalize --cse | FileCheck %s

// Swin: a table looked up at numbers that lie in the file, row after row. Its line is the table.
// CHECK-LABEL: func.func @window
// CHECK-NOT: 16x16xf32
// CHECK-DAG: %[[Q:.*]] = nn.constant dense<[24, 23, 22, 21, 17, 16, 15, 14, 10, 9, 8, 7, 3, 2, 1, 0]> : tensor<16xi64>
// CHECK-DAG: %[[K:.*]] = nn.constant dense<[48, 47, 46, 45, 41, 40, 39, 38, 34, 33, 32, 31, 27, 26, 25, 24]> : tensor<16xi64>
// CHECK-DAG: nn.constant dense<[0, 1, 2, 3, {{.*}}, 47, 48]> : tensor<49xi64>
// CHECK: nn.attention %arg0, %arg1, %arg2, %{{.*}}, %[[Q]], %[[K]] {{.*}}tensor<1x2x1x49xf32>
func.func @window(%q: tensor<8x16x2x4xf32>, %k: tensor<8x16x2x4xf32>, %v: tensor<8x16x2x4xf32>, %table: tensor<49x2xf32>) -> tensor<8x16x2x4xf32> {
  %index = nn.constant dense<[24, 23, 22, 21, 17, 16, 15, 14, 10, 9, 8, 7, 3, 2, 1, 0, 25, 24, 23, 22, 18, 17, 16, 15, 11, 10, 9, 8, 4, 3, 2, 1, 26, 25, 24, 23, 19, 18, 17, 16, 12, 11, 10, 9, 5, 4, 3, 2, 27, 26, 25, 24, 20, 19, 18, 17, 13, 12, 11, 10, 6, 5, 4, 3, 31, 30, 29, 28, 24, 23, 22, 21, 17, 16, 15, 14, 10, 9, 8, 7, 32, 31, 30, 29, 25, 24, 23, 22, 18, 17, 16, 15, 11, 10, 9, 8, 33, 32, 31, 30, 26, 25, 24, 23, 19, 18, 17, 16, 12, 11, 10, 9, 34, 33, 32, 31, 27, 26, 25, 24, 20, 19, 18, 17, 13, 12, 11, 10, 38, 37, 36, 35, 31, 30, 29, 28, 24, 23, 22, 21, 17, 16, 15, 14, 39, 38, 37, 36, 32, 31, 30, 29, 25, 24, 23, 22, 18, 17, 16, 15, 40, 39, 38, 37, 33, 32, 31, 30, 26, 25, 24, 23, 19, 18, 17, 16, 41, 40, 39, 38, 34, 33, 32, 31, 27, 26, 25, 24, 20, 19, 18, 17, 45, 44, 43, 42, 38, 37, 36, 35, 31, 30, 29, 28, 24, 23, 22, 21, 46, 45, 44, 43, 39, 38, 37, 36, 32, 31, 30, 29, 25, 24, 23, 22, 47, 46, 45, 44, 40, 39, 38, 37, 33, 32, 31, 30, 26, 25, 24, 23, 48, 47, 46, 45, 41, 40, 39, 38, 34, 33, 32, 31, 27, 26, 25, 24]> : tensor<256xi64>
  %looked = nn.embedding %table, %index : (tensor<49x2xf32>, tensor<256xi64>) -> tensor<256x2xf32>
  %square = nn.reshape %looked : (tensor<256x2xf32>) -> tensor<16x16x2xf32>
  %turned = nn.transpose %square {permutation = array<i64: 2, 0, 1>} : (tensor<16x16x2xf32>) -> tensor<2x16x16xf32>
  %bias = nn.reshape %turned : (tensor<2x16x16xf32>) -> tensor<1x2x16x16xf32>
  %0, %l = nn.attention %q, %k, %v, %bias {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<8x16x2x4xf32>, tensor<8x16x2x4xf32>, tensor<8x16x2x4xf32>, tensor<1x2x16x16xf32>) -> (tensor<8x16x2x4xf32>, tensor<8x2x16xf32>)
  return %0 : tensor<8x16x2x4xf32>
}

// -----

// Numbers that the graph computes, and a table that is changed after it is looked up (Swin v2); the scale of each head is
// learned: its query has it.
// CHECK-LABEL: func.func @computed
// CHECK-NOT: 36x36xf32
// CHECK: %[[H:.*]] = nn.reshape %arg4 : (tensor<2x1x1xf32>) -> tensor<1x1x2x1xf32>
// CHECK: %[[S:.*]] = nn.mul %arg0, %[[H]]
// CHECK: nn.sigmoid %{{.*}} -> tensor<2x1x121xf32>
// CHECK: nn.attention %[[S]], %arg1, %arg2, {{.*}}tensor<1x2x1x121xf32>
func.func @computed(%q: tensor<2x36x2x4xf32>, %k: tensor<2x36x2x4xf32>, %v: tensor<2x36x2x4xf32>, %table: tensor<121x2xf32>, %scale: tensor<2x1x1xf32>) -> tensor<2x2x36x4xf32> {
  %five = nn.constant dense<5> : tensor<i64>
  %six = nn.constant dense<6> : tensor<i64>
  %eleven = nn.constant dense<11> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<36xi64>
  %y = nn.div %i, %six : (tensor<36xi64>, tensor<i64>) -> tensor<36xi64>
  %x = nn.mod %i, %six : (tensor<36xi64>, tensor<i64>) -> tensor<36xi64>
  %yq = nn.reshape %y : (tensor<36xi64>) -> tensor<36x1xi64>
  %xq = nn.reshape %x : (tensor<36xi64>) -> tensor<36x1xi64>
  %dy = nn.sub %yq, %y : (tensor<36x1xi64>, tensor<36xi64>) -> tensor<36x36xi64>
  %dx = nn.sub %xq, %x : (tensor<36x1xi64>, tensor<36xi64>) -> tensor<36x36xi64>
  %down = nn.add %dy, %five : (tensor<36x36xi64>, tensor<i64>) -> tensor<36x36xi64>
  %right = nn.add %dx, %five : (tensor<36x36xi64>, tensor<i64>) -> tensor<36x36xi64>
  %rows = nn.mul %down, %eleven : (tensor<36x36xi64>, tensor<i64>) -> tensor<36x36xi64>
  %index = nn.add %rows, %right : (tensor<36x36xi64>, tensor<36x36xi64>) -> tensor<36x36xi64>
  %looked = nn.gather %table, %index {axis = 0 : i64} : (tensor<121x2xf32>, tensor<36x36xi64>) -> tensor<36x36x2xf32>
  %turned = nn.transpose %looked {permutation = array<i64: 2, 0, 1>} : (tensor<36x36x2xf32>) -> tensor<2x36x36xf32>
  %soft = nn.sigmoid %turned : (tensor<2x36x36xf32>) -> tensor<2x36x36xf32>
  %queries = nn.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x36x2x4xf32>) -> tensor<2x2x36x4xf32>
  %keys = nn.transpose %k {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x36x2x4xf32>) -> tensor<2x2x36x4xf32>
  %values = nn.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x36x2x4xf32>) -> tensor<2x2x36x4xf32>
  %product = nn.matmul %queries, %keys {transposeRhs = true} : (tensor<2x2x36x4xf32>, tensor<2x2x36x4xf32>) -> tensor<2x2x36x36xf32>
  %scaled = nn.mul %product, %scale : (tensor<2x2x36x36xf32>, tensor<2x1x1xf32>) -> tensor<2x2x36x36xf32>
  %scores = nn.add %scaled, %soft : (tensor<2x2x36x36xf32>, tensor<2x36x36xf32>) -> tensor<2x2x36x36xf32>
  %probabilities = nn.softmax %scores : (tensor<2x2x36x36xf32>) -> tensor<2x2x36x36xf32>
  %0 = nn.matmul %probabilities, %values : (tensor<2x2x36x36xf32>, tensor<2x2x36x4xf32>) -> tensor<2x2x36x4xf32>
  return %0 : tensor<2x2x36x4xf32>
}

// -----

// A factor of heads around a mask is none of the query: the mask would have it too.
// CHECK-LABEL: func.func @factorOfMask
// CHECK: nn.softmax
func.func @factorOfMask(%q: tensor<2x2x8x4xf32>, %k: tensor<2x2x8x4xf32>, %v: tensor<2x2x8x4xf32>, %mask: tensor<8x8xf32>, %scale: tensor<2x1x1xf32>) -> tensor<2x2x8x4xf32> {
  %product = nn.matmul %q, %k {transposeRhs = true} : (tensor<2x2x8x4xf32>, tensor<2x2x8x4xf32>) -> tensor<2x2x8x8xf32>
  %masked = nn.add %product, %mask : (tensor<2x2x8x8xf32>, tensor<8x8xf32>) -> tensor<2x2x8x8xf32>
  %scaled = nn.mul %masked, %scale : (tensor<2x2x8x8xf32>, tensor<2x1x1xf32>) -> tensor<2x2x8x8xf32>
  %probabilities = nn.softmax %scaled : (tensor<2x2x8x8xf32>) -> tensor<2x2x8x8xf32>
  %0 = nn.matmul %probabilities, %v : (tensor<2x2x8x8xf32>, tensor<2x2x8x4xf32>) -> tensor<2x2x8x4xf32>
  return %0 : tensor<2x2x8x4xf32>
}

// -----

// Shifted windows: -100 between regions, which are numbers of places, the same for all pictures of the batch.
// CHECK-LABEL: func.func @shifted
// CHECK-NOT: 16x16xf32
// CHECK: nn.cast %{{.*}} : (tensor<8x16xf32>) -> tensor<8x16xi64>
// CHECK: nn.attention %arg0, %arg1, %arg2, %arg3, %{{.*}}, %{{.*}} {{.*}}array<i32: 1, 1, 1, 1, 0, 1, 1, 0, 0, 0>, scale = 1.000000e+00 : f64, segmentBias = -1.000000e+02 : f64}
func.func @shifted(%q: tensor<8x16x2x4xf32>, %k: tensor<8x16x2x4xf32>, %v: tensor<8x16x2x4xf32>, %other: tensor<1x2x1x16xf32>, %regions: tensor<4x16xi64>) -> tensor<8x16x2x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %far = nn.constant dense<-100.0> : tensor<f32>
  %real = nn.cast %regions : (tensor<4x16xi64>) -> tensor<4x16xf32>
  %keys = nn.reshape %real : (tensor<4x16xf32>) -> tensor<4x1x16xf32>
  %queries = nn.reshape %real : (tensor<4x16xf32>) -> tensor<4x16x1xf32>
  %difference = nn.sub %keys, %queries : (tensor<4x1x16xf32>, tensor<4x16x1xf32>) -> tensor<4x16x16xf32>
  %same = nn.compare %difference, %zero {predicate = "eq"} : (tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16x16xi1>
  %differ = nn.compare %difference, %zero {predicate = "ne"} : (tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16x16xi1>
  %once = nn.select %differ, %far, %difference : (tensor<4x16x16xi1>, tensor<f32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %mask = nn.select %same, %zero, %once : (tensor<4x16x16xi1>, tensor<f32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %five = nn.reshape %mask : (tensor<4x16x16xf32>) -> tensor<1x4x1x16x16xf32>
  %all = nn.broadcast %five : (tensor<1x4x1x16x16xf32>) -> tensor<2x4x1x16x16xf32>
  %ofWindows = nn.reshape %all : (tensor<2x4x1x16x16xf32>) -> tensor<8x1x16x16xf32>
  %bias = nn.add %ofWindows, %other : (tensor<8x1x16x16xf32>, tensor<1x2x1x16xf32>) -> tensor<8x2x16x16xf32>
  %0, %l = nn.attention %q, %k, %v, %bias {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<8x16x2x4xf32>, tensor<8x16x2x4xf32>, tensor<8x16x2x4xf32>, tensor<8x2x16x16xf32>) -> (tensor<8x16x2x4xf32>, tensor<8x2x16xf32>)
  return %0 : tensor<8x16x2x4xf32>
}

// -----

// A window of every third key, causal.
// CHECK-LABEL: func.func @dilated
// CHECK-NOT: 8192x8192
// CHECK: nn.attention %arg0, %arg1, %arg2 {dilation = 3 : i64, maxDistance = 300 : i64, minDistance = 0 : i64
func.func @dilated(%q: tensor<2x8192x4x4xf32>, %k: tensor<2x8192x4x4xf32>, %v: tensor<2x8192x4x4xf32>) -> tensor<2x8192x4x4xf32> {
  %three = nn.constant dense<3> : tensor<i64>
  %nothing = nn.constant dense<0> : tensor<i64>
  %most = nn.constant dense<300> : tensor<i64>
  %none = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %j = nn.iota {dimension = 0 : i64} : () -> tensor<8192xi64>
  %i = nn.reshape %j : (tensor<8192xi64>) -> tensor<8192x1xi64>
  %distance = nn.sub %i, %j : (tensor<8192x1xi64>, tensor<8192xi64>) -> tensor<8192x8192xi64>
  %past = nn.compare %distance, %nothing {predicate = "ge"} : (tensor<8192x8192xi64>, tensor<i64>) -> tensor<8192x8192xi1>
  %near = nn.compare %distance, %most {predicate = "le"} : (tensor<8192x8192xi64>, tensor<i64>) -> tensor<8192x8192xi1>
  %rest = nn.mod %distance, %three : (tensor<8192x8192xi64>, tensor<i64>) -> tensor<8192x8192xi64>
  %third = nn.compare %rest, %nothing {predicate = "eq"} : (tensor<8192x8192xi64>, tensor<i64>) -> tensor<8192x8192xi1>
  %both = nn.and %past, %near : (tensor<8192x8192xi1>, tensor<8192x8192xi1>) -> tensor<8192x8192xi1>
  %seen = nn.and %both, %third : (tensor<8192x8192xi1>, tensor<8192x8192xi1>) -> tensor<8192x8192xi1>
  %mask = nn.select %seen, %none, %low : (tensor<8192x8192xi1>, tensor<f32>, tensor<f32>) -> tensor<8192x8192xf32>
  %bias = nn.reshape %mask : (tensor<8192x8192xf32>) -> tensor<1x1x8192x8192xf32>
  %0, %l = nn.attention %q, %k, %v, %bias {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<2x8192x4x4xf32>, tensor<2x8192x4x4xf32>, tensor<2x8192x4x4xf32>, tensor<1x1x8192x8192xf32>) -> (tensor<2x8192x4x4xf32>, tensor<2x4x8192xf32>)
  return %0 : tensor<2x8192x4x4xf32>
}

// -----

// Windows in a dimension of their own (MaxViT): the batch of nn.attention is both.
// CHECK-LABEL: func.func @windows
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>, scale = 1.000000e+00 : f64} : (tensor<12x8x2x4xf32>, {{.*}}, tensor<12x1x8x8xf32>)
func.func @windows(%q: tensor<3x4x2x8x4xf32>, %k: tensor<3x4x2x8x4xf32>, %v: tensor<3x4x2x8x4xf32>, %bias: tensor<4x1x8x8xf32>) -> tensor<3x4x2x8x4xf32> {
  %product = nn.matmul %q, %k {transposeRhs = true} : (tensor<3x4x2x8x4xf32>, tensor<3x4x2x8x4xf32>) -> tensor<3x4x2x8x8xf32>
  %scores = nn.add %product, %bias : (tensor<3x4x2x8x8xf32>, tensor<4x1x8x8xf32>) -> tensor<3x4x2x8x8xf32>
  %probabilities = nn.softmax %scores : (tensor<3x4x2x8x8xf32>) -> tensor<3x4x2x8x8xf32>
  %0 = nn.matmul %probabilities, %v : (tensor<3x4x2x8x8xf32>, tensor<3x4x2x8x4xf32>) -> tensor<3x4x2x8x4xf32>
  return %0 : tensor<3x4x2x8x4xf32>
}

// -----

// Gaps of 2.5 keys are none of whole keys.
// CHECK-LABEL: func.func @brokenGaps
// CHECK-NOT: dilation
// CHECK: return
func.func @brokenGaps(%q: tensor<2x8x4x4xf32>, %k: tensor<2x8x4x4xf32>, %v: tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32> {
  %gap = nn.constant dense<2.5> : tensor<f32>
  %none = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %j = nn.iota {dimension = 0 : i64} : () -> tensor<8xf32>
  %i = nn.reshape %j : (tensor<8xf32>) -> tensor<8x1xf32>
  %distance = nn.sub %i, %j : (tensor<8x1xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %rest = nn.mod %distance, %gap : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %seen = nn.compare %rest, %none {predicate = "eq"} : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xi1>
  %mask = nn.select %seen, %none, %low : (tensor<8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  %bias = nn.reshape %mask : (tensor<8x8xf32>) -> tensor<1x1x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %bias {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<1x1x8x8xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x4x8xf32>)
  return %0 : tensor<2x8x4x4xf32>
}

// -----

// Every element put where it is; not so backwards, further on, by row, or where it is added.
// CHECK-LABEL: func.func @put_where_it_is
// CHECK-NOT: nn.scatter_elements
// CHECK: return %arg1
func.func @put_where_it_is(%data: tensor<4x6xf32>, %new: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %at = nn.iota {dimension = 1 : i64} : () -> tensor<4x6xi64>
  %put = nn.scatter_elements %data, %at, %new {axis = 1 : i64} : (tensor<4x6xf32>, tensor<4x6xi64>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %put : tensor<4x6xf32>
}

// -----

// CHECK-LABEL: func.func @put_backwards
// CHECK: nn.scatter_elements
func.func @put_backwards(%data: tensor<4x6xf32>, %new: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %at = nn.iota {dimension = 1 : i64, start = 5.0 : f64, step = -1.0 : f64} : () -> tensor<4x6xi64>
  %put = nn.scatter_elements %data, %at, %new {axis = 1 : i64} : (tensor<4x6xf32>, tensor<4x6xi64>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %put : tensor<4x6xf32>
}

// -----

// CHECK-LABEL: func.func @put_further_on
// CHECK: nn.scatter_elements
func.func @put_further_on(%data: tensor<4x6xf32>, %new: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %one = nn.constant dense<1> : tensor<i64>
  %six = nn.constant dense<6> : tensor<i64>
  %places = nn.iota {dimension = 1 : i64} : () -> tensor<4x6xi64>
  %next = nn.add %places, %one : (tensor<4x6xi64>, tensor<i64>) -> tensor<4x6xi64>
  %at = nn.mod %next, %six : (tensor<4x6xi64>, tensor<i64>) -> tensor<4x6xi64>
  %put = nn.scatter_elements %data, %at, %new {axis = 1 : i64} : (tensor<4x6xf32>, tensor<4x6xi64>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %put : tensor<4x6xf32>
}

// -----

// CHECK-LABEL: func.func @put_by_row
// CHECK: nn.scatter_elements
func.func @put_by_row(%data: tensor<4x6xf32>, %new: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %at = nn.iota {dimension = 0 : i64} : () -> tensor<4x6xi64>
  %put = nn.scatter_elements %data, %at, %new {axis = 1 : i64} : (tensor<4x6xf32>, tensor<4x6xi64>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %put : tensor<4x6xf32>
}

// -----

// CHECK-LABEL: func.func @put_and_added
// CHECK: nn.scatter_elements
func.func @put_and_added(%data: tensor<4x6xf32>, %new: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %at = nn.iota {dimension = 1 : i64} : () -> tensor<4x6xi64>
  %put = nn.scatter_elements %data, %at, %new {axis = 1 : i64, kind = "add"} : (tensor<4x6xf32>, tensor<4x6xi64>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %put : tensor<4x6xf32>
}
