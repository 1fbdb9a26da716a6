// RUN: mtc-opt %s --mt-differentiate --cse --split-input-file | FileCheck %s
// Backward templates: what each rung of the ladder saves and recomputes, and which gradients a template gives.

// Two calls of one template. The first one's input is data, so its backward gives no gradient for it (and that of the
// second does): two sets of backward templates. The loss computes itself again in its backward, and has one rung.
// CHECK-LABEL: func.func @main(
// CHECK: call @block(%arg0, %arg1) {nn.backward = "block"}
// CHECK: call @block(%{{.*}}, %arg2) {nn.backward = "block.1"}
// CHECK: call @loss(%{{.*}}, %arg3, %arg4) {nn.backward = "loss"}

// Rung `input`: everything is computed again from the arguments, and only the parameter gets a gradient.
// CHECK-LABEL: func.func private @block.backward.input(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<2x8x2x4xf32> {nn.argument = 0 : i64}, %[[W:[^ ]*]]: tensor<4x4xf32> {nn.argument = 1 : i64}, %[[DY:[^ ]*]]: tensor<2x8x2x4xf32> {nn.gradient = 0 : i64}) -> (tensor<4x4xf32> {nn.gradient = 1 : i64})
// CHECK-NEXT: %[[Q:.*]] = nn.matmul %[[X]], %[[W]]
// CHECK-NEXT: %[[A:.*]], %[[L:.*]] = nn.attention %[[Q]], %[[Q]], %[[X]]
// CHECK-NEXT: %[[DA:.*]] = nn.activation_grad %[[A]], %[[DY]] {activation = "silu"}
// CHECK-NEXT: %[[DQ:.*]], %[[DK:.*]], %{{.*}} = nn.attention_grad %[[DA]], %[[Q]], %[[Q]], %[[X]], %[[A]], %[[L]]
// CHECK-NEXT: %[[SUM:.*]] = nn.add %[[DQ]], %[[DK]]
// CHECK: %[[DW:.*]] = nn.matmul %{{.*}}, %{{.*}} {transposeLhs = true}
// CHECK-NEXT: return %[[DW]] :

// Rung `attention`: its output and statistics come in, the product before it is computed again.
// CHECK-LABEL: func.func private @block.backward.attention(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<2x8x2x4xf32> {nn.argument = 0 : i64}, %[[W:[^ ]*]]: tensor<4x4xf32> {nn.argument = 1 : i64}, %[[DY:[^ ]*]]: tensor<2x8x2x4xf32> {nn.gradient = 0 : i64}, %[[A:[^ ]*]]: tensor<2x8x2x4xf32> {nn.saved = 0 : i64}, %[[L:[^ ]*]]: tensor<2x2x8xf32> {nn.saved = 1 : i64})
// CHECK-NEXT: %[[Q:.*]] = nn.matmul %[[X]], %[[W]]
// CHECK-NOT: nn.attention %
// CHECK: nn.attention_grad %{{.*}}, %[[Q]], %[[Q]], %[[X]], %[[A]], %[[L]]
// CHECK-LABEL: func.func private @block.forward.attention(
// CHECK: %[[Q:.*]] = nn.matmul
// CHECK: %[[A:.*]], %[[L:.*]] = nn.attention
// CHECK: %[[Y:.*]] = nn.silu
// CHECK: return %[[Y]], %[[A]], %[[L]] :

// Rung `all`: no operation of the forward is left, and the weight is not needed here any more.
// CHECK-LABEL: func.func private @block.backward.all(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<2x8x2x4xf32> {nn.argument = 0 : i64}, %[[DY:[^ ]*]]: tensor<2x8x2x4xf32> {nn.gradient = 0 : i64}, %[[A:[^ ]*]]: tensor<2x8x2x4xf32> {nn.saved = 0 : i64}, %[[Q:[^ ]*]]: tensor<2x8x2x4xf32> {nn.saved = 1 : i64}, %[[L:[^ ]*]]: tensor<2x2x8xf32> {nn.saved = 2 : i64})
// CHECK-NEXT: nn.activation_grad
// CHECK-NEXT: nn.attention_grad %{{.*}}, %[[Q]], %[[Q]], %[[X]], %[[A]], %[[L]]
// CHECK-LABEL: func.func private @block.forward.all(
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x2x8xf32>

