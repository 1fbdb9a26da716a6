// Adapters where the module asks for them: beside every product that takes the weight as it is, by its layout; none for
// what no product takes so, and then no entry.
// RUN: mtc-opt %s --split-input-file --mt-add-adapters | FileCheck %s
// RUN: mtc-opt %s --split-input-file --mt-add-adapters | mtc-opt --split-input-file --mt-fuse-epilogues | FileCheck %s --check-prefix=FUSED

// Two products share one adapter; the table of the embedding has none. The input of the first is dropped from.
// CHECK: mt.adapters = [{dropout = 0.000000e+00 : f64, module = "q", parameter = "q.weight", rank = 2 : i64, scale = 2.000000e+00 : f64, seed = 0 : i64, transposed = false},
// CHECK-SAME: {dropout = 1.000000e-01 : f64, module = "v", parameter = "v", rank = 3 : i64, scale = 1.000000e+00 : f64, seed = 5 : i64, transposed = true}]
// CHECK: func.func @main(
// CHECK-SAME: %[[DOWN:[a-z0-9]+]]: tensor<2x8xf32> {nn.initial = {deviation = 0.2041{{[0-9]+}} : f64, generator = "uniform", seed = 0 : i64, value = 0.000000e+00 : f64}, nn.parameter = "q.lora_A.weight", nn.trainable}
// CHECK-SAME: %[[UP:[a-z0-9]+]]: tensor<8x2xf32> {nn.initial = {deviation = 0.000000e+00 : f64, generator = "zeros", {{.*}}}, nn.parameter = "q.lora_B.weight", nn.trainable}
// CHECK-SAME: %[[VDOWN:[a-z0-9]+]]: tensor<3x8xf32> {nn.initial = {{.*}}seed = 5 : i64{{.*}}, nn.parameter = "v.lora_A.weight", nn.trainable}
// CHECK-SAME: %[[VUP:[a-z0-9]+]]: tensor<6x3xf32> {{.*}}nn.parameter = "v.lora_B.weight", nn.trainable}
// CHECK-SAME: %[[NODE:[a-z0-9]+]]: tensor<i64> {nn.buffer, nn.initial = {{{.*}}generator = "constant", seed = 0 : i64, value = 1.000000e+00 : f64}, nn.parameter = "mt.draw.1"}
// CHECK: %[[X:.*]] = nn.embedding
// CHECK: %[[P:.*]] = nn.matmul %[[X]], %{{.*}} {transposeRhs = true}
// CHECK: %[[A:.*]] = nn.matmul %[[X]], %[[DOWN]] {transposeRhs = true} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
// CHECK: %[[S:.*]] = nn.mul %[[A]], %{{.*}}
// CHECK: %[[D:.*]] = nn.matmul %[[S]], %[[UP]] {transposeRhs = true} : (tensor<4x2xf32>, tensor<8x2xf32>) -> tensor<4x8xf32>
// CHECK: %[[Y:.*]] = nn.add %[[P]], %[[D]]
// CHECK: %[[P2:.*]] = nn.matmul %[[Y]], %{{.*}} {transposeRhs = true}
// CHECK: nn.matmul %[[Y]], %[[DOWN]]
// CHECK: %[[Y2:.*]] = nn.add %[[P2]],
// CHECK: nn.matmul %[[Y2]], %{{.*}} : (tensor<4x8xf32>, tensor<8x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
// CHECK: %[[DROPPED:.*]] = nn.dropout %[[Y2]], %{{.*}}, %[[NODE]] {ratio = 1.000000e-01 : f64}
// CHECK: %[[VA:.*]] = nn.matmul %[[DROPPED]], %[[VDOWN]] {transposeRhs = true}
// CHECK: nn.matmul %[[VA]], %[[VUP]] {transposeRhs = true}
// FUSED: nn.matmul_add
module attributes {mt.adapters = [{parameter = "table", module = "table", rank = 2 : i64},
                                  {parameter = "q.weight", module = "q", rank = 2 : i64, scale = 2.0},
                                  {parameter = "v", module = "v", rank = 3 : i64, seed = 5 : i64, dropout = 0.1}]} {
  func.func @main(%i: tensor<4xi64> {nn.input = "i"}, %t: tensor<9x8xf32> {nn.parameter = "table"}, %q: tensor<8x8xf32> {nn.parameter = "q.weight"},
                  %v: tensor<8x6xf32> {nn.parameter = "v"}, %b: tensor<6xf32> {nn.parameter = "b"}, %s: tensor<16xf64> {nn.scalars},
                  %n: tensor<i64> {nn.parameter = "mt.draw.0", nn.buffer}) -> tensor<4x6xf32> {
    %x = nn.embedding %t, %i : (tensor<9x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
    %y = nn.matmul %x, %q {transposeRhs = true} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %z = nn.matmul %y, %q {transposeRhs = true} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %w = nn.matmul %z, %v, %b : (tensor<4x8xf32>, tensor<8x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    return %w : tensor<4x6xf32>
  }
}

// -----

// Of what comes transposed, as from a convolution: so it does for the adapter.
// CHECK-LABEL: module attributes {mt.adapters = [{{.*}}parameter = "fc.weight"
// CHECK: nn.matmul %[[X:.*]], %{{.*}} {transposeLhs = true, transposeRhs = true} : (tensor<2x8x5xf32>, tensor<3x8xf32>) -> tensor<2x5x3xf32>
// CHECK: %[[A:.*]] = nn.matmul %[[X]], %{{.*}} {transposeLhs = true, transposeRhs = true} : (tensor<2x8x5xf32>, tensor<2x8xf32>) -> tensor<2x5x2xf32>
// CHECK: nn.matmul %[[A]], %{{.*}} {transposeRhs = true} : (tensor<2x5x2xf32>, tensor<3x2xf32>) -> tensor<2x5x3xf32>
module attributes {mt.adapters = [{parameter = "fc.weight", module = "fc", rank = 2 : i64}]} {
  func.func @main(%x: tensor<2x8x5xf32> {nn.input = "x"}, %w: tensor<3x8xf32> {nn.parameter = "fc.weight"}) -> tensor<2x5x3xf32> {
    %y = nn.matmul %x, %w {transposeLhs = true, transposeRhs = true} : (tensor<2x8x5xf32>, tensor<3x8xf32>) -> tensor<2x5x3xf32>
    return %y : tensor<2x5x3xf32>
  }
}
