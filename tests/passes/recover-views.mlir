// RUN: mtc-opt %s --mt-recover-ops --canonicalize --cse --split-input-file | FileCheck %s

// Scores whose batch and heads are one dimension for the products and two for the mask; the slopes stay a bias.
// CHECK-LABEL: func.func @merged_heads
// CHECK-NOT: nn.softmax
// CHECK: %[[B:.*]] = nn.reshape %arg3 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {minDistance = 0 : i64, {{.*}}scale = 5.000000e-01 : f64}
// CHECK-SAME: (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x4x1x8xf32>)
// CHECK-NOT: nn.softmax
func.func @merged_heads(%q: tensor<2x4x8x4xf32>, %k: tensor<2x4x8x4xf32>, %v: tensor<2x4x8x4xf32>, %slopes: tensor<4xf32>) -> tensor<2x4x8x4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %q3 = nn.reshape %q : (tensor<2x4x8x4xf32>) -> tensor<8x8x4xf32>
  %k3 = nn.reshape %k : (tensor<2x4x8x4xf32>) -> tensor<8x8x4xf32>
  %v3 = nn.reshape %v : (tensor<2x4x8x4xf32>) -> tensor<8x8x4xf32>
  %s4 = nn.reshape %slopes : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
  %wide = nn.broadcast %s4 : (tensor<1x4x1x1xf32>) -> tensor<2x4x1x8xf32>
  %alibi = nn.reshape %wide : (tensor<2x4x1x8xf32>) -> tensor<8x1x8xf32>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x8x1xi64>
  %column = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x1x8xi64>
  %seen = nn.compare %column, %row {predicate = "le"} : (tensor<1x1x1x8xi64>, tensor<1x1x8x1xi64>) -> tensor<1x1x8x8xi1>
  %mask = nn.select %seen, %zero, %low : (tensor<1x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x8x8xf32>
  %0 = nn.matmul %q3, %k3 {transposeRhs = true} : (tensor<8x8x4xf32>, tensor<8x8x4xf32>) -> tensor<8x8x8xf32>
  %1 = nn.mul %0, %half : (tensor<8x8x8xf32>, tensor<f32>) -> tensor<8x8x8xf32>
  %2 = nn.add %1, %alibi : (tensor<8x8x8xf32>, tensor<8x1x8xf32>) -> tensor<8x8x8xf32>
  %3 = nn.reshape %2 : (tensor<8x8x8xf32>) -> tensor<2x4x8x8xf32>
  %4 = nn.add %3, %mask : (tensor<2x4x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<2x4x8x8xf32>
  %5 = nn.softmax %4 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %6 = nn.reshape %5 : (tensor<2x4x8x8xf32>) -> tensor<8x8x8xf32>
  %7 = nn.matmul %6, %v3 : (tensor<8x8x8xf32>, tensor<8x8x4xf32>) -> tensor<8x8x4xf32>
  %8 = nn.reshape %7 : (tensor<8x8x4xf32>) -> tensor<2x4x8x4xf32>
  return %8 : tensor<2x4x8x4xf32>
}

// -----

// Neighbours turned by tables that hold every angle beside itself, in the first half of the heads only.
// CHECK-LABEL: func.func @neighbours
// CHECK: %[[C:.*]] = nn.cos %arg1
// CHECK: %[[S:.*]] = nn.sin %arg1
// CHECK: %[[Y:.*]] = nn.rotary %arg0, %[[C]], %[[S]] {interleaved = true} : (tensor<2x3x5x8xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>)
// CHECK: return %[[Y]]
func.func @neighbours(%x: tensor<2x3x5x8xf32>, %angles: tensor<1x3x2xf32>) -> tensor<2x3x5x8xf32> {
  %c = nn.cos %angles : (tensor<1x3x2xf32>) -> tensor<1x3x2xf32>
  %s = nn.sin %angles : (tensor<1x3x2xf32>) -> tensor<1x3x2xf32>
  %c1 = nn.reshape %c : (tensor<1x3x2xf32>) -> tensor<1x3x1x2x1xf32>
  %c2 = nn.broadcast %c1 : (tensor<1x3x1x2x1xf32>) -> tensor<1x3x1x2x2xf32>
  %cos = nn.reshape %c2 : (tensor<1x3x1x2x2xf32>) -> tensor<1x3x1x4xf32>
  %s1 = nn.reshape %s : (tensor<1x3x2xf32>) -> tensor<1x3x1x2x1xf32>
  %s2 = nn.broadcast %s1 : (tensor<1x3x1x2x1xf32>) -> tensor<1x3x1x2x2xf32>
  %sin = nn.reshape %s2 : (tensor<1x3x1x2x2xf32>) -> tensor<1x3x1x4xf32>
  %r = nn.slice %x {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 5, 4>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x5x8xf32>) -> tensor<2x3x5x4xf32>
  %rest = nn.slice %x {starts = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 5, 4>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x5x8xf32>) -> tensor<2x3x5x4xf32>
  %a = nn.slice %r {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 5, 2>, strides = array<i64: 1, 1, 1, 2>} : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x2xf32>
  %b = nn.slice %r {starts = array<i64: 0, 0, 0, 1>, sizes = array<i64: 2, 3, 5, 2>, strides = array<i64: 1, 1, 1, 2>} : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x2xf32>
  %n = nn.neg %b : (tensor<2x3x5x2xf32>) -> tensor<2x3x5x2xf32>
  %n1 = nn.reshape %n : (tensor<2x3x5x2xf32>) -> tensor<2x3x5x2x1xf32>
  %a1 = nn.reshape %a : (tensor<2x3x5x2xf32>) -> tensor<2x3x5x2x1xf32>
  %t = nn.concat %n1, %a1 {axis = 4 : i64} : (tensor<2x3x5x2x1xf32>, tensor<2x3x5x2x1xf32>) -> tensor<2x3x5x2x2xf32>
  %turned = nn.reshape %t : (tensor<2x3x5x2x2xf32>) -> tensor<2x3x5x4xf32>
  %0 = nn.mul %r, %cos : (tensor<2x3x5x4xf32>, tensor<1x3x1x4xf32>) -> tensor<2x3x5x4xf32>
  %1 = nn.mul %turned, %sin : (tensor<2x3x5x4xf32>, tensor<1x3x1x4xf32>) -> tensor<2x3x5x4xf32>
  %2 = nn.add %0, %1 : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  %3 = nn.concat %2, %rest {axis = 3 : i64} : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x8xf32>
  return %3 : tensor<2x3x5x8xf32>
}

// -----

// Tables whose halves differ turn nothing that nn.rotary could: the product stays as it is.
// CHECK-LABEL: func.func @other_halves
// CHECK-NOT: nn.rotary
func.func @other_halves(%x: tensor<2x3x5x4xf32>, %cos: tensor<1x3x1x4xf32>, %sin: tensor<1x3x1x4xf32>) -> tensor<2x3x5x4xf32> {
  %a = nn.slice %x {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 5, 2>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x2xf32>
  %b = nn.slice %x {starts = array<i64: 0, 0, 0, 2>, sizes = array<i64: 2, 3, 5, 2>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x2xf32>
  %n = nn.neg %b : (tensor<2x3x5x2xf32>) -> tensor<2x3x5x2xf32>
  %turned = nn.concat %n, %a {axis = 3 : i64} : (tensor<2x3x5x2xf32>, tensor<2x3x5x2xf32>) -> tensor<2x3x5x4xf32>
  %0 = nn.mul %x, %cos : (tensor<2x3x5x4xf32>, tensor<1x3x1x4xf32>) -> tensor<2x3x5x4xf32>
  %1 = nn.mul %turned, %sin : (tensor<2x3x5x4xf32>, tensor<1x3x1x4xf32>) -> tensor<2x3x5x4xf32>
  %2 = nn.add %0, %1 : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  return %2 : tensor<2x3x5x4xf32>
}

// -----

// Pair by pair, the members stacked again.
// CHECK-LABEL: func.func @pairs
// CHECK: %[[Y:.*]] = nn.rotary %arg0, %{{.*}}, %{{.*}} {interleaved = true} : (tensor<2x3x5x4xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>)
// CHECK: return %[[Y]]
func.func @pairs(%x: tensor<2x3x5x4xf32>, %cos: tensor<3x1x2xf32>, %sin: tensor<3x1x2xf32>) -> tensor<2x3x5x4xf32> {
  %a = nn.slice %x {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 5, 2>, strides = array<i64: 1, 1, 1, 2>} : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x2xf32>
  %b = nn.slice %x {starts = array<i64: 0, 0, 0, 1>, sizes = array<i64: 2, 3, 5, 2>, strides = array<i64: 1, 1, 1, 2>} : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x2xf32>
  %ac = nn.mul %a, %cos : (tensor<2x3x5x2xf32>, tensor<3x1x2xf32>) -> tensor<2x3x5x2xf32>
  %bs = nn.mul %b, %sin : (tensor<2x3x5x2xf32>, tensor<3x1x2xf32>) -> tensor<2x3x5x2xf32>
  %as = nn.mul %a, %sin : (tensor<2x3x5x2xf32>, tensor<3x1x2xf32>) -> tensor<2x3x5x2xf32>
  %bc = nn.mul %b, %cos : (tensor<2x3x5x2xf32>, tensor<3x1x2xf32>) -> tensor<2x3x5x2xf32>
  %0 = nn.sub %ac, %bs : (tensor<2x3x5x2xf32>, tensor<2x3x5x2xf32>) -> tensor<2x3x5x2xf32>
  %1 = nn.add %as, %bc : (tensor<2x3x5x2xf32>, tensor<2x3x5x2xf32>) -> tensor<2x3x5x2xf32>
  %2 = nn.reshape %0 : (tensor<2x3x5x2xf32>) -> tensor<2x3x5x2x1xf32>
  %3 = nn.reshape %1 : (tensor<2x3x5x2xf32>) -> tensor<2x3x5x2x1xf32>
  %4 = nn.concat %2, %3 {axis = 4 : i64} : (tensor<2x3x5x2x1xf32>, tensor<2x3x5x2x1xf32>) -> tensor<2x3x5x2x2xf32>
  %5 = nn.reshape %4 : (tensor<2x3x5x2x2xf32>) -> tensor<2x3x5x4xf32>
  return %5 : tensor<2x3x5x4xf32>
}

// -----

// What each row looks up in itself: the last token of a sequence, say.
// CHECK-LABEL: func.func @own_rows
// CHECK: nn.gather_nd %arg0, %{{.*}} {batchDims = 1 : i64} : (tensor<4x5x3xf32>, tensor<4x1xi64>) -> tensor<4x3xf32>
func.func @own_rows(%x: tensor<4x5x3xf32>, %last: tensor<4xi64>) -> tensor<4x3xf32> {
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<4xi64>
  %row = nn.reshape %i : (tensor<4xi64>) -> tensor<4x1xi64>
  %place = nn.reshape %last : (tensor<4xi64>) -> tensor<4x1xi64>
  %both = nn.concat %row, %place {axis = 1 : i64} : (tensor<4x1xi64>, tensor<4x1xi64>) -> tensor<4x2xi64>
  %0 = nn.gather_nd %x, %both : (tensor<4x5x3xf32>, tensor<4x2xi64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// One fixed entry is a slice, which has a gradient; more of them are a gather.
// CHECK-LABEL: func.func @entries
// CHECK: nn.slice %arg0 {sizes = array<i64: 1, 3>, starts = array<i64: 4, 0>
// CHECK: nn.gather %arg0, %arg1 {axis = 0 : i64} : (tensor<5x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
func.func @entries(%x: tensor<5x3xf32>, %i: tensor<2xi64>) -> (tensor<1x3xf32>, tensor<2x3xf32>) {
  %last = nn.constant dense<-1> : tensor<1x1xi64>
  %0 = nn.gather_nd %x, %last : (tensor<5x3xf32>, tensor<1x1xi64>) -> tensor<1x3xf32>
  %1 = nn.reshape %i : (tensor<2xi64>) -> tensor<2x1xi64>
  %2 = nn.gather_nd %x, %1 : (tensor<5x3xf32>, tensor<2x1xi64>) -> tensor<2x3xf32>
  return %0, %2 : tensor<1x3xf32>, tensor<2x3xf32>
}

// -----

// Where a mask, compared with a number, chooses between a bias and the lowest number, the bias alone is left.
// CHECK-LABEL: func.func @chosen_bias
// CHECK-NOT: nn.select
// CHECK: nn.attention %arg0, %arg1, %arg2, %arg3 {minDistance = 0 : i64
func.func @chosen_bias(%q: tensor<2x8x4x4xf32>, %k: tensor<2x8x4x4xf32>, %v: tensor<2x8x4x4xf32>, %bias: tensor<1x4x1x8xf32>) -> tensor<2x8x4x4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %bound = nn.constant dense<-1.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x8x1xi64>
  %column = nn.reshape %i : (tensor<8xi64>) -> tensor<1x1x1x8xi64>
  %seen = nn.compare %column, %row {predicate = "le"} : (tensor<1x1x1x8xi64>, tensor<1x1x8x1xi64>) -> tensor<1x1x8x8xi1>
  %mask = nn.select %seen, %zero, %low : (tensor<1x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x8x8xf32>
  %hidden = nn.compare %mask, %bound {predicate = "lt"} : (tensor<1x1x8x8xf32>, tensor<f32>) -> tensor<1x1x8x8xi1>
  %full = nn.select %hidden, %low, %bias : (tensor<1x1x8x8xi1>, tensor<f32>, tensor<1x4x1x8xf32>) -> tensor<1x4x8x8xf32>
  %0, %l = nn.attention %q, %k, %v, %full {scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<1x4x8x8xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x4x8xf32>)
  return %0 : tensor<2x8x4x4xf32>
}

// -----

// Strides of a view that lies as it did, written as places; and what is put between what stays.
// CHECK-LABEL: func.func @all_entries
// CHECK: nn.reshape %arg0 : (tensor<24xf32>) -> tensor<4x6xf32>
// CHECK-NOT: nn.gather
func.func @all_entries(%x: tensor<24xf32>) -> tensor<4x6xf32> {
  %six = nn.constant dense<6> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<4x1xi64>
  %j = nn.iota {dimension = 1 : i64} : () -> tensor<1x6xi64>
  %far = nn.mul %i, %six : (tensor<4x1xi64>, tensor<i64>) -> tensor<4x1xi64>
  %places = nn.add %far, %j : (tensor<4x1xi64>, tensor<1x6xi64>) -> tensor<4x6xi64>
  %0 = nn.gather %x, %places {axis = 0 : i64} : (tensor<24xf32>, tensor<4x6xi64>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// CHECK-LABEL: func.func @other_order
// CHECK: nn.gather
func.func @other_order(%x: tensor<24xf32>) -> tensor<4x6xf32> {
  %four = nn.constant dense<4> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<4x1xi64>
  %j = nn.iota {dimension = 1 : i64} : () -> tensor<1x6xi64>
  %far = nn.mul %j, %four : (tensor<1x6xi64>, tensor<i64>) -> tensor<1x6xi64>
  %places = nn.add %i, %far : (tensor<4x1xi64>, tensor<1x6xi64>) -> tensor<4x6xi64>
  %0 = nn.gather %x, %places {axis = 0 : i64} : (tensor<24xf32>, tensor<4x6xi64>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// CHECK-LABEL: func.func @slice_scatter
// CHECK: %[[A:.*]] = nn.slice %arg0 {sizes = array<i64: 4, 1, 3>, starts = array<i64: 0, 0, 0>
// CHECK: %[[B:.*]] = nn.slice %arg0 {sizes = array<i64: 4, 2, 3>, starts = array<i64: 0, 3, 0>
// CHECK: %[[C:.*]] = nn.concat %[[A]], %arg1, %[[B]] {axis = 1 : i64}
// CHECK: return %[[C]], %arg0
func.func @slice_scatter(%x: tensor<4x5x3xf32>, %y: tensor<4x2x3xf32>) -> (tensor<4x5x3xf32>, tensor<4x5x3xf32>) {
  %places = nn.iota {dimension = 0 : i64, start = 1.0 : f64} : () -> tensor<2xi64>
  %0 = nn.scatter %x, %places, %y {axis = 1 : i64} : (tensor<4x5x3xf32>, tensor<2xi64>, tensor<4x2x3xf32>) -> tensor<4x5x3xf32>
  %four = nn.constant dense<4> : tensor<i64>
  %all = nn.iota {dimension = 0 : i64} : () -> tensor<4xi64>
  %wrapped = nn.mod %all, %four : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  %1 = nn.scatter %0, %wrapped, %x {axis = 0 : i64} : (tensor<4x5x3xf32>, tensor<4xi64>, tensor<4x5x3xf32>) -> tensor<4x5x3xf32>
  return %0, %1 : tensor<4x5x3xf32>, tensor<4x5x3xf32>
}

// -----

// CHECK-LABEL: func.func @select_scatter
// CHECK: nn.concat %{{.*}}, %arg1, %{{.*}} {axis = 1 : i64}
// CHECK: nn.scatter_elements %arg0, %{{.*}}, %arg1 {axis = 1 : i64, kind = "add"}
func.func @select_scatter(%x: tensor<4x5x3xf32>, %y: tensor<4x1x3xf32>) -> (tensor<4x5x3xf32>, tensor<4x5x3xf32>) {
  %places = nn.constant dense<2> : tensor<4x1x3xi64>
  %0 = nn.scatter_elements %x, %places, %y {axis = 1 : i64} : (tensor<4x5x3xf32>, tensor<4x1x3xi64>, tensor<4x1x3xf32>) -> tensor<4x5x3xf32>
  %1 = nn.scatter_elements %x, %places, %y {axis = 1 : i64, kind = "add"} : (tensor<4x5x3xf32>, tensor<4x1x3xi64>, tensor<4x1x3xf32>) -> tensor<4x5x3xf32>
  return %0, %1 : tensor<4x5x3xf32>, tensor<4x5x3xf32>
}

// -----

// Unpooling as PyTorch exports it: places within each of 2 x 3 images of 4 elements, where those start is added.
// CHECK-LABEL: func.func @unpooled
// CHECK-DAG: %[[D:.*]] = nn.reshape %arg0 : (tensor<24x1xf32>) -> tensor<6x4xf32>
// CHECK-DAG: %[[L:.*]] = nn.maximum %arg1
// CHECK-DAG: %[[H:.*]] = nn.minimum %[[L]]
// CHECK-DAG: %[[P:.*]] = nn.reshape %[[H]] : (tensor<2x3x2x1xi64>) -> tensor<6x2xi64>
// CHECK-DAG: %[[U:.*]] = nn.reshape %arg2 : (tensor<12x1xf32>) -> tensor<6x2xf32>
// CHECK: nn.scatter_elements %[[D]], %[[P]], %[[U]] {axis = 1 : i64}
// CHECK-NOT: nn.scatter
func.func @unpooled(%x: tensor<24x1xf32>, %i: tensor<2x3x2x1xi64>, %y: tensor<12x1xf32>) -> tensor<24x1xf32> {
  %low = nn.constant dense<0> : tensor<i64>
  %high = nn.constant dense<3> : tensor<i64>
  %four = nn.constant dense<4> : tensor<i64>
  %all = nn.constant dense<24> : tensor<i64>
  %0 = nn.maximum %i, %low : (tensor<2x3x2x1xi64>, tensor<i64>) -> tensor<2x3x2x1xi64>
  %1 = nn.minimum %0, %high : (tensor<2x3x2x1xi64>, tensor<i64>) -> tensor<2x3x2x1xi64>
  %image = nn.iota {dimension = 0 : i64} : () -> tensor<6xi64>
  %2 = nn.reshape %image : (tensor<6xi64>) -> tensor<2x3x1x1xi64>
  %start = nn.mul %2, %four : (tensor<2x3x1x1xi64>, tensor<i64>) -> tensor<2x3x1x1xi64>
  %3 = nn.add %start, %1 : (tensor<2x3x1x1xi64>, tensor<2x3x2x1xi64>) -> tensor<2x3x2x1xi64>
  %4 = nn.reshape %3 : (tensor<2x3x2x1xi64>) -> tensor<12xi64>
  %5 = nn.mod %4, %all : (tensor<12xi64>, tensor<i64>) -> tensor<12xi64>
  %6 = nn.scatter %x, %5, %y {axis = 0 : i64} : (tensor<24x1xf32>, tensor<12xi64>, tensor<12x1xf32>) -> tensor<24x1xf32>
  return %6 : tensor<24x1xf32>
}

// -----

// Places that may lie in the next image, and images that overlap, stay as they are.
// CHECK-LABEL: func.func @not_unpooled
// CHECK-COUNT-2: nn.scatter %
// CHECK-NOT: nn.scatter_elements
func.func @not_unpooled(%x: tensor<24xf32>, %i: tensor<6x2xi64>, %y: tensor<12xf32>) -> (tensor<24xf32>, tensor<24xf32>) {
  %low = nn.constant dense<0> : tensor<i64>
  %high = nn.constant dense<4> : tensor<i64>
  %least = nn.constant dense<3> : tensor<i64>
  %0 = nn.maximum %i, %low : (tensor<6x2xi64>, tensor<i64>) -> tensor<6x2xi64>
  %1 = nn.minimum %0, %high : (tensor<6x2xi64>, tensor<i64>) -> tensor<6x2xi64>
  %2 = nn.minimum %0, %least : (tensor<6x2xi64>, tensor<i64>) -> tensor<6x2xi64>
  %fours = nn.iota {dimension = 0 : i64, step = 4.0 : f64} : () -> tensor<6x1xi64>
  %threes = nn.iota {dimension = 0 : i64, step = 3.0 : f64} : () -> tensor<6x1xi64>
  %3 = nn.add %1, %fours : (tensor<6x2xi64>, tensor<6x1xi64>) -> tensor<6x2xi64>
  %4 = nn.add %2, %threes : (tensor<6x2xi64>, tensor<6x1xi64>) -> tensor<6x2xi64>
  %5 = nn.reshape %3 : (tensor<6x2xi64>) -> tensor<12xi64>
  %6 = nn.reshape %4 : (tensor<6x2xi64>) -> tensor<12xi64>
  %7 = nn.scatter %x, %5, %y {axis = 0 : i64} : (tensor<24xf32>, tensor<12xi64>, tensor<12xf32>) -> tensor<24xf32>
  %8 = nn.scatter %x, %6, %y {axis = 0 : i64} : (tensor<24xf32>, tensor<12xi64>, tensor<12xf32>) -> tensor<24xf32>
  return %7, %8 : tensor<24xf32>, tensor<24xf32>
}

// -----

// Places within images, after what a pooling of single elements counts is taken away: that of each image's first one.
// CHECK-LABEL: func.func @places_in_images
// CHECK: %[[S:.*]] = nn.sub
// CHECK: return %arg0, %[[S]]
func.func @places_in_images(%i: tensor<2x3x4xi64>) -> (tensor<2x3x4xi64>, tensor<2x3x4xi64>) {
  %zero = nn.constant dense<0> : tensor<i64>
  %fourteen = nn.constant dense<14> : tensor<i64>
  %rows = nn.iota {dimension = 0 : i64, step = 45.0 : f64} : () -> tensor<2x3x4xi64>
  %images = nn.iota {dimension = 1 : i64, step = 15.0 : f64} : () -> tensor<2x3x4xi64>
  %0 = nn.add %rows, %images : (tensor<2x3x4xi64>, tensor<2x3x4xi64>) -> tensor<2x3x4xi64>
  %counted = nn.add %i, %0 : (tensor<2x3x4xi64>, tensor<2x3x4xi64>) -> tensor<2x3x4xi64>
  %each = nn.iota {dimension = 2 : i64} : () -> tensor<2x3x15xi64>
  %1 = nn.maximum %each, %zero : (tensor<2x3x15xi64>, tensor<i64>) -> tensor<2x3x15xi64>
  %2 = nn.minimum %1, %fourteen : (tensor<2x3x15xi64>, tensor<i64>) -> tensor<2x3x15xi64>
  %n = nn.iota {dimension = 0 : i64, step = 45.0 : f64} : () -> tensor<2x3x15xi64>
  %c = nn.iota {dimension = 1 : i64, step = 15.0 : f64} : () -> tensor<2x3x15xi64>
  %start = nn.add %n, %c : (tensor<2x3x15xi64>, tensor<2x3x15xi64>) -> tensor<2x3x15xi64>
  %own = nn.add %2, %start : (tensor<2x3x15xi64>, tensor<2x3x15xi64>) -> tensor<2x3x15xi64>
  %first = nn.slice %own {starts = array<i64: 0, 0, 0>, sizes = array<i64: 2, 3, 1>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x15xi64>) -> tensor<2x3x1xi64>
  %second = nn.slice %own {starts = array<i64: 0, 0, 1>, sizes = array<i64: 2, 3, 1>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x15xi64>) -> tensor<2x3x1xi64>
  %3 = nn.sub %counted, %first : (tensor<2x3x4xi64>, tensor<2x3x1xi64>) -> tensor<2x3x4xi64>
  %4 = nn.sub %counted, %second : (tensor<2x3x4xi64>, tensor<2x3x1xi64>) -> tensor<2x3x4xi64>
  return %3, %4 : tensor<2x3x4xi64>, tensor<2x3x4xi64>
}

// -----

// Rows of a table that is stored in four bits are looked up as they are stored, its scales and zeros with them.
// CHECK-LABEL: func.func @stored_rows
// CHECK-DAG: %[[I:.*]] = nn.reshape %arg3 : (tensor<2x3xi64>) -> tensor<6xi64>
// CHECK-DAG: %[[S:.*]] = nn.gather %arg1, %[[I]] {axis = 0 : i64} : (tensor<8x2xf32>, tensor<6xi64>) -> tensor<6x2xf32>
// CHECK-DAG: %[[Z:.*]] = nn.gather %arg2, %[[I]] {axis = 0 : i64}
// CHECK-DAG: %[[T:.*]] = nn.reshape %arg0 : (tensor<32xui8>) -> tensor<8x4xui8>
// CHECK-DAG: %[[R:.*]] = nn.gather %[[T]], %[[I]] {axis = 0 : i64} : (tensor<8x4xui8>, tensor<6xi64>) -> tensor<6x4xui8>
// CHECK: nn.dequantize %[[R]], %[[S]], %[[Z]] {axis = 1 : i64, bits = 4 : i64, block = 4 : i64} : {{.*}} -> tensor<6x8xf32>
func.func @stored_rows(%q: tensor<32xui8>, %s: tensor<8x2xf32>, %z: tensor<8x2xf32>, %i: tensor<2x3xi64>) -> tensor<2x3x8xf32> {
  %0 = nn.dequantize %q, %s, %z {bits = 4 : i64, axis = 1 : i64, block = 4 : i64} : (tensor<32xui8>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x8xf32>
  %1 = nn.gather %0, %i {axis = 0 : i64} : (tensor<8x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  return %1 : tensor<2x3x8xf32>
}

// -----

// Not where rows begin within a byte, nor where they share the scale of a block of rows.
// CHECK-LABEL: func.func @parts_of_bytes
// CHECK-COUNT-2: nn.gather %{{.*}}xf32>, tensor<3xi64>)
func.func @parts_of_bytes(%q: tensor<12xui8>, %r: tensor<64xui8>, %one: tensor<f32>, %s: tensor<2x8xf32>, %i: tensor<3xi64>) -> (tensor<3x3xf32>, tensor<3x8xf32>) {
  %0 = nn.dequantize %q, %one {bits = 4 : i64} : (tensor<12xui8>, tensor<f32>) -> tensor<8x3xf32>
  %1 = nn.gather %0, %i {axis = 0 : i64} : (tensor<8x3xf32>, tensor<3xi64>) -> tensor<3x3xf32>
  %2 = nn.dequantize %r, %s {bits = 8 : i64, axis = 0 : i64, block = 4 : i64} : (tensor<64xui8>, tensor<2x8xf32>) -> tensor<8x8xf32>
  %3 = nn.gather %2, %i {axis = 0 : i64} : (tensor<8x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  return %1, %3 : tensor<3x3xf32>, tensor<3x8xf32>
}

// -----

// Rows taken apart and put together again in their order are the tensor itself, in another order or without one they are not.
// CHECK-LABEL: func.func @apart
// CHECK: %[[Y:.*]] = nn.reshape %arg0 : (tensor<3x2x4xf32>) -> tensor<6x4xf32>
// CHECK: %[[Z:.*]] = nn.concat
// CHECK-NEXT: return %[[Y]], %[[Z]]
func.func @apart(%x: tensor<3x2x4xf32>) -> (tensor<6x4xf32>, tensor<4x4xf32>) {
  %0 = nn.slice %x {starts = array<i64: 0, 0, 0>, sizes = array<i64: 1, 2, 4>, strides = array<i64: 1, 1, 1>} : (tensor<3x2x4xf32>) -> tensor<1x2x4xf32>
  %1 = nn.slice %x {starts = array<i64: 1, 0, 0>, sizes = array<i64: 2, 2, 4>, strides = array<i64: 1, 1, 1>} : (tensor<3x2x4xf32>) -> tensor<2x2x4xf32>
  %2 = nn.reshape %0 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.reshape %1 : (tensor<2x2x4xf32>) -> tensor<4x4xf32>
  %4 = nn.concat %2, %3 {axis = 0 : i64} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %5 = nn.slice %x {starts = array<i64: 2, 0, 0>, sizes = array<i64: 1, 2, 4>, strides = array<i64: 1, 1, 1>} : (tensor<3x2x4xf32>) -> tensor<1x2x4xf32>
  %6 = nn.reshape %5 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
  %7 = nn.concat %6, %2 {axis = 0 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return %4, %7 : tensor<6x4xf32>, tensor<4x4xf32>
}

// -----

// Columns of index tuples are the tensors that the tuples were put together from.
// CHECK-LABEL: func.func @columns
// CHECK: %[[Z:.*]] = nn.concat
// CHECK-NEXT: %[[Y:.*]] = nn.slice %arg1 {{.*}}starts = array<i64: 0, 1>
// CHECK-NEXT: %[[W:.*]] = nn.slice %[[Z]]
// CHECK-NEXT: return %arg0, %[[Y]], %[[W]]
func.func @columns(%x: tensor<3x1xi64>, %y: tensor<3x2xi64>) -> (tensor<3x1xi64>, tensor<3x1xi64>, tensor<3x2xi64>) {
  %0 = nn.concat %x, %y {axis = 1 : i64} : (tensor<3x1xi64>, tensor<3x2xi64>) -> tensor<3x3xi64>
  %1 = nn.slice %0 {starts = array<i64: 0, 0>, sizes = array<i64: 3, 1>, strides = array<i64: 1, 1>} : (tensor<3x3xi64>) -> tensor<3x1xi64>
  %2 = nn.slice %0 {starts = array<i64: 0, 2>, sizes = array<i64: 3, 1>, strides = array<i64: 1, 1>} : (tensor<3x3xi64>) -> tensor<3x1xi64>
  %3 = nn.slice %0 {starts = array<i64: 0, 0>, sizes = array<i64: 3, 2>, strides = array<i64: 1, 1>} : (tensor<3x3xi64>) -> tensor<3x2xi64>
  return %1, %2, %3 : tensor<3x1xi64>, tensor<3x1xi64>, tensor<3x2xi64>
}

// -----

// A whole tensor beside its parts is not the tensor.
// CHECK-LABEL: func.func @twice
// CHECK: nn.concat %arg0, %{{.*}}, %{{.*}} {axis = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
func.func @twice(%t: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %0 = nn.concat %t, %z {axis = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = nn.slice %0 {starts = array<i64: 0, 0>, sizes = array<i64: 4, 8>, strides = array<i64: 1, 1>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = nn.slice %t {starts = array<i64: 0, 0>, sizes = array<i64: 2, 8>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  %3 = nn.slice %t {starts = array<i64: 2, 0>, sizes = array<i64: 2, 8>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  %4 = nn.concat %1, %2, %3 {axis = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// -----

// Scales of blocks of rows are not those of rows: the table is dequantized first.
// CHECK-LABEL: func.func @blocks_of_rows
// CHECK: %[[T:.*]] = nn.dequantize %arg0, %arg1
// CHECK-NEXT: nn.gather %[[T]], %arg2
func.func @blocks_of_rows(%t: tensor<4x8xi8>, %s: tensor<2x8xf32>, %i: tensor<2x3xi64>) -> tensor<2x3x8xf32> {
  %0 = nn.dequantize %t, %s {bits = 8 : i64, isSigned = true, axis = 0 : i64, block = 2 : i64} : (tensor<4x8xi8>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %1 = nn.gather %0, %i {axis = 0 : i64} : (tensor<4x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  return %1 : tensor<2x3x8xf32>
}
