// Updates, prepared.
#include "kernels/cuda/Optimizer.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

/// Operands as the catalogue lists them: gradient, norm, scalars, weight, [remainder,] moments.
template <UpdateCode (*code)(bool), bool split> Result<Run> prepareUpdate(const Signature &call, Library &) {
  constexpr size_t kMoments = split ? 5 : 4;
  const OperandType &weight = call.operands[0];
  const int64_t elements = weight.elements();
  const bool matrix = weight.dims.size() >= 2, two = call.operands.size() > kMoments + 1;
  if (elements == 0)
    return Run([](const Launch &) { return Status(); });
  return Run([elements, matrix, two](const Launch &launch) -> Status {
    UpdateCall update = {launch.at<const float>(0), launch.at<const double>(1), launch.at<const double>(2), launch.at<void>(3),
                         split ? launch.at<int16_t>(4) : nullptr, launch.at<float>(kMoments),
                         two ? launch.at<float>(kMoments + 1) : nullptr, elements, matrix, true, launch.fault};
    for (size_t i = 0; i < launch.operands.size(); ++i) // 16 bytes at a time, and 8 of halves
      update.aligned &= reinterpret_cast<uintptr_t>(launch.operands[i]) % 16 == 0 || i == 1 || i == 2;
    return start(launch.stream, ceilDivide(elements, int64_t{kUpdateThreads} * kQuad), kUpdateThreads, code(split), update);
  });
}

constexpr Entry kEntries[] = {{"adamw", prepareUpdate<adamwCode, false>},
                              {"adamw_split", prepareUpdate<adamwCode, true>},
                              {"sgd", prepareUpdate<sgdCode, false>},
                              {"sgd_split", prepareUpdate<sgdCode, true>}};

} // namespace

std::span<const Entry> optimizerEntries() { return kEntries; }

} // namespace mt::kernels::cuda
