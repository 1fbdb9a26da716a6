// layer_norm and rms_norm with their gradients: a warp or a block a row. Going forward, rows of up to 16,384 elements
// are read once and written once, at 85 % of the memory's bandwidth. Going backward, operand and gradient are read once
// in rows of up to 8,192 elements: every group of threads takes a chunk of rows and keeps the sums for gain and bias in
// registers; a second kernel adds the chunks. Longer rows are read twice.
#include "kernels/cuda/Norm.h"

#include "kernels/cuda/Rows.cuh"

namespace mt::kernels::cuda {
namespace {

__device__ __forceinline__ void optional(In in, const Places &places, float otherwise, float (&out)[kOctet]) {
  if (in.data)
    return load(in, 0, places, otherwise, out);
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    out[i] = otherwise;
}

__global__ void __launch_bounds__(kMostThreads) norm(const __grid_constant__ NormArguments a) {
  int64_t row = groupIndex();
  if (row >= a.rows)
    return;
  HeldRow<kNormHeld> x = {a.x, row * a.shape.width, {}};
  hold(a.shape, x, 0);
  float center = 0, spread = 0, width = static_cast<float>(a.shape.width);
  if (a.centered) {
    eachPiece(a.shape, x, 0, [&](const Places &, const float(&in)[kOctet]) { center += octetSum(in); });
    center = groupSum(center) / width;
  }
  eachPiece(a.shape, x, 0, [&](const Places &places, const float(&in)[kOctet]) {
    float squares[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      squares[i] = places.at(i) < places.size ? (in[i] - center) * (in[i] - center) : 0.0f;
    spread += octetSum(squares);
  });
  float factor = 1 / sqrtf(groupSum(spread) / width + a.epsilon);
  if (a.result.data)
    eachPiece(a.shape, x, 0, [&](const Places &places, const float(&in)[kOctet]) {
      float gains[kOctet], biases[kOctet], out[kOctet];
      optional(a.gain, places, 1, gains);
      optional(a.bias, places, 0, biases);
#pragma unroll
      for (int i = 0; i < kOctet; ++i)
        out[i] = (in[i] - center) * factor * gains[i] + biases[i];
      store(a.result, x.begin, places, out);
    });
  if (threadIdx.x == 0 && a.mean)
    a.mean[row] = center;
  if (threadIdx.x == 0 && a.rstd)
    a.rstd[row] = factor;
}

/// xhat and the gradient times gain of eight elements.
__device__ __forceinline__ void normalized(const NormGradArguments &a, const Places &places, float center, float factor,
                                           const float (&dy)[kOctet], const float (&x)[kOctet], float (&xhat)[kOctet],
                                           float (&g)[kOctet]) {
  optional(a.gain, places, 1, g);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    xhat[i] = (x[i] - center) * factor;
    g[i] *= dy[i];
  }
}

__device__ __forceinline__ void sendBack(const NormGradArguments &a, HeldRow<1> &dy, HeldRow<1> &x, float center,
                                         float factor) {
  float sums[2] = {0, 0}; // of g and of g * xhat; places that are none have no gradient
  eachPiece(a.shape, dy, x, [&](const Places &places, const float(&gradient)[kOctet], const float(&in)[kOctet]) {
    float xhat[kOctet], g[kOctet], products[kOctet];
    normalized(a, places, center, factor, gradient, in, xhat, g);
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      products[i] = g[i] * xhat[i];
    sums[0] += octetSum(g);
    sums[1] += octetSum(products);
  });
  groupReduce(sums, Sum());
  float width = static_cast<float>(a.shape.width);
  float meanGradient = a.centered ? sums[0] / width : 0, meanProduct = sums[1] / width;
  eachPiece(a.shape, dy, x, [&](const Places &places, const float(&gradient)[kOctet], const float(&in)[kOctet]) {
    float xhat[kOctet], g[kOctet], out[kOctet];
    normalized(a, places, center, factor, gradient, in, xhat, g);
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[i] = factor * (g[i] - meanGradient - xhat[i] * meanProduct);
    store(a.dx, x.begin, places, out);
  });
}

/// A chunk of rows for each group. Sums of parameters are complete only if a row is one piece.
__global__ void __launch_bounds__(kMostThreads) normGrad(const __grid_constant__ NormGradArguments a) {
  int64_t chunk = groupIndex();
  if (chunk >= a.chunks.count)
    return;
  float gains[kOctet] = {}, biases[kOctet] = {};
  int64_t last = (chunk + 1) * a.chunks.size;
  for (int64_t row = chunk * a.chunks.size; row < last && row < a.chunks.total; ++row) {
    HeldRow<1> dy = {a.gradient, row * a.shape.width, {}}, x = {a.x, row * a.shape.width, {}};
    hold(a.shape, dy, 0);
    hold(a.shape, x, 0);
    float center = a.centered ? a.mean[row] : 0, factor = a.rstd[row];
    if (a.dx.data)
      sendBack(a, dy, x, center, factor);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      gains[i] += dy.held[0][i] * ((x.held[0][i] - center) * factor);
      biases[i] += dy.held[0][i];
    }
  }
  Out sums = {a.gains, DType::f32, false};
  if (a.gains)
    store(sums, chunk * a.shape.width, placesIn(a.shape, 0), gains);
  sums.data = a.biases;
  if (a.biases)
    store(sums, chunk * a.shape.width, placesIn(a.shape, 0), biases);
}

/// The sums of parameters for rows of more than one piece: a thread a column and chunk.
__global__ void __launch_bounds__(kThreads) columnSums(const __grid_constant__ NormGradArguments a) {
  int64_t blocks = (a.shape.width + kThreads - 1) / kThreads, chunk = blockIdx.x / blocks;
  int64_t column = blockIdx.x % blocks * kThreads + threadIdx.x, last = (chunk + 1) * a.chunks.size;
  if (column >= a.shape.width)
    return;
  float gain = 0, bias = 0;
  for (int64_t row = chunk * a.chunks.size; row < last && row < a.chunks.total; ++row) {
    float dy = loadOne<float>(a.gradient.type, a.gradient.data, row * a.shape.width + column);
    float x = loadOne<float>(a.x.type, a.x.data, row * a.shape.width + column);
    gain += dy * ((x - (a.centered ? a.mean[row] : 0)) * a.rstd[row]);
    bias += dy;
  }
  if (a.gains)
    a.gains[chunk * a.shape.width + column] = gain;
  if (a.biases)
    a.biases[chunk * a.shape.width + column] = bias;
}

/// One parameter's gradient: 32 columns a block, chunks in 16 slices that are added in order.
__global__ void __launch_bounds__(kWarp *kNormSlices)
    addChunks(const float *sums, int64_t width, int64_t chunks, Out out) {
  __shared__ float parts[kNormSlices][kWarp];
  int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  float total = 0;
#pragma unroll 4
  for (int64_t chunk = threadIdx.y; chunk < chunks; chunk += kNormSlices)
    total += column < width ? sums[chunk * width + column] : 0.0f;
  parts[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width)
    return;
  for (int slice = 1; slice < kNormSlices; ++slice)
    total += parts[slice][threadIdx.x];
  storeOne(out.type, out.data, column, total, out.adds);
}

} // namespace

NormCode normCode() { return norm; }
NormGradCode normGradCode() { return normGrad; }
NormGradCode columnSumsCode() { return columnSums; }
AddChunksCode addChunksCode() { return addChunks; }

} // namespace mt::kernels::cuda
