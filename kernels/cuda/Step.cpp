// squared_norm, prepared.
#include "kernels/cuda/Step.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

Result<Run> prepareSquaredNorm(const Signature &call, Library &) {
  Bound x(call, 0);
  Chunks chunks = squaredNormChunks(call.operands[0].elements());
  if (chunks.count > kThreads)
    return fail("squared_norm: {} parts, and one block adds {}", chunks.count, kThreads);
  return Run([x, chunks](const Launch &launch) -> Status {
    double *parts = static_cast<double *>(launch.operands.back());
    MT_TRY(start(launch.stream, chunks.count, kThreads, squaredNormPartCode(), x.in(launch), chunks.total, chunks.size,
                 x.aligned(launch), parts));
    return start(launch.stream, 1, kThreads, addPartsCode(), parts, chunks.count, launch.at<double>(1));
  });
}

constexpr Entry kEntries[] = {{"squared_norm", prepareSquaredNorm}};

} // namespace

std::span<const Entry> stepEntries() { return kEntries; }

} // namespace mt::kernels::cuda
