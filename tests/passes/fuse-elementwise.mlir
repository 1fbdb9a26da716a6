// Operations that use each other's elements become one.
// RUN: mtc-opt --mt-fuse-elementwise %s | FileCheck %s

func.func @main() {
  return
}

// CHECK-LABEL: func.func private @chain
// CHECK-NEXT: %[[R:.*]] = nn.elementwise %arg0, %arg1, %arg2 {expression = "mul 0 1:f32, tanh 3:f32, add 4 2:f32 -> 5"} : (tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: return %[[R]]
func.func private @chain(%x: tensor<4x8xf32>, %gain: tensor<8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.mul %x, %gain : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = nn.tanh %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.add %1, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// What is used elsewhere, too, is a result; constants and repeated values are not inputs; choices are named.
// CHECK-LABEL: func.func private @results
// CHECK-NEXT: %[[R:.*]]:2 = nn.elementwise %arg0, %arg1 {expression = "constant 0.5:f32, mul 0 2:f32, gelu.tanh 3:f32, compare.lt 4 1:bool, select 5 4 3:f32 -> 4 6"}
// CHECK-NEXT: nn.softmax %[[R]]#0
func.func private @results(%x: tensor<4x8xf32>, %row: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %half = nn.constant dense<0.5> : tensor<f32>
  %rows = nn.broadcast %row : (tensor<8xf32>) -> tensor<4x8xf32>
  %0 = nn.mul %x, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = nn.gelu %0 {form = "tanh"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.compare %1, %rows {predicate = "lt"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %3 = nn.select %2, %1, %0 : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = nn.softmax %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3, %4 : tensor<4x8xf32>, tensor<4x8xf32>
}

// What depends on one of them by something else does not join them; a sum of fewer elements is not computed again for each.
// CHECK-LABEL: func.func private @apart
// CHECK: %[[E:.*]] = nn.exp %arg0
// CHECK: %[[S:.*]] = nn.reduce %[[E]]
// CHECK: %[[N:.*]] = nn.neg %[[S]]
// CHECK: nn.elementwise %[[E]], %[[N]] {expression = "div 0 1:f32, sin 2:f32 -> 3"}
func.func private @apart(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = nn.reduce %0 {kind = "sum", axes = array<i64: 1>, keepDims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %2 = nn.neg %1 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %3 = nn.div %0, %2 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %4 = nn.sin %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// Through views, where nothing is broadcast in another shape; a conversion is made again for each that uses it.
// CHECK-LABEL: func.func private @views
// CHECK: %[[W:.*]] = nn.cast %arg0
// CHECK: %[[X:.*]] = nn.reshape %arg0 : (tensor<4x8xbf16>) -> tensor<32xbf16>
// CHECK: nn.elementwise %[[X]] {expression = "cast 0:f32, exp 1:f32, sin 2:f32 -> 3"} : (tensor<32xbf16>) -> tensor<32xf32>
// CHECK: nn.softmax %[[W]]
func.func private @views(%x: tensor<4x8xbf16>) -> (tensor<32xf32>, tensor<4x8xf32>) {
  %0 = nn.cast %x : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %1 = nn.exp %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.reshape %1 : (tensor<4x8xf32>) -> tensor<32xf32>
  %3 = nn.sin %2 : (tensor<32xf32>) -> tensor<32xf32>
  %4 = nn.softmax %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3, %4 : tensor<32xf32>, tensor<4x8xf32>
}

// Alone, an operation stays itself, and repeats its operand by itself.
// CHECK-LABEL: func.func private @alone
// CHECK-NEXT: nn.mul %arg0, %arg1 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func private @alone(%x: tensor<4x8xf32>, %row: tensor<8xf32>) -> tensor<4x8xf32> {
  %rows = nn.broadcast %row : (tensor<8xf32>) -> tensor<4x8xf32>
  %0 = nn.mul %x, %rows : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Zeros of both signs are two constants. What a conversion that stays is made of is not computed twice.
// CHECK-LABEL: func.func private @numbers
// CHECK: {expression = "constant 0:f32, constant -0:f32, maximum 0 {{[23]}}:f32, mul 1 {{[23]}}:f32, add 4 5:f32 -> 6"}
// CHECK: %[[S:.*]] = nn.add %arg2, %arg2
// CHECK: %[[C:.*]] = nn.cast %[[S]]
// CHECK: nn.elementwise %[[S]] {expression = "cast 0:f32, exp 1:f32 -> 2"}
// CHECK: nn.softmax %[[C]]
func.func private @numbers(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<4x8xbf16>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %plus = nn.constant dense<0.0> : tensor<f32>
  %minus = nn.constant dense<-0.0> : tensor<f32>
  %0 = nn.maximum %x, %plus : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = nn.mul %y, %minus : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %2 = nn.add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = nn.add %z, %z : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %4 = nn.cast %3 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %5 = nn.exp %4 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = nn.softmax %4 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2, %5, %6 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// A gated product repeats nothing.
// CHECK-LABEL: func.func private @gated
// CHECK: %[[G:.*]] = nn.broadcast %arg0
// CHECK: nn.gated_product %[[G]], %arg1
func.func private @gated(%g: tensor<8xf32>, %u: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.broadcast %g : (tensor<8xf32>) -> tensor<4x8xf32>
  %1 = nn.gated_product %0, %u {activation = "silu"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// What stands near and reads the same is computed with it; what is made again stands where it is used.
// CHECK-LABEL: func.func private @beside
// CHECK: %[[D:.*]] = nn.matmul %arg2, %arg3
// CHECK-NEXT: %[[E:.*]]:3 = nn.elementwise %arg0, %arg1, %[[D]] {expression = "gated_product.silu 0 1:f32, gated_product_grad.silu 0 1 2:f32 -> 3 4 5"}
// CHECK-NEXT: nn.matmul %arg2, %[[E]]#0 {transposeLhs = true}
func.func private @beside(%g: tensor<8x8xf32>, %u: tensor<8x8xf32>, %dy: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %p = nn.gated_product %g, %u {activation = "silu", nn.again} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = nn.matmul %dy, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = nn.matmul %dy, %p {transposeLhs = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1, %2 = nn.gated_product_grad %g, %u, %d {activation = "silu"} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  return %0, %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// Sums and means of what is computed, or read, are made where it is: of one kind each, and where memory is read in long runs. The
// largest of rows are not, nor what nothing elementwise computes.
// CHECK-LABEL: func.func private @statistics
// CHECK-NEXT: %[[V:.*]] = nn.elementwise_sums %arg0, %arg1 {axes = array<i64: 0, 2, 3>, expression = "sub 0 1:f32, mul 2 2:f32 -> 3", kind = "mean", sums = 1 : i64} : (tensor<4x8x16x16xf32>, tensor<1x8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT: %[[R:.*]] = nn.reshape %[[V]]
// CHECK-NEXT: return %[[R]]
func.func private @statistics(%x: tensor<4x8x16x16xf32>, %mean: tensor<1x8x1x1xf32>) -> tensor<1x8x1x1xf32> {
  %0 = nn.sub %x, %mean : (tensor<4x8x16x16xf32>, tensor<1x8x1x1xf32>) -> tensor<4x8x16x16xf32>
  %1 = nn.mul %0, %0 : (tensor<4x8x16x16xf32>, tensor<4x8x16x16xf32>) -> tensor<4x8x16x16xf32>
  %2 = nn.reduce %1 {kind = "mean", axes = array<i64: 0, 2, 3>, keepDims = true} : (tensor<4x8x16x16xf32>) -> tensor<1x8x1x1xf32>
  return %2 : tensor<1x8x1x1xf32>
}

// CHECK-LABEL: func.func private @gradients
// CHECK-NEXT: %[[G:.*]]:4 = nn.elementwise_sums %arg0, %arg1, %arg2 {axes = array<i64: 0, 2, 3>, expression = "activation_grad.relu 0 1:bf16, cast 3:f32, mul 4 2:f32, cast 1:f32 -> 3 6 3 5", kind = "sum", sums = 3 : i64}
// CHECK-SAME: -> (tensor<4x8x16x16xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
// CHECK-NEXT: return %[[G]]#0, %[[G]]#1, %[[G]]#2, %[[G]]#3
func.func private @gradients(%y: tensor<4x8x16x16xbf16>, %dy: tensor<4x8x16x16xbf16>, %x: tensor<4x8x16x16xf32>) -> (tensor<4x8x16x16xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = nn.activation_grad %y, %dy {activation = "relu"} : (tensor<4x8x16x16xbf16>, tensor<4x8x16x16xbf16>) -> tensor<4x8x16x16xbf16>
  %1 = nn.reduce %dy {kind = "sum", axes = array<i64: 0, 2, 3>, keepDims = false} : (tensor<4x8x16x16xbf16>) -> tensor<8xf32>
  %2 = nn.cast %0 : (tensor<4x8x16x16xbf16>) -> tensor<4x8x16x16xf32>
  %3 = nn.mul %2, %x : (tensor<4x8x16x16xf32>, tensor<4x8x16x16xf32>) -> tensor<4x8x16x16xf32>
  %4 = nn.reduce %0 {kind = "sum", axes = array<i64: 0, 2, 3>, keepDims = false} : (tensor<4x8x16x16xbf16>) -> tensor<8xf32>
  %5 = nn.reduce %3 {kind = "sum", axes = array<i64: 0, 2, 3>, keepDims = false} : (tensor<4x8x16x16xf32>) -> tensor<8xf32>
  return %0, %1, %4, %5 : tensor<4x8x16x16xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func private @few
// CHECK: nn.elementwise_sums %arg0 {axes = array<i64: 0>, expression = "neg 0:f32 -> 1 1", kind = "sum", sums = 1 : i64}
// CHECK: %[[E:.*]] = nn.exp %arg1
// CHECK: nn.reduce %[[E]]
// CHECK: nn.reduce %{{.*}} kind = "max"
// CHECK: %[[S:.*]] = nn.softmax
// CHECK: nn.reduce %[[S]]
func.func private @few(%x: tensor<64x256xf32>, %z: tensor<2048x4xf32>) -> (tensor<64x256xf32>, tensor<256xf32>, tensor<2048xf32>, tensor<64x1xf32>, tensor<256xf32>) {
  %0 = nn.neg %x : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %1 = nn.reduce %0 {kind = "sum", axes = array<i64: 0>, keepDims = false} : (tensor<64x256xf32>) -> tensor<256xf32>
  %2 = nn.exp %z : (tensor<2048x4xf32>) -> tensor<2048x4xf32>
  %3 = nn.reduce %2 {kind = "sum", axes = array<i64: 1>, keepDims = false} : (tensor<2048x4xf32>) -> tensor<2048xf32>
  %4 = nn.reduce %0 {kind = "max", axes = array<i64: 1>, keepDims = true} : (tensor<64x256xf32>) -> tensor<64x1xf32>
  %5 = nn.softmax %0 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %6 = nn.reduce %5 {kind = "sum", axes = array<i64: 0>, keepDims = false} : (tensor<64x256xf32>) -> tensor<256xf32>
  return %0, %1, %3, %4, %6 : tensor<64x256xf32>, tensor<256xf32>, tensor<2048xf32>, tensor<64x1xf32>, tensor<256xf32>
}

// Nothing that is read has the elements that are summed: it is repeated.
// CHECK-LABEL: func.func private @repeated
// CHECK: nn.elementwise %arg0
// CHECK: nn.reduce
func.func private @repeated(%x: tensor<1x256xf32>) -> tensor<256xf32> {
  %0 = nn.broadcast %x : (tensor<1x256xf32>) -> tensor<64x256xf32>
  %1 = nn.exp %0 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %2 = nn.neg %1 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %3 = nn.reduce %2 {kind = "sum", axes = array<i64: 0>, keepDims = false} : (tensor<64x256xf32>) -> tensor<256xf32>
  return %3 : tensor<256xf32>
}

// A sum of what is read comes along where nothing has used it yet, and its views with it.
// CHECK-LABEL: func.func private @views_of_sums
// CHECK-NEXT: %[[S:.*]]:2 = nn.elementwise_sums %arg0, %arg1 {axes = array<i64: 0>, expression = "mul 0 1:f32, cast 0:f32 -> 3 2"
// CHECK-NEXT: %[[A:.*]] = nn.reshape %[[S]]#0
// CHECK: nn.neg %[[A]]
func.func private @views_of_sums(%x: tensor<64x256xf32>, %y: tensor<64x256xf32>) -> (tensor<1x256xf32>, tensor<256xf32>) {
  %0 = nn.reduce %x {kind = "sum", axes = array<i64: 0>, keepDims = false} : (tensor<64x256xf32>) -> tensor<256xf32>
  %1 = nn.reshape %0 : (tensor<256xf32>) -> tensor<1x256xf32>
  %2 = nn.mul %x, %y : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %3 = nn.reduce %2 {kind = "sum", axes = array<i64: 0>, keepDims = false} : (tensor<64x256xf32>) -> tensor<256xf32>
  %4 = nn.neg %1 : (tensor<1x256xf32>) -> tensor<1x256xf32>
  return %4, %3 : tensor<1x256xf32>, tensor<256xf32>
}

// Views of a sum of what is read, written down before it, come behind the view that the sum becomes.
// CHECK-LABEL: func.func private @views_before
// CHECK: %[[S:.*]]:2 = nn.elementwise_sums
// CHECK-DAG: %[[ONE:.*]] = nn.reshape %[[S]]#0 : (tensor<f32>) -> tensor<1x1xf32>
// CHECK-DAG: %[[OTHER:.*]] = nn.reshape %[[S]]#1 : (tensor<f32>) -> tensor<1x1xf32>
// CHECK: nn.add
func.func private @views_before(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> tensor<f32> {
  %0 = nn.reduce %x {kind = "mean", axes = array<i64: 0, 1>, keepDims = true} : (tensor<64x32xf32>) -> tensor<1x1xf32>
  %1 = nn.reshape %0 : (tensor<1x1xf32>) -> tensor<f32>
  %2 = nn.add %x, %y : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %3 = nn.reduce %2 {kind = "mean", axes = array<i64: 0, 1>, keepDims = true} : (tensor<64x32xf32>) -> tensor<1x1xf32>
  %4 = nn.reshape %3 : (tensor<1x1xf32>) -> tensor<f32>
  %5 = nn.add %1, %4 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %5 : tensor<f32>
}

// Whole numbers are numbers of an expression where a double holds them; 2^53 + 1 is read.
// CHECK-LABEL: func.func private @whole_numbers
// CHECK-DAG: %[[ODD:.*]] = nn.constant dense<9007199254740993>
// CHECK: nn.elementwise %arg0, %[[ODD]] {expression = "constant 5:i64, {{.*}}compare.{{.*}}"}
func.func private @whole_numbers(%x: tensor<4x8xi64>) -> tensor<4x8xi1> {
  %five = nn.constant dense<5> : tensor<i64>
  %odd = nn.constant dense<9007199254740993> : tensor<i64>
  %0 = nn.add %x, %five : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi64>
  %1 = nn.compare %0, %odd {predicate = "lt"} : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi1>
  return %1 : tensor<4x8xi1>
}

// The least number of a type is one of it.
// CHECK-LABEL: func.func private @least_of_bytes
// CHECK: nn.elementwise %arg0 {expression = "constant -128:i8
func.func private @least_of_bytes(%x: tensor<4x8xi8>) -> tensor<4x8xi1> {
  %least = nn.constant dense<-128> : tensor<i8>
  %0 = nn.neg %x : (tensor<4x8xi8>) -> tensor<4x8xi8>
  %1 = nn.compare %0, %least {predicate = "gt"} : (tensor<4x8xi8>, tensor<i8>) -> tensor<4x8xi1>
  return %1 : tensor<4x8xi1>
}
