// Which units of the processor multiply bf16 with sums in f32. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_BF16UNITS_H
#define MT_KERNELS_CPU_BF16UNITS_H

#include <cstdint>

namespace mt::kernels::cpu {

/// What multiplies: floats, or bf16 on the vectors of AVX-512 BF16 or on the tiles of AMX.
enum class Units : uint8_t { floats, vectors, tiles };

/// The best for bf16 that the processor has, the system lends, and instruction sets are not held to less than.
Units bf16Units();
inline bool hasBf16Units() { return bf16Units() != Units::floats; }

} // namespace mt::kernels::cpu
#endif
