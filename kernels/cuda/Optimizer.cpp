// Updates, prepared.
#include "kernels/cuda/Optimizer.h"

#include "kernels/Optimizers.h"
#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

/// Operands as the catalogue lists them: gradient, norm, scalars, weight, [remainder,] `moments`, [average].
template <UpdateCode (*code)(bool), size_t moments, bool split>
Result<Run> prepareUpdate(const Signature &call, Library &) {
  constexpr size_t kMoments = split ? 5 : 4;
  const OperandType &weight = call.operands[kUpdateGradient];
  const int64_t elements = weight.elements();
  const bool averages = call.operands.size() > kMoments + moments;
  if (elements == 0)
    return Run([](const Launch &) { return Status(); });
  return Run([elements, averages](const Launch &launch) -> Status {
    UpdateCall update = {launch.at<const float>(kUpdateGradient),
                         launch.at<const double>(kUpdateNorm),
                         launch.at<const double>(kUpdateScalars),
                         launch.at<void>(3),
                         split ? launch.at<int16_t>(4) : nullptr,
                         moments > 0 ? launch.at<float>(kMoments) : nullptr,
                         moments > 1 ? launch.at<float>(kMoments + 1) : nullptr,
                         averages ? launch.at<float>(kMoments + moments) : nullptr,
                         elements,
                         true,
                         launch.fault};
    for (size_t i = 0; i < launch.operands.size(); ++i) // 16 bytes at a time, and 8 of halves
      update.aligned &= reinterpret_cast<uintptr_t>(launch.operands[i]) % 16 == 0 || i == 1 || i == 2;
    return start(launch.stream, ceilDivide(elements, int64_t{kUpdateThreads} * kQuad), kUpdateThreads, code(split), update);
  });
}

} // namespace

std::span<const Entry> optimizerEntries() {
  static constexpr Entry kEntries[] = {
      {"adamw", prepareUpdate<adamwCode, 2, false>},     {"adamw_split", prepareUpdate<adamwCode, 2, true>},
      {"sgd", prepareUpdate<sgdCode, 1, false>},         {"sgd_split", prepareUpdate<sgdCode, 1, true>},
      {"lion", prepareUpdate<lionCode, 1, false>},       {"lion_split", prepareUpdate<lionCode, 1, true>},
      {"replace", prepareUpdate<replaceCode, 0, false>}, {"replace_split", prepareUpdate<replaceCode, 0, true>}};
  return kEntries;
}

} // namespace mt::kernels::cuda
