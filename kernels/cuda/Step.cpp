// squared_norm, whole and in parts, pairwise_sum and tree_sum, prepared.
#include "kernels/cuda/Step.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

Result<Run> prepareSquaredNorm(const Signature &call, Library &) {
  Bound x(call, 0);
  Chunks chunks = squaredNormChunks(call.operands[0].elements());
  return Run([x, chunks](const Launch &launch) -> Status {
    double *parts = static_cast<double *>(launch.operands.back());
    MT_TRY(start(launch.stream, chunks.count, kThreads, squaredNormPartCode(), x.in(launch), chunks.total, chunks.size,
                 x.aligned(launch), parts));
    return start(launch.stream, 1, kThreads, addPartsCode(), parts, chunks.count, launch.at<double>(1));
  });
}

Result<Run> prepareSquaredNormParts(const Signature &call, Library &) {
  Bound x(call, 0);
  const int64_t elements = call.operands[0].elements(), chunk = call.integer("chunk");
  return Run([x, elements, chunk](const Launch &launch) -> Status {
    return start(launch.stream, ceilDivide(elements, chunk), kThreads, squaredNormPartCode(), x.in(launch), elements,
                 chunk, x.aligned(launch), launch.at<double>(1));
  });
}

/// Into the last operand, which is the first term where it is added to.
Result<Run> prepareSum(const Signature &call, Library &) {
  const size_t last = call.operands.size() - 1;
  std::vector<size_t> order;
  if (call.operands[last].effect == Effect::update)
    order.push_back(last);
  for (size_t i = 0; i < last; ++i)
    order.push_back(i);
  const auto terms = static_cast<int64_t>(order.size()), elements = call.operands[0].elements();
  const DType type = call.operands[0].type;
  if (terms > kSumTerms)
    return fail("{}: {} terms, and a GPU adds {} at most", call.kernel, terms, kSumTerms);
  return Run([order = std::move(order), type, terms, elements](const Launch &launch) -> Status {
    const Out sum{launch.operands.back(), DType::f32, false};
    Terms all = {.at = {}, .type = type};
    bool packed = isAligned(sum.data, DType::f32);
    for (size_t i = 0; i < order.size(); ++i) {
      all.at[i] = launch.operands[order[i]];
      packed &= isAligned(all.at[i], type);
    }
    return start(launch.stream, ceilDivide(elements, kThreads * kOctet), kThreads, pairwiseSumCode(terms), all, sum,
                 elements, packed);
  });
}

Result<Run> prepareRunningStatistic(const Signature &call, Library &) {
  return Run([elements = call.operands[0].elements()](const Launch &launch) -> Status {
    return start(launch.stream, ceilDivide(elements, kThreads), kThreads, runningStatisticCode(), launch.at<float>(0),
                 launch.at<float>(1), launch.at<double>(2), launch.at<float>(3), elements);
  });
}

} // namespace

std::span<const Entry> stepEntries() {
  static constexpr Entry kEntries[] = {{"squared_norm", prepareSquaredNorm},
                                       {"squared_norm_parts", prepareSquaredNormParts},
                                       {"pairwise_sum", prepareSum},
                                       {"tree_sum", prepareSum},
                                       {"running_statistic", prepareRunningStatistic}};
  return kEntries;
}

} // namespace mt::kernels::cuda
