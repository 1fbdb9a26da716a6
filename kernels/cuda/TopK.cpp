// top_k, prepared.
#include "kernels/cuda/TopK.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

Result<Run> prepareTopK(const Signature &call, Library &) {
  int64_t width = call.operands[0].dims.back(), rows = call.operands[0].elements() / width;
  Bound operand(call, 0);
  return Run([=, k = call.integer("k"), largest = call.integer("largest") != 0](const Launch &launch) -> Status {
    if (!launch.operands[1])
      return {};
    TopKArguments arguments = {width, k, largest, operand.in(launch), launch.at<int64_t>(1)};
    return start(launch.stream, rows, kTopKThreads, topKCode(operand.type), arguments);
  });
}

} // namespace

std::span<const Entry> topKEntries() {
  static constexpr Entry kEntries[] = {{"top_k", prepareTopK}};
  return kEntries;
}

} // namespace mt::kernels::cuda
