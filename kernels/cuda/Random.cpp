// dropout and random, prepared.
#include "kernels/cuda/Random.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

struct Drawing {
  RandomCall fixed;
  size_t first; ///< of row numbers, scalars, node
  Bound x, result;

  Status operator()(const Launch &launch) const {
    RandomCall call = fixed;
    call.packed = x.aligned(launch) && result.aligned(launch);
    call.numbers = static_cast<const int64_t *>(launch.operands[first]);
    call.scalars = static_cast<const double *>(launch.operands[first + 1]);
    call.node = static_cast<const int64_t *>(launch.operands[first + 2]);
    call.x = x.in(launch), call.result = result.out(launch);
    return start(launch.stream, ceilDivide(call.total, kThreads * kOctet), kThreads, randomCode(), call);
  }
};

/// A call whose row numbers are operand `first`, and whose result is the last one.
RandomCall fixedOf(const Signature &call, RandomKind kind, size_t first) {
  const double ratio = call.real("ratio");
  const OperandType &numbers = call.operands[first];
  RandomCall fixed = {};
  fixed.kind = kind, fixed.total = call.operands[first + 3].elements();
  fixed.least = dropBelow(ratio), fixed.scale = keptScale(ratio);
  if (numbers.present) {
    fixed.numbering.outer = call.integer("outer", 1);
    fixed.numbering.inner = fixed.total / fixed.numbering.outer / numbers.dims[0];
    fixed.inner = Divider(fixed.numbering.inner), fixed.rows = Divider(numbers.dims[0]);
  }
  return fixed;
}

Result<Run> prepareDropout(const Signature &call, Library &) {
  return Run(Drawing{fixedOf(call, RandomKind::dropout, 1), 1, Bound(call, 0), Bound(call, 4)});
}

Result<Run> prepareRandom(const Signature &call, Library &) {
  const std::string kind = call.text("kind");
  const RandomKind which = kind == "normal" ? RandomKind::normal
                           : kind == "keep" ? RandomKind::keep
                                            : RandomKind::uniform;
  return Run(Drawing{fixedOf(call, which, 0), 0, Bound(), Bound(call, 3)});
}

} // namespace

std::span<const Entry> randomEntries() {
  static constexpr Entry kEntries[] = {{"dropout", prepareDropout}, {"random", prepareRandom}};
  return kEntries;
}

} // namespace mt::kernels::cuda
