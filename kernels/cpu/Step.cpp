// squared_norm, whole and in pieces, by the tree of partial sums of kernels/Blocks.h, step_norm, pairwise_sum and
// tree_sum.
#include "kernels/Blocks.h"
#include "kernels/Random.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/Vector.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace mt::kernels::cpu {
namespace {

/// As a block of so many threads of a GPU adds, a warp at a time. Those behind `used` are zero: they change nothing.
double sumOfBlock(std::array<double, kNormSums> sums, size_t used) {
  constexpr size_t kWarp = 32;
  double total = 0;
  for (size_t warp = 0; warp < used; warp += kWarp) {
    for (size_t distance = kWarp / 2; distance > 0; distance /= 2) // those beyond are never read again
      for (size_t i = warp; i < warp + distance; ++i)
        sums[i] += sums[i + distance];
    total = warp == 0 ? sums[0] : total + sums[warp];
  }
  return total;
}

/// Of elements [begin, end) of an operand, by lanes.
double sumOfChunk(const RowIn &x, const Launch &launch, int64_t begin, int64_t end) {
  constexpr size_t kBeside = kNormLanes / kNormSums, kTogether = kBeside * kBeside;
  float buffer[kNormLanes];
  alignas(64) double lanes[kNormLanes];
  const auto used = static_cast<size_t>(std::min(kNormLanes, end - begin)); // the others are zero
  std::fill_n(lanes, (used + kTogether - 1) / kTogether * kTogether, 0.0);
  for (int64_t at = begin; at < end;) {
    const int64_t count = std::min(kNormLanes, end - at), rows = x.native ? (end - at) / count : 1;
    vec::addSquares(x.at(launch, at, count, buffer), kNormLanes, rows, count, lanes);
    at += rows * count;
  }
  const size_t groups = (used + kBeside - 1) / kBeside;
  std::array<double, kNormSums> sums = {};
  for (size_t begin = 0; begin < groups; begin += kBeside) // several at once: none waits for another's sum
    for (size_t lane = 0; lane < kBeside; ++lane)
      for (size_t i = begin; i < begin + kBeside; ++i)
        sums[i] += lanes[i * kBeside + lane];
  return sumOfBlock(sums, groups);
}

double sumOfParts(const double *parts, int64_t count) {
  std::array<double, kNormSums> sums = {};
  for (int64_t i = 0; i < count; ++i)
    sums[static_cast<size_t>(i % kNormSums)] += parts[i];
  return sumOfBlock(sums, static_cast<size_t>(std::min(count, kNormSums)));
}

struct SquaredNorm {
  Chunks chunks;
  RowIn x;

  void parts(const Launch &launch, double *into) const {
    launch.pool.parallelFor(chunks.count, [&](int64_t chunk) {
      into[chunk] = sumOfChunk(x, launch, chunks.begin(chunk), chunks.end(chunk));
    });
  }
};

Result<Run> prepareSquaredNorm(const Signature &call) {
  const int64_t elements = call.operands[0].elements();
  return Run([norm = SquaredNorm{squaredNormChunks(elements), RowIn(call, 0)}](const Launch &launch) {
    double *parts = static_cast<double *>(launch.operands.back());
    norm.parts(launch, parts);
    *launch.at<double>(1) = sumOfParts(parts, norm.chunks.count);
    return Status();
  });
}

Result<Run> prepareSquaredNormParts(const Signature &call) {
  const int64_t elements = call.operands[0].elements(), chunk = call.integer("chunk");
  Chunks chunks(elements, ceilDivide(elements, chunk), chunk);
  return Run([norm = SquaredNorm{chunks, RowIn(call, 0)}](const Launch &launch) {
    norm.parts(launch, launch.at<double>(1));
    return Status();
  });
}

Result<Run> prepareSquaredNormSum(const Signature &call) {
  return Run([count = call.operands[0].elements()](const Launch &launch) {
    *launch.at<double>(1) = sumOfParts(launch.at<const double>(0), count);
    return Status();
  });
}

struct StepNorm {
  int64_t rows;                ///< of scalars
  std::vector<int64_t> counts; ///< of each operand of norms
  Status operator()(const Launch &launch) const {
    const double *scalars = launch.at<const double>(0);
    double *result = launch.at<double>(counts.size() + 1), norm = std::sqrt(total(launch));
    const bool isSkipped = !std::isfinite(norm);
    if (isSkipped && scalars[Scalars::kSkips] == 0)
      return failure(launch, norm);
    double threshold = scalars[Scalars::kClipThreshold];
    std::copy(scalars, scalars + rows * Scalars::kCount, result);
    for (double *row = result; row < result + rows * Scalars::kCount; row += Scalars::kCount) {
      row[Scalars::kGradientNorm] = norm;
      row[Scalars::kClipScale] = std::isinf(threshold) ? 1 : std::min(1.0, threshold / (norm + 1e-6));
      if (isSkipped)
        row[Scalars::kStep] = 0;
    }
    return {};
  }

