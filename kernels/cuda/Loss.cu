// cross_entropy and squared_error with their gradients: every row's (or part's) loss in 64 bits, then all of them added
// by one block. Logits are read twice (the second time from the cache where a row of every block fits there) and
// written once; with a gradient, 80 % of the memory's bandwidth.
#include "kernels/cuda/Loss.h"

#include "kernels/cuda/Fault.h"
#include "kernels/cuda/Rows.cuh"

namespace mt::kernels::cuda {
namespace {

/// A label that does not count (below zero), or cannot (no such class), is -1.
__device__ int64_t labelOf(const CrossEntropyCall &call, int64_t row) {
  int64_t label =
      call.wide ? static_cast<const int64_t *>(call.labels)[row] : static_cast<const int32_t *>(call.labels)[row];
  if (label < call.shape.width)
    return label;
  *call.fault = static_cast<uint32_t>(Fault::labelOutOfRange);
  return -1;
}

__device__ __forceinline__ void sendBack(const CrossEntropyCall &call, HeldRow<kLossHeld> &x, RowStatistics statistics,
                                         int64_t label, double inverse) {
  bool counts = label >= 0;
  float factor = static_cast<float>(inverse / static_cast<double>(statistics.total));
  eachPiece(call.shape, x, -INFINITY, [&](const Places &places, const float(&in)[kOctet]) {
    float out[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      out[i] = counts ? expf(in[i] - statistics.most) * factor : 0.0f;
      if (places.at(i) == label)
        out[i] -= static_cast<float>(inverse);
    }
    store(call.gradient, x.begin, places, out);
  });
}

__global__ void __launch_bounds__(kMostThreads) crossEntropy(const __grid_constant__ CrossEntropyCall call) {
  int64_t row = groupIndex();
  if (row >= call.rows)
    return;
  int64_t label = labelOf(call, row);
  HeldRow<kLossHeld> x = {call.logits, row * call.shape.width, {}};
  RowStatistics statistics = {0, 1};
  if (label >= 0) {
    hold(call.shape, x, -INFINITY);
    statistics = rowStatistics(call.shape, x);
  }
  if (threadIdx.x == 0)
    call.losses[row] = label < 0 ? 0
                                 : static_cast<double>(statistics.most) + log(static_cast<double>(statistics.total)) -
                                       loadOne<float>(call.logits.type, call.logits.data, x.begin + label);
  if (call.gradient.data)
    sendBack(call, x, statistics, label, call.scalars[Scalars::kInverseValid]);
}

__global__ void __launch_bounds__(kThreads) squaredError(const __grid_constant__ SquaredErrorCall call) {
  float factor = static_cast<float>(2 * call.scalars[Scalars::kInverseValid]);
  int64_t begin = blockIdx.x * call.size, end = begin + call.size < call.elements ? begin + call.size : call.elements;
  RowShape shape = {end - begin, call.packed};
  double total = 0;
  for (int64_t piece = 0; piece < piecesOf(shape); ++piece) {
    Places places = placesIn(shape, piece);
    float p[kOctet], t[kOctet], out[kOctet];
    load(call.prediction, begin, places, 0.0f, p);
    load(call.target, begin, places, 0.0f, t);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      double away = p[i] - t[i];
      total += away * away;
      out[i] = (p[i] - t[i]) * factor;
    }
    if (call.gradient.data)
      store(call.gradient, begin, places, out);
  }
  total = groupSum(total);
  if (threadIdx.x == 0)
    call.losses[blockIdx.x] = total;
}

/// The loss: the sum of `count` losses times the scalars' factor.
__global__ void __launch_bounds__(kMostThreads)
    addLosses(const double *losses, int64_t count, const double *scalars, Out loss) {
  double total = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
    total += losses[i];
  total = groupSum(total);
  if (threadIdx.x == 0)
    storeOne(DType::f32, loss.data, 0, static_cast<float>(total * scalars[Scalars::kInverseValid]), loss.adds);
}

} // namespace

CrossEntropyCode crossEntropyCode() { return crossEntropy; }
SquaredErrorCode squaredErrorCode() { return squaredError; }
AddLossesCode addLossesCode() { return addLosses; }

} // namespace mt::kernels::cuda
