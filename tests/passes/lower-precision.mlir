// RUN: mtc-opt %s --mt-lower-precision --split-input-file | FileCheck %s
// The types of bf16 training, a rule a case.

// Products take and give bf16, and so does what lies between them: the residual stream is bf16. An input keeps its
// type and is cast where a product wants it; trainable parameters are bf16, the loss has 32 bits.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: tensor<2x4xf32> {nn.input = "x"}, %[[W:[^ ]*]]: tensor<4x4xbf16> {nn.parameter = "w", nn.trainable}, %[[B:[^ ]*]]: tensor<4xbf16>
// CHECK: %[[X:.*]] = nn.cast %arg0 : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK: %[[P:.*]] = nn.matmul %[[X]], %[[W]], %[[B]] : {{.*}} -> tensor<2x4xbf16>
// CHECK: %[[G:.*]] = nn.gelu %[[P]] : {{.*}} -> tensor<2x4xbf16>
// CHECK: %[[S:.*]] = nn.add %[[P]], %[[G]] : {{.*}} -> tensor<2x4xbf16>
// CHECK: nn.linear_cross_entropy %[[S]], %[[W]], {{.*}} : (tensor<2x4xbf16>, tensor<4x4xbf16>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable},
                %b: tensor<4xf32> {nn.parameter = "b", nn.trainable}, %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = nn.matmul %x, %w, %b : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %1 = nn.gelu %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = nn.add %0, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.linear_cross_entropy %2, %w, %l, %s : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// A lookup gives its table's type; norms give bf16 whatever they get, with statistics and gains in 32 bits; rotary keeps its
