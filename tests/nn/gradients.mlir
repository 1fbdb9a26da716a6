// RUN: mtc-opt %s --pass-pipeline='builtin.module(mt-differentiate)' | FileCheck %s
// Gradients of single operations, seen in the backward template of a layer whose result feeds a loss layer.

// CHECK-LABEL: func.func private @dense.backward.input
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32> {nn.argument = 0 : i64}, %[[W:.*]]: tensor<3x4xf32> {nn.argument = 1 : i64}, %[[DY:.*]]: tensor<2x4xf32> {nn.gradient = 0 : i64})
// CHECK-DAG: %[[DX:.*]] = nn.matmul %[[DY]], %[[W]] {transposeRhs = true} :
// CHECK-DAG: %[[DW:.*]] = nn.matmul %[[X]], %[[DY]] {transposeLhs = true} :
// CHECK-DAG: %[[DB:.*]] = nn.reduce %[[DY]] {axes = array<i64: 0>, keepDims = false, kind = "sum"}
// CHECK: return %[[DX]], %[[DW]], %[[DB]] :
func.func private @first(%x: tensor<2x3xf32>, %w: tensor<3x3xf32>) -> tensor<2x3xf32> {
  %none = nn.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: 2, 0>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x0xf32>
  %all = nn.concat %none, %x {axis = 1 : i64} : (tensor<2x0xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = nn.matmul %all, %w : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
func.func private @dense(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %y = nn.matmul %x, %w, %b : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
func.func private @loss(%x: tensor<2x4xf32>, %l: tensor<2xi64>, %s: tensor<16xf64>) -> tensor<f32> {
  %y = nn.cross_entropy %x, %l, %s : (tensor<2x4xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func @main(%x: tensor<2x3xf32> {nn.input = "x"}, %v: tensor<3x3xf32> {nn.parameter = "v", nn.trainable},
                %w: tensor<3x4xf32> {nn.parameter = "w", nn.trainable},
                %b: tensor<4xf32> {nn.parameter = "b", nn.trainable}, %l: tensor<2xi64> {nn.labels},
                %s: tensor<16xf64> {nn.scalars}) -> tensor<f32> {
  %0 = call @first(%x, %v) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %1 = call @dense(%0, %w, %b) : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = call @loss(%1, %l, %s) : (tensor<2x4xf32>, tensor<2xi64>, tensor<16xf64>) -> tensor<f32>
  return %2 : tensor<f32>
}
