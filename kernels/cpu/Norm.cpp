// layer_norm and rms_norm with their gradients: rows in parallel; gradients of gain and bias as one partial sum a
// chunk of rows, added in order.
#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/Vector.h"

#include <cmath>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kRows = 16;     // of a chunk going forward, and summed in 32 bits going backward
constexpr int64_t kColumns = 64;  // of a chunk when partial sums are added

struct Shape {
  int64_t rows, width;
  explicit Shape(const OperandType &operand)
      : rows(operand.elements() / operand.dims.back()), width(operand.dims.back()) {}
};

/// layer_norm and, where `centered` is false, rms_norm.
struct Norm {
  Shape shape;
  bool centered;
  double epsilon;
  RowIn x, gain, bias;
  RowOut result;
  size_t mean, rstd;

  void row(const Launch &launch, int64_t row, const float *gains, const float *biases, float *buffers) const {
    int64_t begin = row * shape.width;
    const float *in = x.at(launch, begin, shape.width, buffers);
    float center = centered ? static_cast<float>(vec::sum(in, shape.width) / static_cast<double>(shape.width)) : 0;
    double variance = vec::squaredDistance(in, center, shape.width) / static_cast<double>(shape.width);
    float factor = static_cast<float>(1 / std::sqrt(variance + epsilon));
    if (result.present) {
      float *out = result.place(launch, begin, buffers + shape.width);
      vec::affine(in, center, factor, gains, biases, out, shape.width, result.adds(launch));
      result.finish(launch, begin, shape.width, out);
    }
    if (centered && launch.operands[mean])
      launch.at<float>(mean)[row] = center;
    if (launch.operands[rstd])
      launch.at<float>(rstd)[row] = factor;
  }

  Scratch scratch() const { return {.own = 4 * sizeof(float) * static_cast<uint64_t>(shape.width)}; }

  Status operator()(const Launch &launch) const {
    launch.pool.parallelFor(ceilDivide(shape.rows, kRows), [&](int64_t chunk) {
      float *buffers = ThreadPool::scratchOf<float>(4 * shape.width);
      const float *gains = gain.at(launch, 0, shape.width, buffers);
      const float *biases = bias.at(launch, 0, shape.width, buffers + shape.width);
      for (int64_t i = chunk * kRows; i < std::min(shape.rows, (chunk + 1) * kRows); ++i)
        row(launch, i, gains, biases, buffers + 2 * shape.width);
    });
    return {};
  }
};

Result<Run> prepareLayerNorm(const Signature &call) {
  return Run(Norm{Shape(call.operands[0]), true, call.real("epsilon"), RowIn(call, 0), RowIn(call, 1), RowIn(call, 2),
                  RowOut(call, 3), 4, 5});
}

Result<Run> prepareRmsNorm(const Signature &call) {
  return Run(Norm{Shape(call.operands[0]), false, call.real("epsilon"), RowIn(call, 0), RowIn(call, 1), RowIn(),
                  RowOut(call, 2), 3, 3});
}

struct NormGrad {
  Shape shape;
  bool centered;
  RowIn gradient, x, gain, addend;
  size_t mean, rstd;
  RowOut dx, dgain, dbias;

  bool parameters() const { return dgain.present || dbias.present; }
  Scratch scratch() const { return {.own = 7 * sizeof(float) * static_cast<uint64_t>(shape.width)}; }

