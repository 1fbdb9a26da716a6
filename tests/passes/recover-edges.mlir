// RUN: mtc-opt %s --split-input-file --mt-recover-ops --canonicalize | FileCheck %s
// Graphs at the edge of what patterns expect.

// Scores that are cast between two masks: the bias is their sum in the wider type.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[NARROW:.*]] = nn.reshape %arg3 : (tensor<8x8xf16>) -> tensor<1x1x8x8xf16>
// CHECK-DAG: %[[WIDE:.*]] = nn.reshape %arg4 : (tensor<8x8xf32>) -> tensor<1x1x8x8xf32>
// CHECK: %[[CAST:.*]] = nn.cast %[[NARROW]] : (tensor<1x1x8x8xf16>) -> tensor<1x1x8x8xf32>
// CHECK: %[[BIAS:.*]] = nn.add %[[WIDE]], %[[CAST]]
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[BIAS]]
func.func @main(%q: tensor<2x4x8x16xf16> {nn.input = "q"}, %k: tensor<2x4x16x8xf16> {nn.input = "k"}, %v: tensor<2x4x8x16xf16> {nn.input = "v"},
                %m: tensor<8x8xf16> {nn.input = "m"}, %n: tensor<8x8xf32> {nn.input = "n"}) -> tensor<2x4x8x16xf16> {
  %0 = nn.matmul %q, %k : (tensor<2x4x8x16xf16>, tensor<2x4x16x8xf16>) -> tensor<2x4x8x8xf16>
  %1 = nn.add %0, %m : (tensor<2x4x8x8xf16>, tensor<8x8xf16>) -> tensor<2x4x8x8xf16>
  %2 = nn.cast %1 : (tensor<2x4x8x8xf16>) -> tensor<2x4x8x8xf32>
  %3 = nn.add %2, %n : (tensor<2x4x8x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8x8xf32>
  %4 = nn.softmax %3 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %5 = nn.cast %4 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf16>
  %6 = nn.matmul %5, %v : (tensor<2x4x8x8xf16>, tensor<2x4x8x16xf16>) -> tensor<2x4x8x16xf16>
  return %6 : tensor<2x4x8x16xf16>
}

// -----

// Probabilities in 32 bits over scores in 16: attention in 32 bits, and what follows gets what it got.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[Q:.*]] = nn.cast %arg0 : (tensor<2x4x8x16xf16>) -> tensor<2x4x8x16xf32>
// CHECK-DAG: %[[T:.*]] = nn.transpose %arg1 {permutation = array<i64: 0, 1, 3, 2>}
// CHECK-DAG: %[[K:.*]] = nn.cast %[[T]] : (tensor<2x4x8x16xf16>) -> tensor<2x4x8x16xf32>
// CHECK: %[[R:.*]], %{{.*}} = nn.attention {{.*}} -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
// CHECK: %[[SWAPPED:.*]] = nn.transpose %[[R]]
// CHECK: nn.sin %[[SWAPPED]] : (tensor<2x4x8x16xf32>)
func.func @main(%q: tensor<2x4x8x16xf16> {nn.input = "q"}, %k: tensor<2x4x16x8xf16> {nn.input = "k"}, %v: tensor<2x4x8x16xf32> {nn.input = "v"}) -> tensor<2x4x8x16xf32> {
  %0 = nn.matmul %q, %k : (tensor<2x4x8x16xf16>, tensor<2x4x16x8xf16>) -> tensor<2x4x8x8xf16>
  %1 = nn.cast %0 : (tensor<2x4x8x8xf16>) -> tensor<2x4x8x8xf32>
  %2 = nn.softmax %1 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %3 = nn.matmul %2, %v : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  %4 = nn.sin %3 : (tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %4 : tensor<2x4x8x16xf32>
}

// -----

// A rotation of nothing stays what it is.
// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.rotary
// CHECK: nn.add
func.func @main(%x: tensor<1x2x3x0xf32> {nn.input = "x"}, %c: tensor<3x0xf32> {nn.input = "c"}, %s: tensor<3x0xf32> {nn.input = "s"}) -> tensor<1x2x3x0xf32> {
  %a = nn.slice %x {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 1, 2, 3, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<1x2x3x0xf32>) -> tensor<1x2x3x0xf32>
  %n = nn.neg %a : (tensor<1x2x3x0xf32>) -> tensor<1x2x3x0xf32>
  %t = nn.concat %n, %a {axis = 3 : i64} : (tensor<1x2x3x0xf32>, tensor<1x2x3x0xf32>) -> tensor<1x2x3x0xf32>
  %cc = nn.concat %c, %c {axis = 1 : i64} : (tensor<3x0xf32>, tensor<3x0xf32>) -> tensor<3x0xf32>
  %ss = nn.concat %s, %s {axis = 1 : i64} : (tensor<3x0xf32>, tensor<3x0xf32>) -> tensor<3x0xf32>
  %xc = nn.mul %x, %cc : (tensor<1x2x3x0xf32>, tensor<3x0xf32>) -> tensor<1x2x3x0xf32>
  %ts = nn.mul %t, %ss : (tensor<1x2x3x0xf32>, tensor<3x0xf32>) -> tensor<1x2x3x0xf32>
  %y = nn.add %xc, %ts : (tensor<1x2x3x0xf32>, tensor<1x2x3x0xf32>) -> tensor<1x2x3x0xf32>
  return %y : tensor<1x2x3x0xf32>
}
