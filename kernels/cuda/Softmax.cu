// softmax, log_softmax and the gradient of softmax over the last dimension: a warp or a block a row. Rows of up to
// 16,384 elements are read once and written once, at 85 % of the memory's bandwidth; longer ones are read twice.
#include "kernels/cuda/Softmax.h"

#include "kernels/cuda/Rows.cuh"

namespace mt::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kMostThreads) softmax(const __grid_constant__ SoftmaxArguments a) {
  int64_t row = groupIndex();
  if (row >= a.rows)
    return;
  HeldRow<kSoftmaxHeld> x = {a.first, row * a.shape.width, {}};
  hold(a.shape, x, -INFINITY);
  RowStatistics statistics = rowStatistics(a.shape, x);
  float shift = statistics.most + logf(statistics.total), factor = 1 / statistics.total;
  eachPiece(a.shape, x, -INFINITY, [&](const Places &places, const float(&in)[kOctet]) {
    float out[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[i] = a.logarithm ? in[i] - shift : expf(in[i] - statistics.most) * factor;
    store(a.result, x.begin, places, out);
  });
}

__global__ void __launch_bounds__(kMostThreads) softmaxGrad(const __grid_constant__ SoftmaxArguments a) {
  int64_t row = groupIndex();
  if (row >= a.rows)
    return;
  HeldRow<kSoftmaxHeld> gradient = {a.first, row * a.shape.width, {}}, y = {a.second, row * a.shape.width, {}};
  hold(a.shape, gradient, 0);
  hold(a.shape, y, 0);
  float total = 0;
  eachPiece(a.shape, gradient, y, [&](const Places &, const float(&g)[kOctet], const float(&p)[kOctet]) {
    float products[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      products[i] = g[i] * p[i];
    total += octetSum(products);
  });
  total = groupSum(total);
  eachPiece(a.shape, gradient, y, [&](const Places &places, const float(&g)[kOctet], const float(&p)[kOctet]) {
    float out[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[i] = p[i] * (g[i] - total);
    store(a.result, y.begin, places, out);
  });
}

} // namespace

SoftmaxCode softmaxCode(bool isGradient) { return isGradient ? softmaxGrad : softmax; }

} // namespace mt::kernels::cuda