  /// `buffers`: of four rows.
  void row(const Launch &launch, int64_t row, const float *gains, float *sums, float *buffers) const {
    int64_t begin = row * shape.width, width = shape.width;
    const float *dy = gradient.at(launch, begin, width, buffers), *in = x.at(launch, begin, width, buffers + width);
    float center = centered ? launch.at<const float>(mean)[row] : 0, factor = launch.at<const float>(rstd)[row];
    if (dx.present) {
      vec::NormSums totals = vec::normSums(dy, in, gains, center, factor, width);
      double meanGradient = centered ? totals.gradient / static_cast<double>(width) : 0;
      float *out = dx.place(launch, begin, buffers + 2 * width);
      vec::normGrad(dy, in, gains, center, factor, static_cast<float>(meanGradient),
                    static_cast<float>(totals.product / static_cast<double>(width)), out, width, dx.adds(launch));
      if (addend.present)
        vec::add(addend.at(launch, begin, width, buffers + 3 * width), out, width);
      dx.finish(launch, begin, width, out);
    }
    vec::normParameters(dy, in, center, factor, dgain.present ? sums : nullptr, dbias.present ? sums + width : nullptr,
                        width);
  }

  /// Rows [begin, end), and their sums for gain, then bias, into `partial`.
  void rows(const Launch &launch, int64_t begin, int64_t end, double *partial) const {
    float *buffers = ThreadPool::scratchOf<float>(7 * shape.width), *sums = buffers + 5 * shape.width;
    const float *gains = gain.at(launch, 0, shape.width, buffers + 4 * shape.width);
    int64_t places = (dbias.present ? 2 : 1) * shape.width;
    std::fill(partial, partial + (parameters() ? places : 0), 0.0);
    for (int64_t i = begin; i < end; i += kRows) {
      std::fill(sums, sums + 2 * shape.width, 0.0f);
      for (int64_t j = i; j < std::min(end, i + kRows); ++j)
        row(launch, j, gains, sums, buffers);
      for (int64_t place = 0; place < (parameters() ? places : 0); ++place)
        partial[place] += static_cast<double>(sums[place]);
    }
  }

  /// Columns of one parameter's gradient: the partial sums of all chunks, in order.
  void combine(const Launch &launch, const RowOut &out, const double *partials, int64_t stride, int64_t chunks,
               int64_t column) const {
    int64_t width = std::min(kColumns, shape.width - column);
    double totals[kColumns] = {};
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      for (int64_t i = 0; i < width; ++i)
        totals[i] += partials[chunk * stride + column + i];
    float row[kColumns];
    std::copy_n(totals, width, row);
    if (out.present)
      out.store(row, launch.operands[out.operand], column, width, launch.accumulates(out.operand));
  }

  Status operator()(const Launch &launch) const {
    Chunks chunks = normChunks(shape.rows);
    double *partials = static_cast<double *>(launch.operands.back());
    int64_t stride = (dbias.present ? 2 : 1) * shape.width;
    launch.pool.parallelFor(chunks.count, [&](int64_t chunk) {
      rows(launch, chunks.begin(chunk), chunks.end(chunk), partials + chunk * stride);
    });
    if (parameters())
      launch.pool.parallelFor(ceilDivide(shape.width, kColumns), [&](int64_t block) {
        combine(launch, dgain, partials, stride, chunks.count, block * kColumns);
        if (dbias.present)
          combine(launch, dbias, partials + shape.width, stride, chunks.count, block * kColumns);
      });
    return {};
  }
};

Result<Run> prepareLayerNormGrad(const Signature &call) {
  return Run(NormGrad{Shape(call.operands[1]), true, RowIn(call, 0), RowIn(call, 1), RowIn(call, 4), RowIn(call, 5), 2,
                      3, RowOut(call, 6), RowOut(call, 7), RowOut(call, 8)});
}

Result<Run> prepareRmsNormGrad(const Signature &call) {
  return Run(NormGrad{Shape(call.operands[1]), false, RowIn(call, 0), RowIn(call, 1), RowIn(call, 3), RowIn(call, 4), 0,
                      2, RowOut(call, 5), RowOut(call, 6), RowOut()});
}

constexpr Entry kEntries[] = {{"layer_norm", prepareLayerNorm},
                              {"layer_norm_grad", prepareLayerNormGrad},
                              {"rms_norm", prepareRmsNorm},
                              {"rms_norm_grad", prepareRmsNormGrad}};

} // namespace

std::span<const Entry> normEntries() { return kEntries; }

} // namespace mt::kernels::cpu
