// Floats rounded to bf16 by the instruction that AVX-512 BF16 has for it: the same bits as nearest() gives, NaN too.
// Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_ROUNDINGUNIT_H
#define MT_KERNELS_CPU_ROUNDINGUNIT_H

#include "kernels/Bf16.h"

#include <cstdint>

namespace mt::kernels::cpu {

/// Whether the processor has it, and instruction sets are not held to less.
bool roundsByUnit();

/// As vec::narrow and vec::roundToBf16; only where roundsByUnit(). `to` may be where `from` is.
void narrowByUnit(const float *from, int64_t count, Bf16 *to);
void roundByUnit(const float *from, int64_t count, float *to);

} // namespace mt::kernels::cpu
#endif
