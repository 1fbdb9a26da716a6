// Convolutions, their gradients, and pooling.
#include "kernels/DeviceScratch.h"
#include "kernels/Windows.h"

#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

#include <algorithm>

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

/// Operands of the three calls: image, kernel, and result or its gradient.
struct ConvOperands {
  size_t image, kernel, result;
  static ConvOperands of(const Signature &call) {
    if (call.kernel == "conv")
      return {0, 1, 3};
    return call.kernel == "conv_data_grad" ? ConvOperands{2, 1, 0} : ConvOperands{1, 2, 0};
  }
};

Dims behind(const Dims &dims, size_t count) { return {dims.begin() + static_cast<std::ptrdiff_t>(count), dims.end()}; }

std::string checkConv(const Signature &call) {
  ConvOperands at = ConvOperands::of(call);
  if (!call.operands[at.image].present || !call.operands[at.kernel].present || !call.operands[at.result].present)
    return "image, kernel and result must be there";
  const Dims &image = call.operands[at.image].dims, &kernel = call.operands[at.kernel].dims,
             &result = call.operands[at.result].dims;
  int64_t groups = call.integer("groups", 1);
  if (image.size() < 3 || kernel.size() != image.size() || result.size() != image.size() || groups < 1 ||
      kernel[0] % groups != 0 || kernel[1] > image[1] / groups || kernel[1] * groups != image[1] ||
      result[1] != kernel[0])
    return fmt::format("a kernel {} in {} groups does not lead from images {} to {}", text(kernel), groups, text(image),
                       text(result));
  int first = 0, second = 1, written = static_cast<int>(call.kernel == "conv" ? 3 : 2);
  return Checker(call)
      .floating(first)
      .sameType(second, first)
      .sameTypeOrF32(written, first)
      .also(checkWindows(call, image, result, behind(kernel, 2)))
      .result();
}

std::string checkForward(const Signature &call) {
  return Checker(call)
      .also(checkConv(call))
      .sameTypeOrF32(2, 0)
      .dims(2, {call.operands[1].dims.empty() ? 0 : call.operands[1].dims[0]})
      .result();
}

double convFlops(const Signature &call) {
  ConvShape shape = ConvShape::of(call);
  return 2.0 * static_cast<double>(shape.batch * shape.groups * shape.filters) *
         static_cast<double>(shape.windows.resultPlaces()) * static_cast<double>(shape.depth());
}

std::string checkPoolOf(const Signature &call, int operand, int result) {
  const Dims &image = call.operands[static_cast<size_t>(operand)].dims;
  const Dims &pooled = call.operands[static_cast<size_t>(result)].dims;
  if (image.size() < 3 || pooled.size() != image.size() || image[1] != pooled[1])
    return fmt::format("images {} do not pool to {}", text(image), text(pooled));
  return checkWindows(call, image, pooled, call.integers("size"));
}

std::string checkPool(const Signature &call) {
  return Checker(call).floating(0).sameType(1, 0).also(checkPoolOf(call, 0, 1)).result();
}

std::string checkPoolGrad(const Signature &call) {
  if (!call.operands[2].present)
    return "the result is missing";
  return Checker(call)
      .floating(0)
      .sameTypeOrF32(2, 0)
      .require(call.operands[1].present == (call.text("kind") == "max"), "the operand is there for max alone")
      .sameType(1, 0)
      .sameDims(1, 2)
      .also(checkPoolOf(call, 2, 0))
      .result();
}

template <size_t kResult> double poolFlops(const Signature &call) {
  double places = 1;
  for (int64_t size : call.integers("size"))
    places *= static_cast<double>(size);
  return places * static_cast<double>(call.operands[kResult].elements());
}

constexpr AttributeSpec kStrides = {"strides", Kind::integers, true, "", "distance of windows, a dimension"},
                        kDilations = {"dilations", Kind::integers, true, "", "distance of places in a window"},
                        kLow = {"low", Kind::integers, true, "", "places before the image"},
                        kHigh = {"high", Kind::integers, true, "", "places after it"},
                        kGroups = {"groups", Kind::integer, false, "",
                                   "that channels and filters are divided into; default 1"},
                        kPoolKind = {"kind", Kind::choice, true, "max|sum|mean",
                                     "what is computed of the places inside"},
                        kSize = {"size", Kind::integers, true, "", "places of a window"};
constexpr AttributeSpec kConv[] = {kStrides, kDilations, kLow, kHigh, kGroups};
constexpr AttributeSpec kPool[] = {kPoolKind, kSize, kStrides, kDilations, kLow, kHigh};

} // namespace

