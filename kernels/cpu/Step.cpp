// squared_norm, by a fixed tree of partial sums, and step_norm.
#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/Vector.h"

#include <cmath>

namespace mt::kernels::cpu {
namespace {

struct SquaredNorm {
  static constexpr int64_t kBlock = 4096;
  int64_t elements;
  RowIn x;

  double part(const Launch &launch, int64_t begin, int64_t end) const {
    float buffer[kBlock];
    double total = 0;
    for (int64_t at = begin; at < end; at += kBlock) {
      int64_t count = std::min(kBlock, end - at);
      total += vec::squaredNorm(x.at(launch, at, count, buffer), count);
    }
    return total;
  }

  Status operator()(const Launch &launch) const {
    Chunks chunks = squaredNormChunks(elements);
    double *parts = static_cast<double *>(launch.operands.back());
    launch.pool.parallelFor(
        chunks.count, [&](int64_t chunk) { parts[chunk] = part(launch, chunks.begin(chunk), chunks.end(chunk)); });
    double total = 0;
    for (int64_t chunk = 0; chunk < chunks.count; ++chunk)
      total += parts[chunk];
    *launch.at<double>(1) = total;
    return {};
  }
};

Result<Run> prepareSquaredNorm(const Signature &call) {
  return Run(SquaredNorm{call.operands[0].elements(), RowIn(call, 0)});
}

struct StepNorm {
  int64_t rows;                ///< of scalars
  std::vector<int64_t> counts; ///< of each operand of norms
  Status operator()(const Launch &launch) const {
    double total = 0;
    for (size_t i = 0; i < counts.size(); ++i)
      for (int64_t j = 0; j < counts[i]; ++j) {
        double norm = launch.at<const double>(i + 1)[j];
        if (!std::isfinite(norm))
          return fail("squared gradient norm {} of operand {} is {}: not finite", j, i + 1, norm);
        total += norm;
      }
    const double *scalars = launch.at<const double>(0);
    double *result = launch.at<double>(counts.size() + 1), norm = std::sqrt(total);
    if (!std::isfinite(norm))
      return fail("the norm of the whole gradient is {}: not finite", norm);
    double threshold = scalars[Scalars::kClipThreshold];
    std::copy(scalars, scalars + rows * Scalars::kCount, result);
    for (double *row = result; row < result + rows * Scalars::kCount; row += Scalars::kCount) {
      row[Scalars::kGradientNorm] = norm;
      row[Scalars::kClipScale] = std::isinf(threshold) ? 1 : std::min(1.0, threshold / (norm + 1e-6));
    }
    return {};
  }
};

Result<Run> prepareStepNorm(const Signature &call) {
  StepNorm run{call.operands[0].dims[0], {}};
  for (size_t i = 1; i + 1 < call.operands.size(); ++i)
    run.counts.push_back(call.operands[i].elements());
  return Run(std::move(run));
}

constexpr Entry kEntries[] = {{"squared_norm", prepareSquaredNorm}, {"step_norm", prepareStepNorm}};

} // namespace

std::span<const Entry> stepEntries() { return kEntries; }

} // namespace mt::kernels::cpu
