// layer_norm and rms_norm with their gradients: a warp or a block a row. Going forward, rows of up to 16,384 elements
// are read once and written once. Going backward, rows of packs of up to 8,192 elements are read once: every group of
// threads takes a chunk of rows and keeps the sums for gain and bias in registers; a second kernel adds the chunks. In
// packs both spend fewer than 300 instructions on eight elements, which leaves the memory's bandwidth as their bound.
// Other rows are read three times going backward, element by element for the parameters: half of that and less.
#include "kernels/cuda/Norm.h"

#include "kernels/cuda/Rows.cuh"

namespace mt::kernels::cuda {
namespace {

template <RowCode kCode> __global__ void __launch_bounds__(kRowThreads) norm(const __grid_constant__ NormArguments a) {
  int64_t row = groupIndex();
  if (row >= a.rows)
    return;
  const RowShape shape = shapeOf<kCode>(a.shape);
  HeldRow x = {typed<kCode>(a.x), row * shape.width, {}};
  hold(shape, x, 0);
  float center = 0, spread = 0, width = static_cast<float>(shape.width);
  if (a.centered) {
    eachPiece(shape, x, 0, [&](const Places &, const float(&in)[kOctet]) { center += octetSum(in); });
    center = groupSum(center) / width;
  }
  eachPiece(shape, x, 0, [&](const Places &places, const float(&in)[kOctet]) {
    float squares[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      squares[i] = places.exact || places.at(i) < places.size ? (in[i] - center) * (in[i] - center) : 0.0f;
    spread += octetSum(squares);
  });
  float factor = 1 / sqrtf(groupSum(spread) / width + a.epsilon);
  if (a.result.data)
    eachPiece(shape, x, 0, [&](const Places &places, const float(&in)[kOctet]) {
      Read<float> reads[2] = {{parameter<kCode>(a.gain), 0, places, 1}, {parameter<kCode>(a.bias), 0, places, 0}};
      float parameters[2][kOctet], out[kOctet];
      load(reads, parameters);
#pragma unroll
      for (int i = 0; i < kOctet; ++i)
        out[i] = (in[i] - center) * factor * parameters[0][i] + parameters[1][i];
      store(typed<kCode>(a.result), x.begin, places, out);
    });
  if (threadIdx.x == 0 && a.mean)
    a.mean[row] = center;
  if (threadIdx.x == 0 && a.rstd)
    a.rstd[row] = factor;
}

/// Rows of packs, each one round of its group's threads: a chunk of rows for each group.
template <RowCode kCode>
__global__ void __launch_bounds__(kRowThreads) normGradPacks(const __grid_constant__ NormGradArguments a) {
  int64_t chunk = groupIndex();
  if (chunk >= a.chunks.count)
    return;
  const RowShape shape = shapeOf<kCode>(a.shape);
  Read<float> reads[2 * kNormGradHeld];
#pragma unroll
  for (int h = 0; h < kNormGradHeld; ++h)
    reads[h] = {typed<kCode>(a.gradient), 0, placesIn(shape, h)},
    reads[kNormGradHeld + h] = {typed<kCode>(a.x), 0, placesIn(shape, h)};
  float gains[kNormGradHeld][kOctet] = {}, biases[kNormGradHeld][kOctet] = {};
  float share = 1 / static_cast<float>(shape.width);
  int64_t last = min((chunk + 1) * a.chunks.size, a.chunks.total);
  for (int64_t row = chunk * a.chunks.size; row < last; ++row) {
    float in[2 * kNormGradHeld][kOctet], sums[2] = {0, 0}; // of g, the gradient times gain, and of g * xhat
#pragma unroll
    for (int n = 0; n < 2 * kNormGradHeld; ++n)
      reads[n].base = row * shape.width;
    load(reads, in);
    float center = a.centered ? a.mean[row] : 0, factor = a.rstd[row];
#pragma unroll
    for (int h = 0; h < kNormGradHeld; ++h) {
      float(&g)[kOctet] = in[h], (&xhat)[kOctet] = in[kNormGradHeld + h], gain[kOctet], products[kOctet];
      load(Read<float>{parameter<kCode>(a.gain), 0, placesIn(shape, h), 1}, gain);
#pragma unroll
      for (int i = 0; i < kOctet; ++i) {
        xhat[i] = (xhat[i] - center) * factor;
        gains[h][i] += g[i] * xhat[i];
        biases[h][i] += g[i];
        g[i] *= gain[i];
        products[i] = g[i] * xhat[i];
      }
      sums[0] += octetSum(g);
      sums[1] += octetSum(products);
    }
    if (!a.dx.data)
      continue;
    groupReduce(sums, Sum());
    float meanGradient = a.centered ? sums[0] * share : 0, meanProduct = sums[1] * share;
#pragma unroll
    for (int h = 0; h < kNormGradHeld; ++h) {
      float addend[kOctet];
      load(Read<float>{typed<kCode>(a.addend), row * shape.width, placesIn(shape, h)}, addend);
#pragma unroll
      for (int i = 0; i < kOctet; ++i)
        in[h][i] = factor * (in[h][i] - meanGradient - in[kNormGradHeld + h][i] * meanProduct) + addend[i];
      store(typed<kCode>(a.dx), row * shape.width, placesIn(shape, h), in[h]);
    }
  }
#pragma unroll
  for (int h = 0; h < kNormGradHeld; ++h) {
    if (a.gains)
      store({a.gains}, chunk * shape.width, placesIn(shape, h), gains[h]);
    if (a.biases)
      store({a.biases}, chunk * shape.width, placesIn(shape, h), biases[h]);
  }
}

/// The operand's gradient of any row: a group of threads each, that reads it twice.
__global__ void __launch_bounds__(kRowThreads) normGrad(const __grid_constant__ NormGradArguments a) {
  int64_t row = groupIndex();
  if (row >= a.chunks.total)
    return;
  float center = a.centered ? a.mean[row] : 0, factor = a.rstd[row], width = static_cast<float>(a.shape.width);
  /// visit(places, g, xhat): the gradient times gain, none where there is no place.
  auto each = [&](auto visit) {
    eachPiece(a.shape, a.gradient, a.x, row * a.shape.width,
              [&](const Places &places, float(&g)[kOctet], float(&xhat)[kOctet]) {
                float gain[kOctet];
                load(Read<float>{a.gain, 0, places, 1}, gain);
#pragma unroll
                for (int i = 0; i < kOctet; ++i)
                  xhat[i] = (xhat[i] - center) * factor, g[i] *= gain[i];
                visit(places, g, xhat);
              });
  };
  float sums[2] = {0, 0}; // of g and of g * xhat
  each([&](const Places &, const float(&g)[kOctet], const float(&xhat)[kOctet]) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      sums[0] += g[i], sums[1] += g[i] * xhat[i];
  });
  groupReduce(sums, Sum());
  float meanGradient = a.centered ? sums[0] / width : 0, meanProduct = sums[1] / width;
  each([&](const Places &places, const float(&g)[kOctet], const float(&xhat)[kOctet]) {
    float out[kOctet];
    load(Read<float>{a.addend, row * a.shape.width, places}, out);
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[i] = factor * (g[i] - meanGradient - xhat[i] * meanProduct) + out[i];
    store(a.dx, row * a.shape.width, places, out);
  });
}

/// The sums of parameters for any row: a thread a column and chunk.
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

NormCode normCode(RowCode code) {
  return code == RowCode::f32 ? norm<RowCode::f32> : code == RowCode::bf16 ? norm<RowCode::bf16> : norm<RowCode::any>;
}
NormGradCode normGradPacksCode(RowCode code) {
  return code == RowCode::f32 ? normGradPacks<RowCode::f32> : normGradPacks<RowCode::bf16>;
}
NormGradCode normGradCode() { return normGrad; }
NormGradCode columnSumsCode() { return columnSums; }
AddChunksCode addChunksCode() { return addChunks; }

} // namespace mt::kernels::cuda