std::string checkWindows(const Signature &call, const Dims &image, const Dims &result, const Dims &size) {
  Dims strides = call.integers("strides"), dilations = call.integers("dilations"), low = call.integers("low"),
       high = call.integers("high");
  size_t rank = size.size();
  if (rank < 1 || rank > Windows::kDims || image.size() != rank + 2 || strides.size() != rank ||
      dilations.size() != rank || low.size() != rank || high.size() != rank)
    return "windows have one to three dimensions, with one size, stride, dilation and pad for each";
  if (image[0] != result[0])
    return "images and results differ in their number";
  constexpr int64_t kMost = int64_t{1} << 31;
  auto outside = [](int64_t value, int64_t least) { return value < least || value > kMost; };
  for (size_t d = 0; d < rank; ++d) {
    if (outside(size[d], 1) || outside(strides[d], 1) || outside(dilations[d], 1) || outside(low[d], 0) ||
        outside(high[d], 0) || outside(image[d + 2], 1))
      return fmt::format("the window of dimension {} has no size, or one beyond all bounds", d);
    int64_t room = image[d + 2] + low[d] + high[d] - ((size[d] - 1) * dilations[d] + 1);
    if (room < 0 || result[d + 2] != room / strides[d] + 1)
      return fmt::format("windows over {} elements of dimension {} do not give {}", image[d + 2], d, result[d + 2]);
  }
  return "";
}

Windows Windows::of(const Signature &call, const Dims &image, const Dims &result, const Dims &size) {
  Windows windows;
  Dims strides = call.integers("strides"), dilations = call.integers("dilations"), low = call.integers("low");
  size_t front = kDims - size.size();
  for (size_t d = 0; d < size.size(); ++d) {
    windows.image[front + d] = image[d + 2];
    windows.result[front + d] = result[d + 2];
    windows.size[front + d] = size[d];
    windows.stride[front + d] = strides[d];
    windows.dilation[front + d] = dilations[d];
    windows.low[front + d] = low[d];
  }
  return windows;
}

ConvShape ConvShape::of(const Signature &call) {
  ConvOperands at = ConvOperands::of(call);
  const Dims &image = call.operands[at.image].dims, &kernel = call.operands[at.kernel].dims;
  int64_t groups = call.integer("groups", 1);
  return {Windows::of(call, image, call.operands[at.result].dims, behind(kernel, 2)), image[0], groups, kernel[1],
          kernel[0] / groups};
}

/// Of bf16 the CPU turns the kernel around where windows skip no places: the gradient then is a convolution.
uint64_t turnedKernel(const Signature &call) {
  const std::vector<int64_t> strides = call.integers("strides");
  const bool isTurned =
      call.operands[0].type == DType::bf16 && std::ranges::all_of(strides, [](int64_t one) { return one == 1; });
  return isTurned ? call.operands[1].bytes() : 0;
}

/// A plan for a GPU is one for the CPU, too: it has what either needs.
uint64_t dataGradScratch(const Signature &call) { return std::max(convScratch(call), turnedKernel(call)); }

std::span<const Kernel> windowKernels() {
  static const std::vector<Kernel> kernels = {
      entry(
          "conv", "image kernel bias? -> result", "Convolution in groups, of one to three dimensions.",
          "result[n, m, o] = bias[m] + sum over channels c of m's group and places p of kernel[m, c, p] * image[n, "
          "c, o * stride + p * dilation - low], zero outside. Types: image and kernel of one; bias and result that or "
          "f32; summed in f32, and on a GPU rounded to the result's type before a bias is added",
          convFlops, checkForward, {.attributes = kConv, .cudaWorkspace = convScratch}),
      entry("conv_data_grad", "gradient kernel -> result",
            "Gradient of a convolution's image: the transposed convolution.",
            "result[n, c, i] = sum over filters m of c's group, results o and places p with o * stride + p * dilation "
            "- low = i of kernel[m, c, p] * gradient[n, m, o]. Types as in conv",
            convFlops, checkConv, {.attributes = kConv, .workspace = turnedKernel, .cudaWorkspace = dataGradScratch}),
      entry("conv_weight_grad", "gradient image -> result+", "Gradient of a convolution's kernel.",
            "result[m, c, p] = sum over images n and results o of gradient[n, m, o] * image[n, c, o * stride + p * "
            "dilation - low]. Types as in conv; on a GPU the sum is rounded to the operands' type first",
            convFlops, checkConv, {.attributes = kConv, .cudaWorkspace = convScratch}),
      entry("pool", "operand -> result+", "Maximum, sum or mean of what windows see.",
            "kind over the places of a window that are inside the operand [N, C, ..]; a maximum of none is -infinity, "
            "a mean "
            "of none 0",
            poolFlops<1>, checkPool, {.attributes = kPool}),
      entry("pool_grad", "gradient operand? -> result+", "Gradient of a pool's operand.",
            "max: each gradient goes to the first of its window's largest elements; sum, mean: to all of them. Types: "
            "result "
            "the gradient's or f32",
            poolFlops<0>, checkPoolGrad, {.attributes = kPool})};
  return kernels;
}

} // namespace mt::kernels
