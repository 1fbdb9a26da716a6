// dequantize, prepared.
#include "kernels/cuda/Dequantize.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

Result<Run> prepareDequantize(const Signature &call, Library &) {
  DequantizeCall fixed = {};
  fixed.q = *quantizedOf(call);
  fixed.inner = Divider(fixed.q.inner), fixed.entries = Divider(fixed.q.entries), fixed.block = Divider(fixed.q.block);
  return Run([=, values = Bound(call, 0), scales = Bound(call, 1), zeros = Bound(call, 2),
              result = Bound(call, 3)](const Launch &launch) -> Status {
    DequantizeCall now = fixed;
    now.packed = result.aligned(launch);
    now.values = static_cast<const uint8_t *>(values.in(launch).data);
    now.scales = scales.in(launch), now.zeros = zeros.in(launch), now.result = result.out(launch);
    return start(launch.stream, ceilDivide(now.q.total, kThreads * kOctet), kThreads, dequantizeCode(), now);
  });
}

} // namespace

std::span<const Entry> dequantizeEntries() {
  static constexpr Entry kEntries[] = {{"dequantize", prepareDequantize}};
  return kEntries;
}

} // namespace mt::kernels::cuda
