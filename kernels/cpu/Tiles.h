// Products of bf16 matrices on the tiles of AMX, on the calling thread alone: rows and columns are laid out as tiles take
// them on the way, a cache's worth at a time, whatever way they are stored. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_TILES_H
#define MT_KERNELS_CPU_TILES_H

#include "kernels/Catalogue.h"
#include "kernels/cpu/Gemm.h"

#include <cstddef>

namespace mt::kernels::cpu {

/// Whether the processor has tiles for bf16, the system lends them, and instruction sets are not held to less.
bool hasTiles();

/// Whether A is read where it lies, if it begins with a line of the cache: of whole lines, and not all in few of the sets
/// of a cache. What does not is packed for every few columns of C.
bool liesAsTiles(const Gemm &gemm);

/// C = alpha * sums + bias + addend, and, if it adds, what C holds: rounded once.
struct TileResult {
  void *c;
  DType type = DType::f32; ///< f32 or bf16
  bool adds = false;
  float alpha = 1;
  const void *bias = nullptr; ///< a row of n, if any
  DType biasType = DType::f32;
  const void *addend = nullptr; ///< of C's type, lying as C does, if any
};

/// Each element of C is summed in f32 in the order of k, by pairs, whatever m and n are; subnormal numbers count as zero,
/// as the units have it. `scratch`: tileScratch(gemm) bytes, aligned to 64.
void multiplyByTiles(const Gemm &gemm, const Bf16 *a, const Bf16 *b, const TileResult &result, std::byte *scratch);
uint64_t tileScratch(const Gemm &gemm);

} // namespace mt::kernels::cpu
#endif
