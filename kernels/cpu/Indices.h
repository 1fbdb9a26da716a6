// Operands that name places. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_INDICES_H
#define MT_KERNELS_CPU_INDICES_H

#include "kernels/cpu/CpuKernels.h"

namespace mt::kernels::cpu {

/// Indices of either width; negative ones count from the end where `wraps`.
struct Indices {
  size_t operand = 1;
  bool wide = true, wraps = true;
  int64_t count = 0;

  Indices(const Signature &call, size_t operand, bool wraps = true)
      : operand(operand), wide(call.operands[operand].type == DType::i64), wraps(wraps),
        count(call.operands[operand].elements()) {}

  int64_t raw(const Launch &launch, int64_t i) const {
    return wide ? launch.at<const int64_t>(operand)[i] : launch.at<const int32_t>(operand)[i];
  }
  int64_t at(const Launch &launch, int64_t i, int64_t size) const {
    int64_t index = raw(launch, i);
    return index < 0 ? index + size : index;
  }
  Status bad(const Launch &launch, int64_t i, int64_t size) const {
    return fail("index {} at place {} is outside [{}, {})", raw(launch, i), i, wraps ? -size : 0, size);
  }
  bool holds(const Launch &launch, int64_t i, int64_t size) const {
    int64_t index = raw(launch, i);
    return index < size && index >= (wraps ? -size : 0);
  }
  Status verify(const Launch &launch, int64_t size) const {
    for (int64_t i = 0; i < count; ++i)
      if (!holds(launch, i, size))
        return bad(launch, i, size);
    return {};
  }
};

} // namespace mt::kernels::cpu
#endif
