// One graph of cuDNN's that computes a convolution or one of its gradients. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_CONVOLUTIONGRAPH_H
#define MT_KERNELS_CUDA_CONVOLUTIONGRAPH_H

#include "kernels/cuda/Library.h"

#include <array>
#include <string>

namespace mt::kernels::cuda {

/// What a graph computes: everything but addresses. All tensors are dense and of one type; images and results lie as
/// [N, C, ..], kernels as [M, C / groups, ..], with two dimensions of windows or three: cuDNN has none of one.
struct ConvolutionGraph {
  enum class Computes : uint8_t { result, image, kernel }; ///< from the other two, read in this order
  Computes computes = Computes::result;
  DType type = DType::f32;
  Dims image, kernel, result;
  Dims strides, dilations, low, high;
  int64_t groups = 1;

  /// Of a call of conv, conv_data_grad or conv_weight_grad. Pads behind an image are as those in front of it where that
  /// gives as many results, as fewer kernels of cuDNN's do others.
  static ConvolutionGraph of(const Signature &call);
  std::string text() const;
};

/// Launches of a graph at most: three tensors are brought to the layout that the kernel wants, and one back; memory is
/// cleared; parts of a sum are added.
constexpr int64_t kConvolutionLaunches = 8;

/// Addresses of what a graph reads, in order, and of what it computes, such as isGraphAligned.
using ConvolutionAddresses = std::array<void *, 3>;

/// Enqueues a graph; the workspace has the bytes that it was prepared for.
using ConvolutionRun = std::function<Status(Stream stream, ConvolutionAddresses addresses, void *workspace)>;

/// Errors: no cuDNN, no plan whose sums have one order, and are in 32 bits, within `scratch` bytes of workspace.
Result<ConvolutionRun> prepareGraph(const ConvolutionGraph &graph, uint64_t scratch, Library &library);

/// What is known of a graph's plan. Errors as above. For GPUs that are described.
struct ConvolutionPlan {
  uint64_t workspace = 0;
  bool repeats = false;     ///< its sums have one order
  bool tensorCores = false; ///< which round operands of 32 bits
};
Result<ConvolutionPlan> convolutionPlan(const ConvolutionGraph &graph, uint64_t scratch, Dnn &dnn);

} // namespace mt::kernels::cuda
#endif