// operand's type, its tables have 32 bits, and so has all that leads to them, the outer product too. Attention takes
// and gives bf16.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: tensor<4xf32> {nn.parameter = "frequencies"}
// CHECK: %[[E:.*]] = nn.embedding {{.*}} -> tensor<1x8x8xbf16>
// CHECK: %[[N:.*]], %{{.*}} = nn.rms_norm %[[E]], %{{.*}} : (tensor<1x8x8xbf16>, tensor<8xf32>) -> (tensor<1x8x8xbf16>, tensor<1x8xf32>)
// CHECK: %[[A:.*]] = nn.matmul %{{.*}}, %{{.*}} : (tensor<8x1xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
// CHECK: nn.cos {{.*}} -> tensor<1x8x4xf32>
// CHECK: %[[Q:.*]] = nn.rotary %{{.*}} : (tensor<1x8x1x8xbf16>, tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<1x8x1x8xbf16>
// CHECK: nn.attention %[[Q]], %[[Q]], %[[Q]] {{.*}} -> (tensor<1x8x1x8xbf16>, tensor<1x1x8xf32>)
// CHECK: %[[F:.*]] = nn.exp %{{.*}} -> tensor<1x8x8xf32>
// CHECK: nn.rms_norm %[[F]], {{.*}} : (tensor<1x8x8xf32>, tensor<8xf32>) -> (tensor<1x8x8xbf16>, tensor<1x8xf32>)
func.func @main(%i: tensor<1x8xi64> {nn.input = "i"}, %t: tensor<9x8xf32> {nn.parameter = "t", nn.trainable},
                %g: tensor<8xf32> {nn.parameter = "g", nn.trainable}, %f: tensor<4xf32> {nn.parameter = "frequencies"}) -> tensor<1x8x8xf32> {
  %0 = nn.embedding %t, %i : (tensor<9x8xf32>, tensor<1x8xi64>) -> tensor<1x8x8xf32>
  %1, %2 = nn.rms_norm %0, %g {epsilon = 1.0e-6 : f64} : (tensor<1x8x8xf32>, tensor<8xf32>) -> (tensor<1x8x8xf32>, tensor<1x8xf32>)
  %3 = nn.iota {dimension = 0 : i64} : () -> tensor<8x1xf32>
  %4 = nn.reshape %f : (tensor<4xf32>) -> tensor<1x4xf32>
  %5 = nn.matmul %3, %4 : (tensor<8x1xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
  %6 = nn.reshape %5 : (tensor<8x4xf32>) -> tensor<1x8x4xf32>
  %7 = nn.cos %6 : (tensor<1x8x4xf32>) -> tensor<1x8x4xf32>
  %8 = nn.sin %6 : (tensor<1x8x4xf32>) -> tensor<1x8x4xf32>
  %9 = nn.reshape %1 : (tensor<1x8x8xf32>) -> tensor<1x8x1x8xf32>
  %10 = nn.rotary %9, %7, %8 : (tensor<1x8x1x8xf32>, tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<1x8x1x8xf32>
  %11, %12 = nn.attention %10, %10, %10 {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x8x1x8xf32>, tensor<1x8x1x8xf32>, tensor<1x8x1x8xf32>) -> (tensor<1x8x1x8xf32>, tensor<1x1x8xf32>)
  %13 = nn.reshape %11 : (tensor<1x8x1x8xf32>) -> tensor<1x8x8xf32>
  %14 = nn.exp %13 : (tensor<1x8x8xf32>) -> tensor<1x8x8xf32>
  %15, %16 = nn.rms_norm %14, %g {epsilon = 1.0e-6 : f64} : (tensor<1x8x8xf32>, tensor<8xf32>) -> (tensor<1x8x8xf32>, tensor<1x8xf32>)
  return %15 : tensor<1x8x8xf32>
}

// -----

// A recurrent layer takes what its product with the inputs gives and a bf16 weight; its states have 32 bits, and so has a
// bias that it alone uses.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: tensor<4x4xbf16> {nn.parameter = "r", nn.trainable}, %{{.*}}: tensor<4xf32> {nn.parameter = "b", nn.trainable}
// CHECK: %[[G:.*]] = nn.matmul {{.*}} -> tensor<3x2x4xbf16>
// CHECK: %[[H:.*]] = nn.recurrence %[[G]], {{.*}} : (tensor<3x2x4xbf16>, tensor<4x4xbf16>, tensor<4xf32>) -> tensor<3x2x4xf32>
// CHECK: %[[C:.*]] = nn.cast %[[H]] : (tensor<3x2x4xf32>) -> tensor<3x2x4xbf16>
// CHECK: nn.matmul %[[C]],
func.func @main(%x: tensor<3x2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable},
                %r: tensor<4x4xf32> {nn.parameter = "r", nn.trainable}, %b: tensor<4xf32> {nn.parameter = "b", nn.trainable}) -> tensor<3x2x4xf32> {
  %0 = nn.matmul %x, %w : (tensor<3x2x4xf32>, tensor<4x4xf32>) -> tensor<3x2x4xf32>
  %1 = nn.recurrence %0, %r, %b {kind = "rnn", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>} : (tensor<3x2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<3x2x4xf32>
  %2 = nn.matmul %1, %w : (tensor<3x2x4xf32>, tensor<4x4xf32>) -> tensor<3x2x4xf32>
  return %2 : tensor<3x2x4xf32>
}

// -----

// What loses too much in bf16 has 32 bits; a quotient by a number is a product. A number takes the other operand's
// type, within bf16's range, and where 32 bits meet bf16 there are 32.
// CHECK-LABEL: func.func @main(
// CHECK: %[[P:.*]] = nn.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[H:.*]] = nn.constant dense<5.000000e-01> : tensor<bf16>
// CHECK: %[[M:.*]] = nn.mul %[[P]], %[[H]] : {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[LOW:.*]] = nn.constant dense<-3.389530e+38> : tensor<bf16>
// CHECK: %[[C:.*]] = nn.select %{{.*}}, %[[M]], %[[LOW]] : {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[D:.*]] = nn.div %[[C]], %{{.*}} : {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[DF:.*]] = nn.cast %[[D]] : {{.*}} -> tensor<4x4xf32>
// CHECK: %[[S:.*]] = nn.softmax %[[DF]] : {{.*}} -> tensor<4x4xf32>
// CHECK: %[[CF:.*]] = nn.cast %[[C]] : {{.*}} -> tensor<4x4xf32>
// CHECK: nn.add %[[S]], %[[CF]] : {{.*}} -> tensor<4x4xf32>
// CHECK: %[[R:.*]] = nn.reduce %{{.*}} {axes = array<i64: 1>, keepDims = true, kind = "mean"} : (tensor<4x4xf32>) -> tensor<4x1xf32>
// CHECK: nn.div %{{.*}}, %[[R]] : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
func.func @main(%m: tensor<4x4xi1> {nn.input = "m"}, %x: tensor<4x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}) -> tensor<4x4xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %0 = nn.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = nn.mul %0, %half : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %2 = nn.select %m, %1, %low : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %3 = nn.div %2, %two : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %4 = nn.softmax %3 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = nn.add %4, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = nn.reduce %5 {kind = "mean", axes = array<i64: 1>, keepDims = true} : (tensor<4x4xf32>) -> tensor<4x1xf32>
  %7 = nn.div %5, %6 : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  return %7 : tensor<4x4xf32>
}

