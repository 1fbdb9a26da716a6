// Convolutions, their gradients and pools straight from their definitions: a thread, or for a kernel's gradient a
// block, for each element of the result, in a fixed order and without scratch. Every product reads both of its factors,
// from the cache at best: far below what a convolution can reach, for any shape alike. Convolutions come here where
// cuDNN does not do them (Convolution.cpp).
#include "kernels/cuda/Window.h"

#include "kernels/cuda/Elements.cuh"
#include "kernels/cuda/Floats.cuh"

namespace mt::kernels::cuda {
namespace {

/// Three numbers of a row-major index.
struct Triple {
  int64_t at[Windows::kDims];
  __device__ __forceinline__ Triple(int64_t index, const int64_t (&sizes)[Windows::kDims])
      : at{index / (sizes[1] * sizes[2]), index / sizes[2] % sizes[1], index % sizes[2]} {}
};

__device__ __forceinline__ int64_t productOf(const int64_t (&sizes)[Windows::kDims]) {
  return sizes[0] * sizes[1] * sizes[2];
}

/// The element that place `p` of the window of result `o` sees; -1: none.
__device__ __forceinline__ int64_t seen(const Windows &w, const Triple &o, const Triple &p) {
  int64_t element = 0;
  for (int d = 0; d < Windows::kDims; ++d) {
    int64_t at = o.at[d] * w.stride[d] + p.at[d] * w.dilation[d] - w.low[d];
    if (at < 0 || at >= w.image[d])
      return -1;
    element = element * w.image[d] + at;
  }
  return element;
}

/// The result whose window sees element `i` at place `p`; -1: none.
__device__ __forceinline__ int64_t seeing(const Windows &w, const Triple &i, const Triple &p) {
  int64_t result = 0;
  for (int d = 0; d < Windows::kDims; ++d) {
    int64_t at = i.at[d] + w.low[d] - p.at[d] * w.dilation[d];
    if (at < 0 || at % w.stride[d] != 0 || at / w.stride[d] >= w.result[d])
      return -1;
    result = result * w.result[d] + at / w.stride[d];
  }
  return result;
}

__device__ __forceinline__ float floatOf(In in, int64_t at) { return loadFloat(in.data, in.type, at); }

__device__ __forceinline__ int64_t threadIndex() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

__global__ void __launch_bounds__(kThreads) conv(const __grid_constant__ ConvArguments a) {
  int64_t index = threadIndex();
  if (index >= a.total)
    return;
  const Windows &w = a.shape.windows;
  int64_t results = productOf(w.result), pixels = productOf(w.image), places = productOf(w.size);
  int64_t filter = index / results % (a.shape.groups * a.shape.filters),
          n = index / results / (a.shape.groups * a.shape.filters);
  int64_t group = filter / a.shape.filters;
  Triple o(index % results, w.result);
  float sum = a.bias.data ? floatOf(a.bias, filter) : 0;
  for (int64_t c = 0; c < a.shape.channels; ++c) {
    int64_t plane = ((n * a.shape.groups + group) * a.shape.channels + c) * pixels;
    int64_t weights = (filter * a.shape.channels + c) * places;
    for (int64_t p = 0; p < places; ++p)
      if (int64_t element = seen(w, o, Triple(p, w.size)); element >= 0)
        sum += floatOf(a.kernel, weights + p) * floatOf(a.image, plane + element);
  }
  storeOne(a.result.type, a.result.data, index, sum, a.result.adds);
}

__global__ void __launch_bounds__(kThreads) convDataGrad(const __grid_constant__ ConvArguments a) {
  int64_t index = threadIndex();
  if (index >= a.total)
    return;
  const Windows &w = a.shape.windows;
  int64_t results = productOf(w.result), pixels = productOf(w.image), places = productOf(w.size);
  int64_t channel = index / pixels % (a.shape.groups * a.shape.channels),
          n = index / pixels / (a.shape.groups * a.shape.channels);
  int64_t group = channel / a.shape.channels, own = channel % a.shape.channels;
  Triple i(index % pixels, w.image);
  float sum = 0;
  for (int64_t m = 0; m < a.shape.filters; ++m) {
    int64_t filter = group * a.shape.filters + m;
    int64_t plane = (n * a.shape.groups * a.shape.filters + filter) * results;
    int64_t weights = (filter * a.shape.channels + own) * places;
    for (int64_t p = 0; p < places; ++p)
      if (int64_t result = seeing(w, i, Triple(p, w.size)); result >= 0)
        sum += floatOf(a.kernel, weights + p) * floatOf(a.gradient, plane + result);
  }
  storeOne(a.result.type, a.result.data, index, sum, a.result.adds);
}

__global__ void __launch_bounds__(kThreads) convWeightGrad(const __grid_constant__ ConvArguments a) {
  const Windows &w = a.shape.windows;
  int64_t index = blockIdx.x, results = productOf(w.result), pixels = productOf(w.image), places = productOf(w.size);
  int64_t channel = index / places % a.shape.channels, filter = index / places / a.shape.channels;
  int64_t group = filter / a.shape.filters;
  Triple p(index % places, w.size);
  float sum = 0;
  for (int64_t at = threadIdx.x; at < a.shape.batch * results; at += kThreads) {
    int64_t n = at / results, element = seen(w, Triple(at % results, w.result), p);
    int64_t plane = ((n * a.shape.groups + group) * a.shape.channels + channel) * pixels;
    if (element >= 0)
      sum += floatOf(a.gradient, (n * a.shape.groups * a.shape.filters + filter) * results + at % results) *
             floatOf(a.image, plane + element);
  }
  sum = acrossBlock<kThreads>(sum, Plus());
  if (threadIdx.x == 0)
    storeOne(a.result.type, a.result.data, index, sum, a.result.adds);
}

/// The first of the largest elements that a window sees in a plane; -1 of none. A NaN is larger than all.
__device__ __forceinline__ int64_t largestSeen(const Windows &w, const Triple &o, In plane, int64_t begin) {
  int64_t best = -1, places = productOf(w.size);
  float most = 0;
  for (int64_t p = 0; p < places; ++p) {
    int64_t element = seen(w, o, Triple(p, w.size));
    if (element < 0)
      continue;
    float value = floatOf(plane, begin + element);
    if (best < 0 || value > most || (value != value && most == most))
      best = element, most = value;
  }
  return best;
}

__device__ __forceinline__ int64_t countSeen(const Windows &w, const Triple &o) {
  int64_t count = 0, places = productOf(w.size);
  for (int64_t p = 0; p < places; ++p)
    count += seen(w, o, Triple(p, w.size)) >= 0 ? 1 : 0;
  return count > 0 ? count : 1;
}

__device__ __forceinline__ float pooled(const PoolArguments &a, const Triple &o, int64_t begin) {
  if (a.kind == PoolKind::max) {
    int64_t best = largestSeen(a.windows, o, a.operand, begin);
    return best < 0 ? -INFINITY : floatOf(a.operand, begin + best);
  }
  double sum = 0;
  int64_t places = productOf(a.windows.size);
  for (int64_t p = 0; p < places; ++p)
    if (int64_t element = seen(a.windows, o, Triple(p, a.windows.size)); element >= 0)
      sum += floatOf(a.operand, begin + element);
  return static_cast<float>(a.kind == PoolKind::mean ? sum / static_cast<double>(countSeen(a.windows, o)) : sum);
}

__global__ void __launch_bounds__(kThreads) pool(const __grid_constant__ PoolArguments a) {
  int64_t index = threadIndex();
  if (index >= a.total)
    return;
  int64_t results = productOf(a.windows.result), plane = index / results * productOf(a.windows.image);
  storeOne(a.result.type, a.result.data, index, pooled(a, Triple(index % results, a.windows.result), plane),
           a.result.adds);
}

/// What one result gives to the element that its window sees.
__device__ __forceinline__ float given(const PoolArguments &a, int64_t result, int64_t element, int64_t plane,
                                       float dy) {
  Triple o(result, a.windows.result);
  if (a.kind == PoolKind::max)
    return largestSeen(a.windows, o, a.operand, plane) == element ? dy : 0;
  return a.kind == PoolKind::mean ? dy / static_cast<float>(countSeen(a.windows, o)) : dy;
}

__global__ void __launch_bounds__(kThreads) poolGrad(const __grid_constant__ PoolArguments a) {
  int64_t index = threadIndex();
  if (index >= a.total)
    return;
  const Windows &w = a.windows;
  int64_t results = productOf(w.result), pixels = productOf(w.image), places = productOf(w.size),
          plane = index / pixels;
  Triple i(index % pixels, w.image);
  float sum = 0;
  for (int64_t p = places - 1; p >= 0; --p) // results in ascending order
    if (int64_t result = seeing(w, i, Triple(p, w.size)); result >= 0)
      sum += given(a, result, index % pixels, plane * pixels, floatOf(a.gradient, plane * results + result));
  storeOne(a.result.type, a.result.data, index, sum, a.result.adds);
}

} // namespace

ConvCode convCode() { return conv; }
ConvCode convDataGradCode() { return convDataGrad; }
ConvCode convWeightGradCode() { return convWeightGrad; }
PoolCode poolCode() { return pool; }
PoolCode poolGradCode() { return poolGrad; }

} // namespace mt::kernels::cuda
