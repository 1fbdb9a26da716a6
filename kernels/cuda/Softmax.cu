// softmax, log_softmax and the gradient of softmax over the last dimension: a warp or a block a row. Rows of up to
// 16,384 elements are read once and written once, bound by the memory's bandwidth in packs of one type; longer ones are
// read again for the result. The gradient reads its rows twice, the second time from the cache.
#include "kernels/cuda/Softmax.h"

#include "kernels/cuda/Rows.cuh"

namespace mt::kernels::cuda {
namespace {

template <RowCode kCode>
__global__ void __launch_bounds__(kRowThreads) softmax(const __grid_constant__ SoftmaxArguments a) {
  int64_t row = groupIndex();
  if (row >= a.rows)
    return;
  const RowShape shape = shapeOf<kCode>(a.shape);
  HeldRow x = {typed<kCode>(a.first), row * shape.width, {}};
  hold(shape, x, -INFINITY);
  RowStatistics statistics = rowStatistics(shape, x);
  float shift = statistics.most + logf(statistics.total), factor = 1 / statistics.total;
  eachPiece(shape, x, -INFINITY, [&](const Places &places, const float(&in)[kOctet]) {
    float out[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[i] = a.logarithm ? in[i] - shift : expf(in[i] - statistics.most) * factor;
    store(typed<kCode>(a.result), x.begin, places, out);
  });
}

__global__ void __launch_bounds__(kRowThreads) softmaxGrad(const __grid_constant__ SoftmaxArguments a) {
  int64_t row = groupIndex(), begin = row * a.shape.width;
  if (row >= a.rows)
    return;
  float total = 0;
  eachPiece(a.shape, a.first, a.second, begin, [&](const Places &, const float(&g)[kOctet], const float(&p)[kOctet]) {
    float products[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      products[i] = g[i] * p[i];
    total += octetSum(products);
  });
  total = groupSum(total);
  eachPiece(a.shape, a.first, a.second, begin,
            [&](const Places &places, const float(&g)[kOctet], const float(&p)[kOctet]) {
              float out[kOctet];
#pragma unroll
              for (int i = 0; i < kOctet; ++i)
                out[i] = p[i] * (g[i] - total);
              store(a.result, begin, places, out);
            });
}

} // namespace

SoftmaxCode softmaxCode(RowCode code) {
  return code == RowCode::f32    ? softmax<RowCode::f32>
         : code == RowCode::bf16 ? softmax<RowCode::bf16>
                                 : softmax<RowCode::any>;
}
SoftmaxCode softmaxGradCode() { return softmaxGrad; }

} // namespace mt::kernels::cuda
