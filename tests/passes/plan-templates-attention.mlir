// RUN: mtc-opt %s --mt-plan-templates --verify-diagnostics
// Attention in 16 bits that cuDNN cannot do is said, with the reason; in 32 bits it never can, and the user chose that.
module attributes {mt.target = {device = "cuda"}} {
func.func private @capped(%q: tensor<1x64x4x64xbf16>, %k: tensor<1x64x2x64xbf16>) -> tensor<1x64x4x64xbf16> {
  // expected-remark @+1 {{attention goes by blocks of queries and not through cuDNN, which is slower: its scores are capped}}
  %0, %1 = nn.attention %q, %k, %k {scale = 0.5, softCap = 30.0, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x64x4x64xbf16>, tensor<1x64x2x64xbf16>, tensor<1x64x2x64xbf16>) -> (tensor<1x64x4x64xbf16>, tensor<1x4x64xf32>)
  return %0 : tensor<1x64x4x64xbf16>
}
func.func private @plain(%q: tensor<1x64x4x64xbf16>, %k: tensor<1x64x2x64xbf16>) -> tensor<1x64x4x64xbf16> {
  %0, %1 = nn.attention %q, %k, %k {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x64x4x64xbf16>, tensor<1x64x2x64xbf16>, tensor<1x64x2x64xbf16>) -> (tensor<1x64x4x64xbf16>, tensor<1x4x64xf32>)
  return %0 : tensor<1x64x4x64xbf16>
}
func.func private @wide(%q: tensor<1x64x4x64xf32>, %k: tensor<1x64x2x64xf32>) -> tensor<1x64x4x64xf32> {
  %0, %1 = nn.attention %q, %k, %k {scale = 0.5, softCap = 30.0, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x64x4x64xf32>, tensor<1x64x2x64xf32>, tensor<1x64x2x64xf32>) -> (tensor<1x64x4x64xf32>, tensor<1x4x64xf32>)
  return %0 : tensor<1x64x4x64xf32>
}
}
