// Windows over the places of an image, of one to three dimensions: what convolutions and pools see. Plain numbers that
// the catalogue, the CPU's and the GPU's kernels share; dimensions in front that a call lacks have size one.
#ifndef MT_KERNELS_WINDOWS_H
#define MT_KERNELS_WINDOWS_H

#include "kernels/Catalogue.h"

namespace mt::kernels {

/// Place p of the window of result o sees element o * stride + p * dilation - low of its dimension; outside there is
/// none.
struct Windows {
  static constexpr int kDims = 3;
  int64_t image[kDims] = {1, 1, 1}, result[kDims] = {1, 1, 1}, size[kDims] = {1, 1, 1};
  int64_t stride[kDims] = {1, 1, 1}, dilation[kDims] = {1, 1, 1}, low[kDims] = {0, 0, 0};

  /// Of a call that `checkWindows` passed: its images are [N, C, ..].
  static Windows of(const Signature &call, const Dims &image, const Dims &result, const Dims &size);

  static constexpr int64_t product(const int64_t (&sizes)[kDims]) { return sizes[0] * sizes[1] * sizes[2]; }
  constexpr int64_t imagePlaces() const { return product(image); }
  constexpr int64_t resultPlaces() const { return product(result); }
  constexpr int64_t places() const { return product(size); }
};

/// Empty if windows of `size` over `image` [N, C, ..] give `result` [N, M, ..] but for its channels; else what is
/// wrong.
std::string checkWindows(const Signature &call, const Dims &image, const Dims &result, const Dims &size);

/// A convolution, and each of its gradients: images [batch, groups * channels, ..], results [batch, groups * filters,
/// ..].
struct ConvShape {
  Windows windows;
  int64_t batch = 1, groups = 1, channels = 1, filters = 1; ///< channels and filters of a group
  /// Of conv, conv_data_grad or conv_weight_grad.
  static ConvShape of(const Signature &call);
  int64_t depth() const { return channels * windows.places(); } ///< what a result sums over
};

} // namespace mt::kernels
#endif
