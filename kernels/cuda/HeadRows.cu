// A block of threads a row: its logits are read twice, the second time from the cache, and written once with their
// gradient; four at a time, so that memory is the bound and not instructions. Losses in 64 bits,
// sums by fixed trees.
#include "kernels/cuda/Floats.cuh"
#include "kernels/cuda/HeadRows.h"

#include <cmath>

namespace mt::kernels::cuda {
namespace {

/// A label that does not count (below zero), or cannot (no such class), is -1.
__device__ int64_t labelOf(const HeadRows &call, int64_t row) {
  int64_t label =
      call.wide ? static_cast<const int64_t *>(call.labels)[row] : static_cast<const int32_t *>(call.labels)[row];
  if (label < call.classes)
    return label;
  *call.fault = call.badLabel;
  return -1;
}

/// What comes of a product before its row is normalized.
__device__ __forceinline__ float logitOf(const HeadRows &call, float product, int64_t column) {
  float logit = call.bias ? product + call.scale * loadFloat(call.bias, call.biasType, column) : product;
  return call.cap > 0 ? call.cap * tanhf(logit / call.cap) : logit;
}

__device__ __forceinline__ double lossOfRow(const HeadRows &call, double logsumexp, double own, double sum) {
  double loss = logsumexp - own;
  if (call.labelSmoothing > 0)
    loss =
        logsumexp - (1 - call.labelSmoothing) * own - call.labelSmoothing * (sum / static_cast<double>(call.classes));
  return call.zLoss > 0 ? loss + call.zLoss * logsumexp * logsumexp : loss;
}

/// Elements side by side that a thread moves at once; rows lie at multiples of them.
constexpr int kEach = 4;
template <typename S> struct alignas(sizeof(S) * kEach) Few { S at[kEach]; };
using Floats = Few<float>;

__device__ __forceinline__ void storeFew(void *base, DType type, int64_t at, const Floats &few) {
  if (type == DType::f32) {
    *reinterpret_cast<Floats *>(static_cast<float *>(base) + at) = few;
    return;
  }
  Few<uint16_t> narrow;
#pragma unroll
  for (int j = 0; j < kEach; ++j)
    storeFloat(narrow.at, type, j, few.at[j]);
  *reinterpret_cast<Few<uint16_t> *>(static_cast<uint16_t *>(base) + at) = narrow;
}

__global__ void __launch_bounds__(kHeadThreads) lossOf(HeadRows call) {
  float *x = call.logits + blockIdx.x * call.line;
  int64_t label = labelOf(call, blockIdx.x), place = blockIdx.x * call.line;
  bool counts = label >= 0, changes = call.bias || call.cap > 0;
  float most = -INFINITY, total = 0;
  double sum = 0;
  for (int64_t i = threadIdx.x * kEach; i < call.classes && counts; i += kHeadThreads * kEach) {
    Floats few = *reinterpret_cast<Floats *>(x + i);
    float before = most;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      few.at[j] = i + j < call.classes ? logitOf(call, few.at[j], i + j) : -INFINITY; // beyond the row
      most = fmaxf(most, few.at[j]);
    }
    if (changes)
      *reinterpret_cast<Floats *>(x + i) = few;
    for (int j = 0; j < kEach && call.labelSmoothing > 0; ++j)
      sum += i + j < call.classes ? few.at[j] : 0.0f;
    float shift = isinf(most) && most < 0 ? 0.0f : most; // -infinity - -infinity would be no number
    total *= expf(before - shift);
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      total += expf(few.at[j] - shift);
  }
  float overall = acrossBlock<kHeadThreads>(most, Larger());
  float shift = isinf(overall) && overall < 0 ? 0.0f : overall;
  total = acrossBlock<kHeadThreads>(total * expf(most - shift), Plus());
  if (call.labelSmoothing > 0)
    sum = acrossBlock<kHeadThreads>(sum, Plus());
  double logsumexp = static_cast<double>(shift) + log(static_cast<double>(total));
  if (threadIdx.x == 0)
    call.losses[blockIdx.x] = counts ? lossOfRow(call, logsumexp, x[label], sum) : 0;
  if (!call.gradients)
    return;
  __syncthreads(); // the label's logit was read
  double factor = call.scalars[Scalars::kInverseValid] * call.scale;
  double slope = call.zLoss > 0 ? 1 + 2 * call.zLoss * logsumexp : 1;
  float scaled = counts ? static_cast<float>(factor * slope / total) : 0.0f;
  float own = static_cast<float>(factor * (1 - call.labelSmoothing));
  float each = static_cast<float>(factor * call.labelSmoothing / static_cast<double>(call.classes));
  for (int64_t i = threadIdx.x * kEach; i < call.classes; i += kHeadThreads * kEach) {
    Floats few = *reinterpret_cast<Floats *>(x + i);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      float share = counts && call.cap > 0 ? few.at[j] / call.cap : 0.0f;
      float slope = counts ? expf(few.at[j] - shift) * scaled - (i + j == label ? each + own : each) : 0.0f;
      few.at[j] = i + j < call.classes ? slope * (1 - share * share) : 0.0f;
    }
    storeFew(call.gradients, call.type, place + i, few);
  }
}

/// A block has kHeadColumns columns by kHeadGroups groups of rows, each added in order, then the groups in order.
__global__ void __launch_bounds__(kHeadColumns *kHeadGroups)
    sumOf(const void *gradients, DType type, int64_t rows, int64_t classes, int64_t line, void *sums, DType sumsType, bool adds) {
  __shared__ float parts[kHeadGroups][kHeadColumns];
  int64_t column = static_cast<int64_t>(blockIdx.x) * kHeadColumns + threadIdx.x;
  float total = 0;
  for (int64_t row = threadIdx.y; row < rows && column < classes; row += kHeadGroups)
    total += loadFloat(gradients, type, row * line + column);
  parts[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= classes)
    return;
  total = adds ? loadFloat(sums, sumsType, column) : 0.0f;
  for (int group = 0; group < kHeadGroups; ++group)
    total += parts[group][threadIdx.x];
  storeFloat(sums, sumsType, column, total);
}

__global__ void __launch_bounds__(kHeadThreads)
    addLosses(const double *losses, int64_t count, const double *scalars, float *loss, bool adds) {
  double total = 0;
  for (int64_t i = threadIdx.x; i < count; i += kHeadThreads)
    total += losses[i];
  total = acrossBlock<kHeadThreads>(total, Plus());
  if (threadIdx.x == 0)
    *loss = static_cast<float>(total * scalars[Scalars::kInverseValid]) + (adds ? *loss : 0.0f);
}

} // namespace

LossOfCode lossOfCode() { return lossOf; }
SumOfCode sumOfCode() { return sumOf; }
AddHeadLossesCode addHeadLossesCode() { return addLosses; }

} // namespace mt::kernels::cuda
