// squared_norm, whole and in parts, and pairwise_sum, prepared.
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

Result<Run> preparePairwiseSum(const Signature &call, Library &) {
  const auto terms = static_cast<int64_t>(call.operands.size()), elements = call.operands[0].elements();
  if (terms > kSumTerms)
    return fail("pairwise_sum: {} terms, and a GPU adds {} at most", terms, kSumTerms);
  return Run([terms, elements](const Launch &launch) -> Status {
    Terms all = {};
    bool packed = true;
    for (int64_t i = 0; i < terms; ++i) {
      all.at[i] = launch.operands[static_cast<size_t>(i == 0 ? terms - 1 : i - 1)]; // the sum's operand is the first
      packed &= isAligned(all.at[i], DType::f32);
    }
    const Out sum{launch.operands[static_cast<size_t>(terms) - 1], DType::f32, false};
    return start(launch.stream, ceilDivide(elements, kThreads * kOctet), kThreads, pairwiseSumCode(terms), all, sum,
                 elements, packed);
  });
}

constexpr Entry kEntries[] = {{"squared_norm", prepareSquaredNorm},
                              {"squared_norm_parts", prepareSquaredNormParts},
                              {"pairwise_sum", preparePairwiseSum}};

} // namespace

std::span<const Entry> stepEntries() { return kEntries; }

} // namespace mt::kernels::cuda
