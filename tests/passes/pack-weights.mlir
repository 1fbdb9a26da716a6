// Frozen weights of products as codes and scales, and each product's made for itself; what is trained, looked up or
// multiplied from the left stays as it is.
// RUN: mtc-opt %s --mt-pack-weights | FileCheck %s

// CHECK: func.func @main(
// CHECK-SAME: %[[TABLE:[a-z0-9]+]]: tensor<9x130xf32>
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<8x65xui8> {nn.packing = {block = 64 : i64, codes = "", dims = array<i64: 8, 130>}, nn.parameter = "q"}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<1x36xui8> {nn.packing = {{.*}}dims = array<i64: 8, 9>}, nn.parameter = "v"}
// CHECK-SAME: tensor<9x9xf32> {nn.parameter = "t", nn.trainable}
// CHECK-SAME: tensor<9x9xf32> {nn.parameter = "l"}
// CHECK-SAME: tensor<1xf32> {nn.parameter = "q.scales"}
// CHECK-SAME: %[[QS:[a-z0-9]+]]: tensor<8x3xbf16> {nn.packing = {block = 64 : i64, codes = "q", dims = array<i64: 8, 130>}, nn.parameter = "q.scales_"}
// CHECK-SAME: %[[VS:[a-z0-9]+]]: tensor<8x1xbf16> {nn.packing = {{.*}}codes = "v"{{.*}}, nn.parameter = "v.scales"}
// CHECK: %[[X:.*]] = nn.embedding %[[TABLE]]
// CHECK: %[[W:.*]] = nn.dequantize %[[Q]], %[[QS]] {axis = 1 : i64, bits = 4 : i64, block = 64 : i64, levels = array<f64: -1.000000e+00, {{.*}}1.000000e+00>} : (tensor<8x65xui8>, tensor<8x3xbf16>) -> tensor<8x130xf32>
// CHECK-NEXT: nn.matmul %[[X]], %[[W]] {transposeRhs = true}
// CHECK: %[[AGAIN:.*]] = nn.dequantize %[[Q]], %[[QS]]
// CHECK-NEXT: nn.matmul %[[X]], %[[AGAIN]]
// CHECK: %[[U:.*]] = nn.dequantize %[[V]], %[[VS]] {{.*}} -> tensor<8x9xf32>
// CHECK-NEXT: nn.matmul %{{.*}}, %[[U]] :
// CHECK-NOT: nn.dequantize
func.func @main(%i: tensor<4xi64> {nn.input = "i"}, %e: tensor<9x130xf32> {nn.parameter = "e"}, %q: tensor<8x130xf32> {nn.parameter = "q"},
                %v: tensor<8x9xf32> {nn.parameter = "v"}, %t: tensor<9x9xf32> {nn.parameter = "t", nn.trainable},
                %l: tensor<9x9xf32> {nn.parameter = "l"}, %s: tensor<1xf32> {nn.parameter = "q.scales"}) -> tensor<9x4xf32> {
  %x = nn.embedding %e, %i : (tensor<9x130xf32>, tensor<4xi64>) -> tensor<4x130xf32>
  %a = nn.matmul %x, %q {transposeRhs = true} : (tensor<4x130xf32>, tensor<8x130xf32>) -> tensor<4x8xf32>
  %b = nn.matmul %x, %q {transposeRhs = true} : (tensor<4x130xf32>, tensor<8x130xf32>) -> tensor<4x8xf32>
  %c = nn.add %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d = nn.matmul %c, %v : (tensor<4x8xf32>, tensor<8x9xf32>) -> tensor<4x9xf32>
  %f = nn.matmul %d, %t : (tensor<4x9xf32>, tensor<9x9xf32>) -> tensor<4x9xf32>
  %g = nn.matmul %l, %f {transposeRhs = true} : (tensor<9x9xf32>, tensor<4x9xf32>) -> tensor<9x4xf32>
  return %g : tensor<9x4xf32>
}
