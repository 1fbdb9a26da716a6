// Which units of the processor multiply bf16 with sums in f32. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_BF16UNITS_H
#define MT_KERNELS_CPU_BF16UNITS_H

#include <cstdint>

namespace mt::kernels::cpu {

/// What multiplies: floats, or bf16 on the vectors of AVX-512 BF16 or on the tiles of AMX; there also floats, each as
/// the sum of three of bf16.
enum class Units : uint8_t { floats, vectors, tiles, splitTiles };

/// The best for bf16 that the processor has, the system lends, and instruction sets are not held to less than.
Units bf16Units();
inline bool hasBf16Units() { return bf16Units() != Units::floats; }

/// Whether tiles multiply f32, too, if they are there: at first they do not.
void multiplyFloatsOnTiles(bool does);
/// What multiplies a product of f32 of so many columns and such depth, however many rows it has.
Units floatUnits(int64_t n, int64_t k);

} // namespace mt::kernels::cpu
#endif