// -----

// Arithmetic on parameters alone has 32 bits, and so has a parameter that only leads to a norm's gain; moving elements
// keeps bf16. An exported cast is honoured, and a
// value that the model has in another type stays.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[G:[^ ]*]]: tensor<4xf32> {nn.parameter = "g", nn.trainable}
// CHECK: %[[ONE:.*]] = nn.add %[[G]], %{{.*}} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK: nn.transpose %{{.*}} : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: %[[P:.*]] = nn.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: nn.rms_norm %[[P]], %[[ONE]] {{.*}} : (tensor<4x4xbf16>, tensor<4xf32>) -> (tensor<4x4xbf16>, tensor<4xf32>)
// CHECK: %[[F:.*]] = nn.cast %{{.*}} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
// CHECK: %[[T:.*]] = nn.silu %[[F]] : {{.*}} -> tensor<4x4xf32>
// CHECK: %[[N:.*]] = nn.cast %[[T]] : (tensor<4x4xf32>) -> tensor<4x4xf16>
// CHECK: nn.silu %[[N]] : (tensor<4x4xf16>) -> tensor<4x4xf16>
func.func @main(%x: tensor<4x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable},
                %g: tensor<4xf32> {nn.parameter = "g", nn.trainable}) -> tensor<4x4xf16> {
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.add %g, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = nn.transpose %w {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = nn.matmul %x, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3, %4 = nn.rms_norm %2, %0 {epsilon = 1.0e-6 : f64} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
  %5 = nn.cast %3 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = nn.silu %5 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %7 = nn.cast %6 : (tensor<4x4xf32>) -> tensor<4x4xf16>
  %8 = nn.silu %7 : (tensor<4x4xf16>) -> tensor<4x4xf16>
  return %8 : tensor<4x4xf16>
}

// -----

// Frozen parameters, and sums of them, are what their users want: weights and embeddings bf16, a table that one user
// wants in 32 bits has 32.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: tensor<4x4xbf16> {nn.parameter = "weight"}
// CHECK-SAME: tensor<9x4xbf16> {nn.parameter = "words"}
// CHECK-SAME: tensor<2x4xbf16> {nn.parameter = "places"}
// CHECK-SAME: tensor<2x4xf32> {nn.parameter = "table"}
// CHECK: nn.add %{{.*}}, %{{.*}} : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
// CHECK: %[[P:.*]] = nn.matmul
// CHECK: nn.exp %{{.*}} : (tensor<2x4xf32>)
// CHECK: %[[T:.*]] = nn.cast %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK: nn.matmul %[[T]]
func.func @main(%i: tensor<2xi64> {nn.input = "i"}, %w: tensor<4x4xf32> {nn.parameter = "weight"}, %e: tensor<9x4xf32> {nn.parameter = "words"},
                %p: tensor<2x4xf32> {nn.parameter = "places"}, %t: tensor<2x4xf32> {nn.parameter = "table"}) -> tensor<2x4xf32> {
  %0 = nn.embedding %e, %i : (tensor<9x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %1 = nn.add %0, %p : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = nn.matmul %1, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = nn.exp %t : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = nn.matmul %t, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %5 = nn.add %2, %4 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = nn.mul %5, %3 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %6 : tensor<2x4xf32>
}

// -----

// Dropout gives its operand's type, random numbers have 32 bits, and counters stay what they are.
// CHECK-LABEL: func.func @main(
// CHECK: nn.dropout %{{.*}} : (tensor<2x4xbf16>, tensor<2xi64>, tensor<16xf64>, tensor<i64>) -> tensor<2x4xbf16>
// CHECK: nn.random %{{.*}} : (tensor<2xi64>, tensor<16xf64>, tensor<i64>) -> tensor<2x4xf32>
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}, %r: tensor<2xi64> {nn.rows},
                %s: tensor<16xf64> {nn.scalars}, %n: tensor<i64> {nn.parameter = "n", nn.buffer}) -> tensor<2x4xf32> {
  %0 = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.dropout %0, %r, %s, %n {ratio = 0.1 : f64} : (tensor<2x4xf32>, tensor<2xi64>, tensor<16xf64>, tensor<i64>) -> tensor<2x4xf32>
  %2 = nn.random %r, %s, %n {kind = "normal"} : (tensor<2xi64>, tensor<16xf64>, tensor<i64>) -> tensor<2x4xf32>
  %3 = nn.add %1, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// -----

// A normalization by statistics that is written as sums and products, as that by the batch's is, has 32 bits inside, is
// rounded once behind its last sum, and what follows has bf16: relu, and the sum with a residual. What goes on after a
// sum, or into a reduction, is not rounded there.
// CHECK-LABEL: func.func @main(
// CHECK: %[[X:.*]] = nn.matmul {{.*}} -> tensor<2x8x4xbf16>
// CHECK: %[[C:.*]] = nn.sub %{{.*}} : (tensor<2x8x4xf32>, tensor<1x1x4xf32>) -> tensor<2x8x4xf32>
// CHECK: nn.mul %[[C]], %[[C]] : {{.*}} -> tensor<2x8x4xf32>
// CHECK: nn.add %{{.*}} : (tensor<2x8x4xf32>, tensor<1x1x4xf32>) -> tensor<2x8x4xf32>
// CHECK: %[[G:.*]] = nn.mul %{{.*}} : (tensor<2x8x4xf32>, tensor<1x1x4xf32>) -> tensor<2x8x4xf32>
// CHECK: %[[S:.*]] = nn.add %[[G]], %{{.*}} : (tensor<2x8x4xf32>, tensor<1x1x4xf32>) -> tensor<2x8x4xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.cast %[[S]] : (tensor<2x8x4xf32>) -> tensor<2x8x4xbf16>
// CHECK-NEXT: %[[R:.*]] = nn.relu %[[Y]] : (tensor<2x8x4xbf16>) -> tensor<2x8x4xbf16>
// CHECK-NEXT: nn.add %[[R]], %[[X]] : (tensor<2x8x4xbf16>, tensor<2x8x4xbf16>) -> tensor<2x8x4xbf16>
func.func @main(%x: tensor<2x8x4xf32> {nn.input = "x"}, %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}, %g: tensor<4xf32> {nn.parameter = "g", nn.trainable}) -> tensor<2x8x4xf32> {
  %0 = nn.matmul %x, %w : (tensor<2x8x4xf32>, tensor<4x4xf32>) -> tensor<2x8x4xf32>
  %1 = nn.reduce %0 {axes = array<i64: 0, 1>, keepDims = true, kind = "mean"} : (tensor<2x8x4xf32>) -> tensor<1x1x4xf32>
  %2 = nn.sub %0, %1 : (tensor<2x8x4xf32>, tensor<1x1x4xf32>) -> tensor<2x8x4xf32>
  %3 = nn.mul %2, %2 : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %4 = nn.reduce %3 {axes = array<i64: 0, 1>, keepDims = true, kind = "mean"} : (tensor<2x8x4xf32>) -> tensor<1x1x4xf32>
  %5 = nn.rsqrt %4 : (tensor<1x1x4xf32>) -> tensor<1x1x4xf32>
  %6 = nn.mul %0, %5 : (tensor<2x8x4xf32>, tensor<1x1x4xf32>) -> tensor<2x8x4xf32>
  %7 = nn.add %6, %1 : (tensor<2x8x4xf32>, tensor<1x1x4xf32>) -> tensor<2x8x4xf32>
  %8 = nn.reshape %g : (tensor<4xf32>) -> tensor<1x1x4xf32>
  %9 = nn.mul %7, %8 : (tensor<2x8x4xf32>, tensor<1x1x4xf32>) -> tensor<2x8x4xf32>
  %10 = nn.add %9, %8 : (tensor<2x8x4xf32>, tensor<1x1x4xf32>) -> tensor<2x8x4xf32>
  %11 = nn.relu %10 : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %12 = nn.add %11, %0 : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %12 : tensor<2x8x4xf32>
}
