// RUN: mtc-opt %s --mt-recover-ops --canonicalize --split-input-file | FileCheck %s

// RMS norm as exporters write it: power, mean, reciprocal of a root; the gain on either side.
// CHECK-LABEL: func.func @rms
// CHECK: %[[Y:.*]], %{{.*}} = nn.rms_norm %arg0, %arg1 {epsilon = 9.99999{{.*}}E-7 : f64} : (tensor<2x8xf32>, tensor<8xf32>)
// CHECK: return %[[Y]]
func.func @rms(%x: tensor<2x8xf32>, %g: tensor<8xf32>) -> tensor<2x8xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %eps = nn.constant dense<1.0e-6> : tensor<f32>
  %0 = nn.pow %x, %two : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %1 = nn.reduce %0 {kind = "mean", axes = array<i64: 1>, keepDims = true} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %2 = nn.add %1, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %3 = nn.sqrt %2 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = nn.reciprocal %3 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %5 = nn.mul %x, %4 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %6 = nn.mul %g, %5 : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %6 : tensor<2x8xf32>
}

// -----

// Layer norm written out, with the square as a product.
// CHECK-LABEL: func.func @layer
// CHECK: nn.layer_norm %arg0, %arg1, %arg2
func.func @layer(%x: tensor<2x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x8xf32> {
  %eps = nn.constant dense<1.0e-5> : tensor<f32>
  %m = nn.reduce %x {kind = "mean", axes = array<i64: 1>, keepDims = true} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %d = nn.sub %x, %m : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %s = nn.mul %d, %d : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %v = nn.reduce %s {kind = "mean", axes = array<i64: 1>, keepDims = true} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %e = nn.add %eps, %v : (tensor<f32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %r = nn.sqrt %e : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %n = nn.div %d, %r : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %y = nn.mul %n, %g : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  %z = nn.add %b, %y : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %z : tensor<2x8xf32>
}

// -----

// GELU by its error function, the constants in another order than PyTorch's.
// CHECK-LABEL: func.func @gelu_erf
// CHECK: nn.gelu %arg0 : (tensor<4xf32>) -> tensor<4xf32>
func.func @gelu_erf(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = nn.constant dense<1.41421356> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %0 = nn.div %x, %root : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = nn.erf %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.add %one, %1 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.mul %2, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = nn.mul %3, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// GELU by its tanh form, factored as x (1 + c x^2).
// CHECK-LABEL: func.func @gelu_tanh
// CHECK: nn.gelu %arg0 {form = "tanh"}
func.func @gelu_tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = nn.constant dense<0.044715> : tensor<f32>
  %k = nn.constant dense<0.7978845608> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %cx = nn.mul %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %cxx = nn.mul %cx, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a = nn.add %cxx, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %kx = nn.mul %x, %k : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %u = nn.mul %kx, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = nn.tanh %u : (tensor<4xf32>) -> tensor<4xf32>
  %t1 = nn.add %t, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %hx = nn.mul %x, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %y = nn.mul %hx, %t1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @gated
// CHECK: nn.gated_product %arg0, %arg1 {activation = "silu"}
func.func @gated(%g: tensor<4xf32>, %u: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.sigmoid %g : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.mul %0, %g : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.mul %u, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// A row that is added becomes the product's bias, a transposed weight a flag.
// CHECK-LABEL: func.func @linear
// CHECK-NOT: nn.transpose
// CHECK: nn.matmul %arg0, %arg1, %arg2 {transposeRhs = true}
// CHECK-NOT: nn.add
func.func @linear(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = nn.transpose %w {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %1 = nn.matmul %x, %0 : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %2 = nn.add %b, %1 : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// -----

// Attention written out: causal by comparison of index sequences, padding by an input, scale on both sides.
// CHECK-LABEL: func.func @attention
// CHECK-NOT: tensor<8x8xi1>
// CHECK: %[[M:.*]] = nn.compare %arg3, %{{.*}} {predicate = "ne"}
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[M]] {minDistance = 0 : i64,
// CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0>, scale = 2.500000e-01
// CHECK-NOT: nn.softmax
func.func @attention(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>, %pad: tensor<2x8xi64>) -> tensor<2x4x8x16xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-3.4028234663852886e+38> : tensor<f32>
  %none = nn.constant dense<0> : tensor<i64>
  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>
  %rows = nn.reshape %i : (tensor<8xi64>) -> tensor<8x1xi64>
  %cols = nn.reshape %i : (tensor<8xi64>) -> tensor<1x8xi64>
  %causal = nn.compare %cols, %rows {predicate = "le"} : (tensor<1x8xi64>, tensor<8x1xi64>) -> tensor<8x8xi1>
  %p4 = nn.reshape %pad : (tensor<2x8xi64>) -> tensor<2x1x1x8xi64>
  %kept = nn.compare %p4, %none {predicate = "ne"} : (tensor<2x1x1x8xi64>, tensor<i64>) -> tensor<2x1x1x8xi1>
  %seen = nn.and %causal, %kept : (tensor<8x8xi1>, tensor<2x1x1x8xi1>) -> tensor<2x1x8x8xi1>
  %bias = nn.select %seen, %zero, %low : (tensor<2x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x8x8xf32>
  %qs = nn.mul %q, %half : (tensor<2x4x8x16xf32>, tensor<f32>) -> tensor<2x4x8x16xf32>
  %kt = nn.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x4x8x16xf32>) -> tensor<2x4x16x8xf32>
  %ks = nn.mul %kt, %half : (tensor<2x4x16x8xf32>, tensor<f32>) -> tensor<2x4x16x8xf32>
  %s = nn.matmul %qs, %ks : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %m = nn.add %s, %bias : (tensor<2x4x8x8xf32>, tensor<2x1x8x8xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %m : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %nan = nn.is_nan %p : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xi1>
  %guarded = nn.select %nan, %zero, %p : (tensor<2x4x8x8xi1>, tensor<f32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.matmul %guarded, %v : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// -----

// Rotary embedding written out, its tables computed on doubled angles.
// CHECK-LABEL: func.func @rotary
// CHECK-NOT: nn.concat
// CHECK-DAG: %[[C:.*]] = nn.cos %arg1
// CHECK-DAG: %[[S:.*]] = nn.sin %arg1
// CHECK: nn.rotary %{{.*}}, %[[C]], %[[S]] :
// CHECK-NOT: nn.concat
func.func @rotary(%x: tensor<2x4x8x6xf32>, %angles: tensor<1x8x3xf32>) -> tensor<2x4x8x6xf32> {
  %two = nn.concat %angles, %angles {axis = 2 : i64} : (tensor<1x8x3xf32>, tensor<1x8x3xf32>) -> tensor<1x8x6xf32>
  %c = nn.cos %two : (tensor<1x8x6xf32>) -> tensor<1x8x6xf32>
  %s = nn.sin %two : (tensor<1x8x6xf32>) -> tensor<1x8x6xf32>
  %c4 = nn.reshape %c : (tensor<1x8x6xf32>) -> tensor<1x1x8x6xf32>
  %s4 = nn.reshape %s : (tensor<1x8x6xf32>) -> tensor<1x1x8x6xf32>
  %lo = nn.slice %x {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 4, 8, 3>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x8x6xf32>) -> tensor<2x4x8x3xf32>
  %hi = nn.slice %x {starts = array<i64: 0, 0, 0, 3>, sizes = array<i64: 2, 4, 8, 3>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x8x6xf32>) -> tensor<2x4x8x3xf32>
  %n = nn.neg %hi : (tensor<2x4x8x3xf32>) -> tensor<2x4x8x3xf32>
  %r = nn.concat %n, %lo {axis = 3 : i64} : (tensor<2x4x8x3xf32>, tensor<2x4x8x3xf32>) -> tensor<2x4x8x6xf32>
  %a = nn.mul %c4, %x : (tensor<1x1x8x6xf32>, tensor<2x4x8x6xf32>) -> tensor<2x4x8x6xf32>
  %b = nn.mul %r, %s4 : (tensor<2x4x8x6xf32>, tensor<1x1x8x6xf32>) -> tensor<2x4x8x6xf32>
  %y = nn.add %b, %a : (tensor<2x4x8x6xf32>, tensor<2x4x8x6xf32>) -> tensor<2x4x8x6xf32>
  return %y : tensor<2x4x8x6xf32>
}
