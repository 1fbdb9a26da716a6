// cross_entropy and squared_error with their gradients: every row's (or part's) loss in 64 bits, then all of them added
// by one block. Logits of up to 16,384 classes are read once, of more twice (the second time from the cache where a row
// of every block fits there), their gradient is written once: bound by the memory's bandwidth in packs of one type,
// else by instructions.
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

__device__ __forceinline__ void sendBack(const Out &gradient, const RowShape &shape, HeldRow &x,
                                         RowStatistics statistics, int64_t label, double inverse) {
  bool counts = label >= 0;
  float factor = static_cast<float>(inverse / static_cast<double>(statistics.total));
  eachPiece(shape, x, -INFINITY, [&](const Places &places, const float(&in)[kOctet]) {
    float out[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      out[i] = counts ? expf(in[i] - statistics.most) * factor : 0.0f;
      if (places.at(i) == label)
        out[i] -= static_cast<float>(inverse);
    }
    store(gradient, x.begin, places, out);
  });
}

template <RowCode kCode>
__global__ void __launch_bounds__(kRowThreads) crossEntropy(const __grid_constant__ CrossEntropyCall call) {
  int64_t row = groupIndex();
  if (row >= call.rows)
    return;
  const RowShape shape = shapeOf<kCode>(call.shape);
  int64_t label = labelOf(call, row);
  HeldRow x = {typed<kCode>(call.logits), row * shape.width, {}};
  RowStatistics statistics = {0, 1};
  if (label >= 0) {
    hold(shape, x, -INFINITY);
    statistics = rowStatistics(shape, x);
  }
  if (threadIdx.x == 0)
    call.losses[row] = label < 0 ? 0
                                 : static_cast<double>(statistics.most) + log(static_cast<double>(statistics.total)) -
                                       loadOne<float>(call.logits.type, call.logits.data, x.begin + label);
  if (call.gradient.data)
    sendBack(typed<kCode>(call.gradient), shape, x, statistics, label, call.scalars[Scalars::kInverseValid]);
}

__global__ void __launch_bounds__(kThreads) squaredError(const __grid_constant__ SquaredErrorCall call) {
  float factor = static_cast<float>(2 * call.scalars[Scalars::kInverseValid]);
  int64_t begin = blockIdx.x * call.size, end = begin + call.size < call.elements ? begin + call.size : call.elements;
  double total = 0;
  for (int64_t piece = 0; piece * kOctet * kThreads < end - begin; ++piece) {
    Places places = placesOf(piece, threadIdx.x, kThreads, end - begin, call.packed);
    Read<float> reads[2] = {{call.prediction, begin, places}, {call.target, begin, places}};
    float in[2][kOctet], out[kOctet];
    load(reads, in);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      float away = in[0][i] - in[1][i];
      total += static_cast<double>(away) * static_cast<double>(away);
      out[i] = away * factor;
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

CrossEntropyCode crossEntropyCode(RowCode code) {
  return code == RowCode::f32    ? crossEntropy<RowCode::f32>
         : code == RowCode::bf16 ? crossEntropy<RowCode::bf16>
                                 : crossEntropy<RowCode::any>;
}
SquaredErrorCode squaredErrorCode() { return squaredError; }
AddLossesCode addLossesCode() { return addLosses; }

} // namespace mt::kernels::cuda
