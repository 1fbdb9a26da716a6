// RUN: mtc-opt %s --mt-plan-templates --verify-diagnostics
// A convolution that cuDNN cannot do is said, with the reason.
module attributes {mt.target = {device = "cuda"}} {
func.func private @widens(%x: tensor<1x4x8xbf16>, %k: tensor<4x4x3xbf16>) -> tensor<1x4x6xf32> {
  // expected-remark @+1 {{a convolution goes straight from its definition and not through cuDNN, which is slower: its result is in 32 bits and its operands are not}}
  %0 = nn.conv %x, %k {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<1x4x8xbf16>, tensor<4x4x3xbf16>) -> tensor<1x4x6xf32>
  return %0 : tensor<1x4x6xf32>
}
func.func private @plain(%x: tensor<1x4x8xbf16>, %k: tensor<4x4x3xbf16>) -> tensor<1x4x6xbf16> {
  %0 = nn.conv %x, %k {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<1x4x8xbf16>, tensor<4x4x3xbf16>) -> tensor<1x4x6xbf16>
  return %0 : tensor<1x4x6xbf16>
}
}
