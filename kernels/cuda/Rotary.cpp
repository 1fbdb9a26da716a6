// rotary, prepared.
#include "kernels/cuda/Rotary.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

struct Rotary {
  RotaryArguments fixed;
  Bound x, cosine, sine, result;

  Status operator()(const Launch &launch) const {
    RotaryArguments arguments = fixed;
    arguments.packed = fixed.pairs % kOctet == 0 && fixed.head % kOctet == 0 && x.aligned(launch) &&
                       cosine.aligned(launch) && sine.aligned(launch) && result.aligned(launch);
    arguments.x = x.in(launch), arguments.cosine = cosine.in(launch), arguments.sine = sine.in(launch);
    arguments.result = result.out(launch);
    return start(launch.stream, ceilDivide(fixed.items, kThreads), kThreads, rotaryCode(), arguments);
  }
};

Result<Run> prepareRotary(const Signature &call, Library &) {
  const Dims &x = call.operands[0].dims, &table = call.operands[1].dims;
  int64_t pairs = table[2], head = x[3], pairItems = ceilDivide(pairs, kOctet);
  RotaryArguments fixed = {};
  fixed.perHead = Divider(pairItems + ceilDivide(head - 2 * pairs, kOctet));
  fixed.heads = Divider(x[2]), fixed.sequence = Divider(x[1]);
  fixed.items = x[0] * x[1] * x[2] * fixed.perHead.size;
  fixed.head = head, fixed.pairs = pairs, fixed.pairItems = pairItems;
  fixed.interleaved = call.integer("interleaved") != 0, fixed.shared = table[0] == 1;
  fixed.direction = call.integer("inverse") ? -1.0f : 1.0f;
  return Run(Rotary{fixed, Bound(call, 0), Bound(call, 1), Bound(call, 2), Bound(call, 3)});
}

} // namespace

std::span<const Entry> rotaryEntries() {
  static constexpr Entry kEntries[] = {{"rotary", prepareRotary}};
  return kEntries;
}

} // namespace mt::kernels::cuda