  double total(const Launch &launch) const {
    double total = 0;
    for (size_t i = 0; i < counts.size(); ++i)
      for (int64_t j = 0; j < counts[i]; ++j)
        total += launch.at<const double>(i + 1)[j];
    return total;
  }
  /// Names the first norm that is not finite.
  Status failure(const Launch &launch, double whole) const {
    for (size_t i = 0; i < counts.size(); ++i)
      for (int64_t j = 0; j < counts[i]; ++j)
        if (double norm = launch.at<const double>(i + 1)[j]; !std::isfinite(norm))
          return fail("squared gradient norm {} of operand {} is {}: not finite", j, i + 1, norm);
    return fail("the norm of the whole gradient is {}: not finite", whole);
  }
};

Result<Run> prepareStepNorm(const Signature &call) {
  StepNorm run{call.operands[0].dims[0], {}};
  for (size_t i = 1; i + 1 < call.operands.size(); ++i)
    run.counts.push_back(call.operands[i].elements());
  return Run(std::move(run));
}

/// Rows of so many elements stay in a core's first cache while all terms are added.
constexpr int64_t kSumGrain = 2048;

struct PairwiseSum {
  int64_t elements;
  std::vector<RowIn> terms; ///< in order
  size_t sum;               ///< operand

  /// Of terms [first, last), a power of two of them at a multiple of that, into a row.
  void block(const Launch &launch, int64_t begin, int64_t count, size_t first, size_t size, float *into) const {
    if (size == 1) {
      if (const float *term = terms[first].at(launch, begin, count, into); term != into)
        std::copy_n(term, count, into);
      return;
    }
    float other[kSumGrain];
    block(launch, begin, count, first, size / 2, into);
    block(launch, begin, count, first + size / 2, size / 2, other);
    for (int64_t i = 0; i < count; ++i)
      into[i] += other[i];
  }
  /// Of those from `first` on: the largest block there, and what comes behind it.
  void rest(const Launch &launch, int64_t begin, int64_t count, size_t first, float *into) const {
    const size_t size = std::bit_floor(terms.size() - first);
    block(launch, begin, count, first, size, into);
    if (first + size == terms.size())
      return;
    float other[kSumGrain];
    rest(launch, begin, count, first + size, other);
    for (int64_t i = 0; i < count; ++i)
      into[i] += other[i];
  }

  Status operator()(const Launch &launch) const {
    launch.pool.parallelFor(ceilDivide(elements, kSumGrain), [&](int64_t number) {
      const int64_t begin = number * kSumGrain;
      float row[kSumGrain];
      const int64_t count = std::min(kSumGrain, elements - begin);
      rest(launch, begin, count, 0, row);
      std::copy_n(row, count, launch.at<float>(sum) + begin);
    });
    return {};
  }
};

/// What is added to is the first term of its sum.
Result<Run> prepareSum(const Signature &call) {
  PairwiseSum run{call.operands[0].elements(), {}, call.operands.size() - 1};
  if (call.operands[run.sum].effect == Effect::update)
    run.terms.emplace_back(call, run.sum);
  for (size_t i = 0; i < run.sum; ++i)
    run.terms.emplace_back(call, i);
  return Run(std::move(run));
}

Result<Run> prepareRunningStatistic(const Signature &call) {
  return Run([bytes = call.operands[0].bytes()](const Launch &launch) -> Status {
    const bool trains = Draw::of(launch.at<const double>(2), 0).trains;
    std::memcpy(launch.operands[3], launch.operands[trains ? 0 : 1], bytes);
    return {};
  });
}

constexpr Entry kEntries[] = {{"squared_norm", prepareSquaredNorm},
                              {"squared_norm_parts", prepareSquaredNormParts},
                              {"squared_norm_sum", prepareSquaredNormSum},
                              {"step_norm", prepareStepNorm},
                              {"running_statistic", prepareRunningStatistic},
                              {"pairwise_sum", prepareSum},
                              {"tree_sum", prepareSum}};

} // namespace

std::span<const Entry> stepEntries() { return kEntries; }

} // namespace mt::kernels::cpu
