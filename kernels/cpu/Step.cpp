// squared_norm, by the tree of partial sums of kernels/Blocks.h, and step_norm.
#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/Vector.h"

#include <array>
#include <cmath>

namespace mt::kernels::cpu {
namespace {

/// As a block of so many threads of a GPU adds, a warp at a time.
double sumOfBlock(std::array<double, kNormSums> sums) {
  constexpr size_t kWarp = 32;
  double total = 0;
  for (size_t warp = 0; warp < sums.size(); warp += kWarp) {
    for (size_t distance = kWarp / 2; distance > 0; distance /= 2) // those beyond are never read again
      for (size_t i = warp; i < warp + distance; ++i)
        sums[i] += sums[i + distance];
    total = warp == 0 ? sums[0] : total + sums[warp];
  }
  return total;
}

struct SquaredNorm {
  int64_t elements;
  RowIn x;

  double part(const Launch &launch, int64_t begin, int64_t end) const {
    float buffer[kNormLanes];
    alignas(64) double lanes[kNormLanes] = {};
    for (int64_t at = begin; at < end; at += kNormLanes) {
      int64_t count = std::min(kNormLanes, end - at);
      vec::addSquares(x.at(launch, at, count, buffer), lanes, count);
    }
    std::array<double, kNormSums> sums = {};
    for (size_t i = 0; i < kNormLanes; ++i)
      sums[i / (kNormLanes / kNormSums)] += lanes[i];
    return sumOfBlock(sums);
  }

  Status operator()(const Launch &launch) const {
    Chunks chunks = squaredNormChunks(elements);
    double *parts = static_cast<double *>(launch.operands.back());
    launch.pool.parallelFor(
        chunks.count, [&](int64_t chunk) { parts[chunk] = part(launch, chunks.begin(chunk), chunks.end(chunk)); });
    std::array<double, kNormSums> sums = {};
    std::copy_n(parts, chunks.count, sums.begin());
    *launch.at<double>(1) = sumOfBlock(sums);
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
