// Every nn operation survives the textual form, the generic form and bytecode unchanged. (That none is left out:
// GradientsTest.cpp.)
// RUN: mtc-opt %s | mtc-opt | FileCheck %s
// RUN: mtc-opt %s > %t.text
// RUN: mtc-opt %s --mlir-print-op-generic | mtc-opt | diff %t.text -
// RUN: mtc-opt %s --emit-bytecode | mtc-opt | diff %t.text -

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2x3xf32>, %r: tensor<3xf32>, %i: tensor<2x3xi64>) -> tensor<2x3xf32> {
  // CHECK: nn.add %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %0 = nn.add %x, %r : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = nn.sub %0, %r : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2 = nn.mul %1, %r : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %3 = nn.div %2, %r : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %4 = nn.pow %3, %r : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %5 = nn.maximum %4, %r : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %6 = nn.minimum %5, %r : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %7 = nn.mod %i, %i : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi64>
  // CHECK: nn.compare %{{.*}}, %{{.*}} {predicate = "le"} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %8 = nn.compare %6, %r {predicate = "le"} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %9 = nn.is_nan %6 : (tensor<2x3xf32>) -> tensor<2x3xi1>
  %10 = nn.and %8, %9 : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  %11 = nn.or %10, %9 : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  %12 = nn.xor %11, %9 : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  %13 = nn.not %12 : (tensor<2x3xi1>) -> tensor<2x3xi1>
  %14 = nn.select %13, %6, %r : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %15 = nn.neg %14 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %16 = nn.abs %15 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %17 = nn.sign %16 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %18 = nn.exp %17 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %19 = nn.log %18 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %20 = nn.sqrt %19 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %21 = nn.rsqrt %20 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %22 = nn.reciprocal %21 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %23 = nn.tanh %22 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %24 = nn.sigmoid %23 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %25 = nn.softplus %24 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %26 = nn.erf %25 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %27 = nn.sin %26 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %28 = nn.cos %27 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %29 = nn.floor %28 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %30 = nn.ceil %29 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %31 = nn.round %30 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %detached = nn.detach %31 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %32 = nn.relu %detached : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %33 = nn.silu %32 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.gelu %{{[0-9]+}} : (
  %34 = nn.gelu %33 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.gelu %{{[0-9]+}} {form = "tanh"}
  %35 = nn.gelu %34 {form = "tanh"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %36 = nn.activation_grad %35, %34 {activation = "gelu_tanh"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %37 = nn.gated_product %36, %35 {activation = "silu"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: %{{.*}}, %{{.*}} = nn.gated_product_grad
  %38, %39 = nn.gated_product_grad %37, %36, %35 {activation = "silu"} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  // CHECK: nn.atan
  %40 = nn.atan %39 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %40 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @structure
func.func @structure(%x: tensor<2x3xf32>, %i: tensor<2x3xi64>, %bytes: tensor<3xui8>, %scale: tensor<2x1xf32>) -> tensor<3x2xf32> {
  // CHECK: nn.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
  %0 = nn.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  // CHECK: nn.iota {dimension = 1 : i64, start = 2.000000e+00 : f64, step = 5.000000e-01 : f64} : () -> tensor<2x3xf32>
  %1 = nn.iota {dimension = 1 : i64, start = 2.0 : f64, step = 0.5 : f64} : () -> tensor<2x3xf32>
  %2 = nn.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %3 = nn.cast %2 : (tensor<6xf32>) -> tensor<6xbf16>
  %4 = nn.copy %3 : (tensor<6xbf16>) -> tensor<6xbf16>
  // CHECK: nn.elementwise %{{.*}}, %{{.*}} {expression = "mul 0 1:f32, exp 2:f32 -> 3"} : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %fused = nn.elementwise %x, %scale {expression = "mul 0 1:f32, exp 2:f32 -> 3"} : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  // CHECK: nn.elementwise_sums %{{.*}} {axes = array<i64: 1>, expression = "exp 0:f32 -> 1 1", kind = "mean", sums = 1 : i64} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)
  %sums:2 = nn.elementwise_sums %x {expression = "exp 0:f32 -> 1 1", sums = 1 : i64, kind = "mean", axes = array<i64: 1>} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)
  %5 = nn.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %6 = nn.broadcast %0 : (tensor<3xf32>) -> tensor<4x3xf32>
  %7 = nn.slice %6 {starts = array<i64: 3, 1>, sizes = array<i64: 2, 2>, strides = array<i64: -2, 1>} : (tensor<4x3xf32>) -> tensor<2x2xf32>
  // CHECK: nn.pad %{{.*}} {high = array<i64: 0, 1>, interior = array<i64: 1, 0>, low = array<i64: 1, 0>, value = -1.000000e+00 : f64} : (tensor<2x2xf32>) -> tensor<4x3xf32>
  %8 = nn.pad %7 {low = array<i64: 1, 0>, high = array<i64: 0, 1>, interior = array<i64: 1, 0>, value = -1.0 : f64} : (tensor<2x2xf32>) -> tensor<4x3xf32>
  %9 = nn.concat %6, %8, %8 {axis = 0 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<12x3xf32>
  %10 = nn.reduce %9 {kind = "mean", axes = array<i64: 0>, keepDims = true} : (tensor<12x3xf32>) -> tensor<1x3xf32>
  // CHECK: nn.cumsum %{{.*}} {axis = 1 : i64, exclusive = true} :
  %11 = nn.cumsum %10 {axis = 1 : i64, exclusive = true} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %12 = nn.gather %9, %i {axis = 0 : i64} : (tensor<12x3xf32>, tensor<2x3xi64>) -> tensor<2x3x3xf32>
  %13 = nn.gather_grad %i, %12 {axis = 0 : i64} : (tensor<2x3xi64>, tensor<2x3x3xf32>) -> tensor<12x3xf32>
  %14 = nn.gather_nd %12, %i : (tensor<2x3x3xf32>, tensor<2x3xi64>) -> tensor<2xf32>
  %15 = nn.gather_elements %x, %i {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  %packed = nn.dequantize %bytes, %scale {axis = 1 : i64, bits = 4 : i64, block = 3 : i64} : (tensor<3xui8>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %16 = nn.scatter %9, %i, %12 {axis = 0 : i64, kind = "add"} : (tensor<12x3xf32>, tensor<2x3xi64>, tensor<2x3x3xf32>) -> tensor<12x3xf32>
  %17 = nn.scatter_elements %x, %i, %15 {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.top_k %{{.*}} {k = 2 : i64, largest = false} : (tensor<2x3xf32>) -> tensor<2x2xi64>
  %18 = nn.top_k %17 {k = 2 : i64, largest = false} : (tensor<2x3xf32>) -> tensor<2x2xi64>
  return %5 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @windows
func.func @windows(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>, %b: tensor<6xf32>, %r: tensor<5x4xf32>, %e: tensor<7x4x3xf32>, %i: tensor<5xi64>) {
  // CHECK: nn.conv %{{.*}}, %{{.*}}, %{{.*}} {dilations = array<i64: 1>, groups = 2 : i64, high = array<i64: 0>, low = array<i64: 1>, strides = array<i64: 2>} :
  %0 = nn.conv %x, %k, %b {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>, groups = 2 : i64} : (tensor<2x4x9xf32>, tensor<6x2x3xf32>, tensor<6xf32>) -> tensor<2x6x4xf32>
  %1 = nn.conv_data_grad %0, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>, groups = 2 : i64} : (tensor<2x6x4xf32>, tensor<6x2x3xf32>) -> tensor<2x4x9xf32>
  %2 = nn.conv_weight_grad %0, %x {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>, groups = 2 : i64} : (tensor<2x6x4xf32>, tensor<2x4x9xf32>) -> tensor<6x2x3xf32>
  %3 = nn.pool %x {kind = "max", size = array<i64: 3>, strides = array<i64: 3>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<2x4x9xf32>) -> tensor<2x4x3xf32>
  %4 = nn.pool_grad %3, %x {kind = "max", size = array<i64: 3>, strides = array<i64: 3>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<2x4x3xf32>, tensor<2x4x9xf32>) -> tensor<2x4x9xf32>
  %5 = nn.expert_matmul %r, %e, %i : (tensor<5x4xf32>, tensor<7x4x3xf32>, tensor<5xi64>) -> tensor<5x3xf32>
  %6 = nn.expert_matmul_grad %5, %r, %i : (tensor<5x3xf32>, tensor<5x4xf32>, tensor<5xi64>) -> tensor<7x4x3xf32>
  return
}

// CHECK-LABEL: func.func @products
func.func @products(%x: tensor<2x4x6xf32>, %w: tensor<8x6xf32>, %b: tensor<8xf32>, %g: tensor<6xf32>, %ids: tensor<2x4xi64>) -> tensor<2x4x6xf32> {
  // CHECK: nn.matmul %{{.*}}, %{{.*}}, %{{.*}} {transposeRhs = true} : (tensor<2x4x6xf32>, tensor<8x6xf32>, tensor<8xf32>) -> tensor<2x4x8xf32>
  %0 = nn.matmul %x, %w, %b {transposeRhs = true} : (tensor<2x4x6xf32>, tensor<8x6xf32>, tensor<8xf32>) -> tensor<2x4x8xf32>
  %1 = nn.matmul %0, %w : (tensor<2x4x8xf32>, tensor<8x6xf32>) -> tensor<2x4x6xf32>
  %2 = nn.embedding %w, %ids : (tensor<8x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %3 = nn.embedding_grad %ids, %2 : (tensor<2x4xi64>, tensor<2x4x6xf32>) -> tensor<8x6xf32>
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 0, 1>}
  %4, %5, %6 = nn.layer_norm %2, %g {epsilon = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, 0, 1>} : (tensor<2x4x6xf32>, tensor<6xf32>) -> (tensor<2x4x6xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %7, %8, %9 = nn.layer_norm_grad %x, %4, %5, %6, %g {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<2x4x6xf32>, tensor<2x4x6xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<6xf32>) -> (tensor<2x4x6xf32>, tensor<6xf32>, tensor<6xf32>)
  %10, %11 = nn.rms_norm %x, %g {epsilon = 1.0e-6 : f64} : (tensor<2x4x6xf32>, tensor<6xf32>) -> (tensor<2x4x6xf32>, tensor<2x4xf32>)
  // CHECK: nn.rms_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>}
  %12, %13 = nn.rms_norm_grad %10, %x, %11, %7 {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>} : (tensor<2x4x6xf32>, tensor<2x4x6xf32>, tensor<2x4xf32>, tensor<2x4x6xf32>) -> (tensor<2x4x6xf32>, tensor<6xf32>)
  %14 = nn.softmax %x : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %15 = nn.softmax_grad %14, %x : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %16 = nn.log_softmax %15 : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  return %16 : tensor<2x4x6xf32>
}

// CHECK-LABEL: func.func @random
func.func @random(%x: tensor<4x6xf32>, %rows: tensor<2xi64>, %s: tensor<16xf64>, %n: tensor<i64>) -> tensor<4x6xf32> {
  // CHECK: nn.dropout %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {outer = 2 : i64, ratio = 1.000000e-01 : f64} : (tensor<4x6xf32>, tensor<2xi64>, tensor<16xf64>, tensor<i64>) -> tensor<4x6xf32>
  %0 = nn.dropout %x, %rows, %s, %n {ratio = 0.1 : f64, outer = 2 : i64} : (tensor<4x6xf32>, tensor<2xi64>, tensor<16xf64>, tensor<i64>) -> tensor<4x6xf32>
  %kept = nn.running_statistic %x, %0, %s {momentum = 0.9 : f64} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<16xf64>) -> tensor<4x6xf32>
  // CHECK: nn.random %{{.*}}, %{{.*}} {kind = "normal"} : (tensor<16xf64>, tensor<i64>) -> tensor<4x6xf32>
  %1 = nn.random %s, %n {kind = "normal"} : (tensor<16xf64>, tensor<i64>) -> tensor<4x6xf32>
  %2 = nn.add %0, %1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @recurrence
func.func @recurrence(%g: tensor<5x2x12xf32>, %w: tensor<12x3xf32>, %h: tensor<2x3xf32>, %l: tensor<2xi64>, %r: tensor<5x2x3xf32>, %u: tensor<3x3xf32>) -> tensor<5x2x12xf32> {
  // CHECK: nn.recurrence %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {kind = "lstm", operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 1, 0>, reverse = true} :
  %0, %1 = nn.recurrence %g, %w, %h, %h, %l {kind = "lstm", reverse = true, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 1, 0>} : (tensor<5x2x12xf32>, tensor<12x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xi64>) -> (tensor<5x2x3xf32>, tensor<5x2x3xf32>)
  // CHECK: nn.recurrence %{{.*}}, %{{.*}} {candidate = "relu", clip = 2.000000e+00 : f64, kind = "rnn", operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0>} :
  %2 = nn.recurrence %r, %u {kind = "rnn", candidate = "relu", clip = 2.0 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0>} : (tensor<5x2x3xf32>, tensor<3x3xf32>) -> tensor<5x2x3xf32>
  // CHECK: nn.recurrence_grad
  %3, %4, %5, %6 = nn.recurrence_grad %2, %1, %g, %g, %w, %0, %1, %l {kind = "lstm", reverse = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>} : (tensor<5x2x3xf32>, tensor<5x2x3xf32>, tensor<5x2x12xf32>, tensor<5x2x12xf32>, tensor<12x3xf32>, tensor<5x2x3xf32>, tensor<5x2x3xf32>, tensor<2xi64>) -> (tensor<5x2x12xf32>, tensor<5x2x12xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  return %3 : tensor<5x2x12xf32>
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x4x6x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x8xf32>, %b: tensor<1x6x4x5xf32>,
                     %m: tensor<2x5xi1>, %qs: tensor<2x4xi64>, %ks: tensor<2x5xi64>, %c: tensor<1x4x4xf32>) -> tensor<2x4x6x8xf32> {
  // CHECK: nn.attention {{.*}} {maxDistance = 3 : i64, minDistance = 0 : i64, offset = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>, prefix = 2 : i64, scale = 5.000000e-01 : f64, softCap = 3.000000e+01 : f64}
  %0, %1 = nn.attention %q, %k, %v, %b, %m, %qs, %ks {scale = 0.5 : f64, minDistance = 0 : i64, maxDistance = 3 : i64, offset = 1 : i64, prefix = 2 : i64, softCap = 30.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<2x4x6x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<1x6x4x5xf32>, tensor<2x5xi1>, tensor<2x4xi64>, tensor<2x5xi64>) -> (tensor<2x4x6x8xf32>, tensor<2x6x4xf32>)
  // CHECK: nn.attention_grad
  %2, %3, %4 = nn.attention_grad %q, %q, %k, %v, %0, %1 {scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1>, resultSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x4x6x8xf32>, tensor<2x6x4xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>)
  // CHECK: nn.rotary %{{.*}}, %{{.*}}, %{{.*}} {inverse = true} :
  %5 = nn.rotary %2, %c, %c {inverse = true} : (tensor<2x4x6x8xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<2x4x6x8xf32>
  return %5 : tensor<2x4x6x8xf32>
}

// CHECK-LABEL: func.func @losses
func.func @losses(%h: tensor<8x6xf32>, %w: tensor<9x6xf32>, %l: tensor<8xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  // CHECK: nn.linear_cross_entropy {{.*}} {softCap = 3.000000e+01 : f64} :
  %0 = nn.linear_cross_entropy %h, %w, %l, %s {softCap = 30.0 : f64} : (tensor<8x6xf32>, tensor<9x6xf32>, tensor<8xi64>, tensor<16xf64>) -> tensor<f32>
  %1, %2, %3 = nn.linear_cross_entropy_grad %h, %w, %l, %s {chunk = 4 : i64} : (tensor<8x6xf32>, tensor<9x6xf32>, tensor<8xi64>, tensor<16xf64>) -> (tensor<f32>, tensor<8x6xf32>, tensor<9x6xf32>)
  %4 = nn.cross_entropy %h, %l, %s : (tensor<8x6xf32>, tensor<8xi64>, tensor<16xf64>) -> tensor<f32>
  %5, %6 = nn.cross_entropy_grad %h, %l, %s : (tensor<8x6xf32>, tensor<8xi64>, tensor<16xf64>) -> (tensor<f32>, tensor<8x6xf32>)
  %7 = nn.squared_error %h, %6, %s : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<16xf64>) -> tensor<f32>
  %8, %9 = nn.squared_error_grad %h, %2, %s : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<16xf64>) -> (tensor<f32>, tensor<8x6xf32>)
  return %8 : tensor<f32>
}

// CHECK-LABEL: func.func @fused
func.func @fused(%x: tensor<8x6xf32>, %w: tensor<9x6xf32>, %b: tensor<9xf32>, %d: tensor<8x9xf32>) -> tensor<f32> {
  // CHECK: nn.matmul_add %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {transposeRhs = true} :
  %sum = nn.matmul_add %x, %w, %d, %b {transposeRhs = true} : (tensor<8x6xf32>, tensor<9x6xf32>, tensor<8x9xf32>, tensor<9xf32>) -> tensor<8x9xf32>
  // CHECK: nn.matmul_gelu %{{.*}}, %{{.*}}, %{{.*}} {transposeRhs = true} :
  %0, %1 = nn.matmul_gelu %x, %w, %b {transposeRhs = true} : (tensor<8x6xf32>, tensor<9x6xf32>, tensor<9xf32>) -> (tensor<8x9xf32>, tensor<8x9xf32>)
  // CHECK: nn.matmul_gelu_grad
  %2 = nn.matmul_gelu_grad %x, %w, %1 {transposeRhs = true} : (tensor<8x6xf32>, tensor<9x6xf32>, tensor<8x9xf32>) -> tensor<8x9xf32>
  // CHECK: nn.matmul_sums {{.*}} {transposeLhs = true} :
  %3, %4 = nn.matmul_sums %d, %x {transposeLhs = true} : (tensor<8x9xf32>, tensor<8x6xf32>) -> (tensor<9x6xf32>, tensor<6xf32>)
  %5 = nn.reduce %4 {kind = "sum", axes = array<i64: 0>, keepDims = false} : (tensor<6xf32>) -> tensor<f32>
  // CHECK: nn.step_sum
  %6 = nn.step_sum %5 : (tensor<f32>) -> tensor<f32>
  return %6 : tensor<f32>
}
