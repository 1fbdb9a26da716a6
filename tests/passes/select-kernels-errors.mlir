// RUN: mtc-opt %s --mt-select-kernels --verify-diagnostics
// An operation that no kernel can run is an error of the compiler, not of the run. All are reported at once.
func.func private @t(%x: tensor<2x3xi64>, %y: tensor<4xf32>) -> (tensor<2x3xi64>, tensor<9xf32>) {
  // expected-error @+1 {{has no kernel for these operands: }}
  %0 = nn.exp %x : (tensor<2x3xi64>) -> tensor<2x3xi64>
  // expected-error @+1 {{has no kernel for these operands: }}
  %1 = nn.iota {dimension = 3 : i64} : () -> tensor<9xf32>
  return %0, %1 : tensor<2x3xi64>, tensor<9xf32>
}
