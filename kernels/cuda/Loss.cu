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

/// Of a row that counts.
__device__ __forceinline__ double logsumexpOf(const RowStatistics &statistics) {
  return static_cast<double>(statistics.most) + log(static_cast<double>(statistics.total));
}

__device__ __forceinline__ double sumOf(const RowShape &shape, HeldRow &x) {
  double total = 0;
  eachPiece(shape, x, -INFINITY, [&](const Places &places, const float(&in)[kOctet]) {
    float terms[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      terms[i] = places.at(i) < places.size ? in[i] : 0.0f;
    total += static_cast<double>(octetSum(terms));
  });
  return groupSum(total);
}

__device__ __forceinline__ double lossOf(const CrossEntropyCall &call, const RowStatistics &statistics, double own,
                                         double sum) {
  double logsumexp = logsumexpOf(statistics), loss = logsumexp - own;
  if (call.labelSmoothing > 0)
    loss = logsumexp - (1 - call.labelSmoothing) * own -
           call.labelSmoothing * (sum / static_cast<double>(call.shape.width));
  return call.zLoss > 0 ? loss + call.zLoss * logsumexp * logsumexp : loss;
}

__device__ __forceinline__ void sendBack(const CrossEntropyCall &call, const Out &gradient, const RowShape &shape,
                                         HeldRow &x, RowStatistics statistics, int64_t label) {
  bool counts = label >= 0;
  double inverse = call.scalars[Scalars::kInverseValid];
  double slope = call.zLoss > 0 ? 1 + 2 * call.zLoss * logsumexpOf(statistics) : 1;
  float factor = static_cast<float>(inverse * slope / static_cast<double>(statistics.total));
  float own = static_cast<float>(inverse * (1 - call.labelSmoothing));
  float each = static_cast<float>(inverse * call.labelSmoothing / static_cast<double>(shape.width));
  eachPiece(shape, x, -INFINITY, [&](const Places &places, const float(&in)[kOctet]) {
    float out[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      out[i] = counts ? expf(in[i] - statistics.most) * factor - each : 0.0f;
      if (places.at(i) == label)
        out[i] -= own;
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
  double sum = 0;
  if (label >= 0) {
    hold(shape, x, -INFINITY);
    statistics = rowStatistics(shape, x);
    if (call.labelSmoothing > 0)
      sum = sumOf(shape, x);
  }
  if (threadIdx.x == 0)
    call.losses[row] =
        label < 0 ? 0
                  : lossOf(call, statistics, loadOne<float>(call.logits.type, call.logits.data, x.begin + label), sum);
  if (call.gradient.data)
    sendBack(call, typed<kCode>(call.gradient), shape, x, statistics, label);
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