// The second call's: x has two uses, as the values and through the product, and its gradient is their sum.
// CHECK-LABEL: func.func private @block.1.backward.input(
// CHECK-SAME: -> (tensor<2x8x2x4xf32> {nn.gradient = 0 : i64}, tensor<4x4xf32> {nn.gradient = 1 : i64})
// CHECK: %{{.*}}, %{{.*}}, %[[DV:.*]] = nn.attention_grad
// CHECK: %[[THROUGH:.*]] = nn.matmul %{{.*}}, %arg1 {transposeRhs = true}
// CHECK: %[[DX:.*]] = nn.add %[[DV]], %[[THROUGH]]
// CHECK: return %[[DX]], %{{.*}} : tensor<2x8x2x4xf32>, tensor<4x4xf32>

// CHECK-LABEL: func.func private @loss.backward.input(
// CHECK-SAME: -> (tensor<f32> {nn.result = 0 : i64}, tensor<2x8x2x4xf32> {nn.gradient = 0 : i64})
// CHECK: %[[LOSS:.*]], %[[D:.*]] = nn.cross_entropy_grad
// CHECK-NOT: nn.mul
// CHECK: %[[DX:.*]] = nn.reshape %[[D]]
// CHECK: return %[[LOSS]], %[[DX]] :
// CHECK-NOT: loss.backward.all
func.func private @block(%x: tensor<2x8x2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x8x2x4xf32> {
  %q = nn.matmul %x, %w : (tensor<2x8x2x4xf32>, tensor<4x4xf32>) -> tensor<2x8x2x4xf32>
  %a, %lse = nn.attention %q, %q, %x {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>) -> (tensor<2x8x2x4xf32>, tensor<2x2x8xf32>)
  %y = nn.silu %a : (tensor<2x8x2x4xf32>) -> tensor<2x8x2x4xf32>
  return %y : tensor<2x8x2x4xf32>
}
func.func private @loss(%x: tensor<2x8x2x4xf32>, %l: tensor<32xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %r = nn.reshape %x : (tensor<2x8x2x4xf32>) -> tensor<32x4xf32>
  %y = nn.cross_entropy %r, %l, %s : (tensor<32x4xf32>, tensor<32xi64>, tensor<16xf64>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func @main(%x: tensor<2x8x2x4xf32> {nn.input = "x"}, %v: tensor<4x4xf32> {nn.parameter = "v", nn.trainable},
                %w: tensor<4x4xf32> {nn.parameter = "w", nn.trainable}, %l: tensor<32xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @block(%x, %v) : (tensor<2x8x2x4xf32>, tensor<4x4xf32>) -> tensor<2x8x2x4xf32>
  %1 = call @block(%0, %w) : (tensor<2x8x2x4xf32>, tensor<4x4xf32>) -> tensor<2x8x2x4xf32>
  %2 = call @loss(%1, %l, %s) : (tensor<2x8x2x4xf32>, tensor<32xi64>, tensor<16xf64>) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// A shared value that depends on a parameter carries gradient: every user gives its part. A frozen parameter gets none,
// and what is upstream of every trainable parameter has no backward at all.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[N:.*]] = call @frozen(%arg0, %arg1) :
// CHECK-NEXT: %[[M:.*]] = call @encode(%[[N]], %arg2) {nn.backward = "encode"}
// CHECK-NEXT: %[[A:.*]] = call @decode(%[[M]], %[[M]], %arg3) {nn.backward = "decode"}
// CHECK-NEXT: %[[B:.*]] = call @decode(%[[A]], %[[M]], %arg4) {nn.backward = "decode.1"}
// CHECK-NOT: @frozen.backward
// CHECK-LABEL: func.func private @encode.backward.input({{.*}}) -> (tensor<4x4xf32> {nn.gradient = 1 : i64})
// CHECK-LABEL: func.func private @decode.backward.input({{.*}}) -> (tensor<2x4xf32> {nn.gradient = 0 : i64}, tensor<2x4xf32> {nn.gradient = 1 : i64}, tensor<4x4xf32> {nn.gradient = 2 : i64})
// CHECK-LABEL: func.func private @decode.1.backward.input({{.*}}) -> (tensor<2x4xf32> {nn.gradient = 0 : i64}, tensor<2x4xf32> {nn.gradient = 1 : i64})
func.func private @frozen(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
func.func private @encode(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
func.func private @decode(%x: tensor<2x4xf32>, %m: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.mul %0, %m : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
func.func private @loss(%x: tensor<2x4xf32>, %l: tensor<2xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %y = nn.cross_entropy %x, %l, %s : (tensor<2x4xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func @main(%x: tensor<2x4xf32> {nn.input = "x"}, %f: tensor<4x4xf32> {nn.parameter = "f"},
                %a: tensor<4x4xf32> {nn.parameter = "a", nn.trainable}, %b: tensor<4x4xf32> {nn.parameter = "b", nn.trainable},
                %c: tensor<4x4xf32> {nn.parameter = "c"}, %l: tensor<2xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @frozen(%x, %f) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = call @encode(%0, %a) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = call @decode(%1, %1, %b) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = call @decode(%2, %1, %c) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %4 = call @loss(%3, %l, %s) : (tensor<2x4xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %4 : tensor<f32>
}

// -----

// No gradient goes through what is detached or flat, and the operation itself is gone: the gradient of w times what x and
// w make, detached, is that of the factor w alone.
// CHECK-LABEL: func.func private @half.backward.input(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<4xf32> {nn.argument = 0 : i64}, %[[DY:[^ ]*]]: tensor<4xf32> {nn.gradient = 0 : i64})
// CHECK-NEXT: %[[F:.*]] = nn.floor %[[X]]
// CHECK-NEXT: %[[DW:.*]] = nn.mul %[[DY]], %[[F]]
// CHECK-NEXT: return %[[DW]] :
// CHECK-NOT: nn.detach
func.func private @half(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.detach %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.floor %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.mul %w, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.round %w : (tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.add %2, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}
func.func private @sum(%x: tensor<4xf32>, %v: tensor<4xf32>, %l: tensor<4xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.mul %x, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.reshape %0 : (tensor<4xf32>) -> tensor<4x1xf32>
  %2 = nn.cross_entropy %1, %l, %s : (tensor<4x1xf32>, tensor<4xi64>, tensor<16xf64>) -> tensor<f32>
  return %2 : tensor<f32>
}
func.func @main(%x: tensor<4xf32> {nn.input = "x"}, %w: tensor<4xf32> {nn.parameter = "w", nn.trainable},
                %v: tensor<4xf32> {nn.parameter = "v", nn.trainable}, %l: tensor<4xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @half(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = call @sum(%0, %v, %l, %s) : (tensor<4xf32>, tensor<4xf32>, tensor<4xi64>, tensor<16xf64>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Rung `all` leaves out what one pass makes again of values that are there: a norm of the input, a gated product.
// CHECK-LABEL: func.func private @gated.backward.all(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<64x8xf32> {nn.argument = 0 : i64}, {{.*}}, %[[G:[^ ]*]]: tensor<64x8xf32> {nn.saved = 0 : i64}, %[[U:[^ ]*]]: tensor<64x8xf32> {nn.saved = 1 : i64}, %[[R:[^ ]*]]: tensor<64xf32> {nn.saved = 2 : i64})
// CHECK: %[[N:[^,]*]], %{{.*}} = nn.rms_norm %[[X]], %{{.*}} {{{.*}}nn.again
// CHECK: %[[P:.*]] = nn.gated_product %[[G]], %[[U]] {{{.*}}nn.again
// CHECK: nn.matmul %[[P]]
// CHECK: nn.gated_product_grad %[[G]], %[[U]]
// CHECK: nn.matmul %[[N]]
// CHECK: nn.rms_norm_grad %{{.*}}, %[[X]], %[[R]]
// CHECK-LABEL: func.func private @gated.forward.all(
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>, tensor<64xf32>
func.func private @gated(%x: tensor<64x8xf32>, %gain: tensor<8xf32>, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>, %o: tensor<8x8xf32>) -> tensor<64x8xf32> {
  %n, %r = nn.rms_norm %x, %gain {epsilon = 1.0e-5} : (tensor<64x8xf32>, tensor<8xf32>) -> (tensor<64x8xf32>, tensor<64xf32>)
  %g = nn.matmul %n, %w : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
  %u = nn.matmul %n, %v : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
  %p = nn.gated_product %g, %u {activation = "silu"} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  %y = nn.matmul %p, %o : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
  return %y : tensor<64x8xf32>
}
func.func private @last(%x: tensor<64x8xf32>, %l: tensor<64xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.cross_entropy %x, %l, %s : (tensor<64x8xf32>, tensor<64xi64>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<64x8xf32> {nn.parameter = "x", nn.trainable}, %gain: tensor<8xf32> {nn.parameter = "gain", nn.trainable}, %w: tensor<8x8xf32> {nn.parameter = "w", nn.trainable},
                %v: tensor<8x8xf32> {nn.parameter = "v", nn.trainable}, %o: tensor<8x8xf32> {nn.parameter = "o", nn.trainable}, %l: tensor<64xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @gated(%x, %gain, %w, %v, %o) : (tensor<64x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
  %1 = call @last(%0, %l, %s) : (tensor<64x8xf32>, tensor<64xi64>, tensor<16xf64>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Of what was widened from bf16 that is saved, and what follows from it and a mean is made again with it. Sums read what
// was widened for them alone as it is.
// CHECK-LABEL: func.func private @centered.backward.all(
// CHECK-SAME: %[[Y:[^ ]*]]: tensor<64x8xbf16> {nn.saved = {{[0-9]}} : i64}
// CHECK-NOT: tensor<64x8xf32> {nn.saved
// CHECK: %[[W:.*]] = nn.cast %[[Y]] {nn.again} : (tensor<64x8xbf16>) -> tensor<64x8xf32>
// CHECK: nn.sub %[[W]], %{{.*}} {nn.again}
// CHECK-LABEL: func.func private @centered.forward.all(
// CHECK: %[[P:.*]] = nn.matmul {{.*}} -> tensor<64x8xbf16>
// CHECK: nn.reduce %[[P]] {{.*}} : (tensor<64x8xbf16>) -> tensor<1x8xf32>
func.func private @centered(%x: tensor<64x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<64x8xf32> {
  %p = nn.matmul %x, %w : (tensor<64x8xbf16>, tensor<8x8xbf16>) -> tensor<64x8xbf16>
  %f = nn.cast %p : (tensor<64x8xbf16>) -> tensor<64x8xf32>
  %m = nn.reduce %f {axes = array<i64: 0>, keepDims = true, kind = "mean"} : (tensor<64x8xf32>) -> tensor<1x8xf32>
  %c = nn.sub %f, %m : (tensor<64x8xf32>, tensor<1x8xf32>) -> tensor<64x8xf32>
  %s = nn.mul %c, %c : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  %t = nn.mul %s, %m : (tensor<64x8xf32>, tensor<1x8xf32>) -> tensor<64x8xf32>
  %y = nn.mul %t, %f : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  return %y : tensor<64x8xf32>
}
func.func private @end(%x: tensor<64x8xf32>, %l: tensor<64xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %0 = nn.cross_entropy %x, %l, %s : (tensor<64x8xf32>, tensor<64xi64>, tensor<16xf64>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<64x8xbf16> {nn.parameter = "x", nn.trainable}, %w: tensor<8x8xbf16> {nn.parameter = "w", nn.trainable}, %l: tensor<64xi64> {nn.labels}, %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @centered(%x, %w) : (tensor<64x8xbf16>, tensor<8x8xbf16>) -> tensor<64x8xf32>
  %1 = call @end(%0, %l, %s) : (tensor<64x8xf32>, tensor<64xi64>, tensor<16xf64>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// A norm that is written out, behind a convolution: backward makes what it needs of one saved value again, by operations that
// one pass over memory does, from rows that are saved in its place. The mean that the variance is around has no gradient: it
// would be a sum of distances from a mean.
// CHECK-LABEL: func.func private @norm.backward.all(
// CHECK-SAME: %[[Y:[^ ]*]]: tensor<4x8x16xf32> {nn.saved = {{[0-9]}} : i64}
// CHECK-NOT: tensor<4x8x16xf32> {nn.saved
// CHECK-SAME: -> (
// CHECK-DAG: %[[D:.*]] = nn.sub %[[Y]], %{{.*}} {nn.again}
// CHECK-DAG: %[[S:.*]] = nn.mul %{{.*}}, %{{.*}} {nn.again} : (tensor<8x1xf32>, tensor<1x8x1xf32>)
// CHECK-DAG: %[[P:.*]] = nn.mul %[[Y]], %[[S]] {nn.again}
// CHECK-DAG: %[[Q:.*]] = nn.add %[[P]], %{{.*}} {nn.again}
// CHECK: %[[G:.*]] = nn.activation_grad %[[Q]], %{{.*}} {activation = "relu"}
// CHECK: nn.reduce %[[G]] {{.*}} kind = "sum"
// CHECK: %[[X:.*]] = nn.mul %[[G]], %[[Y]]
// CHECK: nn.reduce %[[X]] {{.*}} kind = "sum"
// CHECK-NOT: nn.reduce {{.*}}tensor<4x8x16xf32>
// CHECK: nn.conv_weight_grad
// What is around the mean of other dimensions has a gradient for it.
// CHECK-LABEL: func.func private @other.backward.input(
// CHECK: nn.neg
// CHECK: nn.reduce {{.*}} kind = "sum"{{.*}} : (tensor<4x8x16xf32>) -> tensor<8xf32>
func.func private @norm(%x: tensor<4x8x16xf32>, %w: tensor<8x8x1xf32>, %g: tensor<8x1xf32>, %b: tensor<8x1xf32>) -> tensor<4x8x16xf32> {
  %y = nn.conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<4x8x16xf32>, tensor<8x8x1xf32>) -> tensor<4x8x16xf32>
  %m = nn.reduce %y {kind = "mean", axes = array<i64: 0, 2>, keepDims = true} : (tensor<4x8x16xf32>) -> tensor<1x8x1xf32>
  %d = nn.sub %y, %m : (tensor<4x8x16xf32>, tensor<1x8x1xf32>) -> tensor<4x8x16xf32>
  %q = nn.mul %d, %d : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  %v = nn.reduce %q {kind = "mean", axes = array<i64: 0, 2>, keepDims = true} : (tensor<4x8x16xf32>) -> tensor<1x8x1xf32>
  %r = nn.rsqrt %v : (tensor<1x8x1xf32>) -> tensor<1x8x1xf32>
  %s = nn.mul %g, %r : (tensor<8x1xf32>, tensor<1x8x1xf32>) -> tensor<1x8x1xf32>
  %0 = nn.mul %y, %s : (tensor<4x8x16xf32>, tensor<1x8x1xf32>) -> tensor<4x8x16xf32>
  %1 = nn.add %0, %b : (tensor<4x8x16xf32>, tensor<8x1xf32>) -> tensor<4x8x16xf32>
  %2 = nn.relu %1 : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  return %2 : tensor<4x8x16xf32>
}
func.func private @other(%x: tensor<4x8x16xf32>) -> tensor<f32> {
  %m = nn.reduce %x {kind = "mean", axes = array<i64: 0>, keepDims = true} : (tensor<4x8x16xf32>) -> tensor<1x8x16xf32>
  %n = nn.reduce %m {kind = "mean", axes = array<i64: 2>, keepDims = true} : (tensor<1x8x16xf32>) -> tensor<1x8x1xf32>
  %d = nn.sub %x, %n : (tensor<4x8x16xf32>, tensor<1x8x1xf32>) -> tensor<4x8x16xf32>
  %q = nn.mul %d, %d : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
  %l = nn.reduce %q {kind = "mean", axes = array<i64: 0, 1, 2>, keepDims = false} : (tensor<4x8x16xf32>) -> tensor<f32>
  return %l : tensor<f32>
}
func.func @main(%x: tensor<4x8x16xf32> {nn.input = "x"}, %w: tensor<8x8x1xf32> {nn.parameter = "w", nn.trainable}, %g: tensor<8x1xf32> {nn.parameter = "g", nn.trainable}, %b: tensor<8x1xf32> {nn.parameter = "b", nn.trainable}) -> tensor<f32> {
  %0 = call @norm(%x, %w, %g, %b) : (tensor<4x8x16xf32>, tensor<8x8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<4x8x16xf32>
  %1 = call @other(%0) : (tensor<4x8x16xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
