// In place of AMX's tiles, for estimates of times where there are none: what reads and writes the same memory and takes
// about as long, but computes nothing. A tile is read in eight cycles, two lines a cycle, and multiplied in 16, as
// Intel's Optimization Reference Manual has it, at the clock of the processor that runs this.
#ifndef MT_TESTS_TILES_PACEDTILES_H
#define MT_TESTS_TILES_PACEDTILES_H

#include <cstdint>

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps

#define _tile_loadconfig(shapes) static_cast<void>(shapes)
#define _tile_release() static_cast<void>(0)
#define _tile_loadd(tile, from, line) ::mt::test::paced::load(from, line)
#define _tile_stored(tile, to, line) ::mt::test::paced::store(to, line)
#define _tile_zero(tile) static_cast<void>(0)
#define _tile_dpbf16ps(sums, left, right) ::mt::test::paced::multiply()

namespace mt::test::paced {

constexpr int kRows = 16;
#define MT_PACED __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx512bf16"))) inline

MT_PACED void load(const void *from, int64_t line) {
  const auto *row = static_cast<const char *>(from);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i, row += line)
    asm volatile("vmovdqu64 (%0), %%zmm31" : : "r"(row) : "xmm31");
}

MT_PACED void store(void *to, int64_t line) {
  auto *row = static_cast<char *>(to);
  asm volatile("vpxorq %%zmm31, %%zmm31, %%zmm31" : : : "xmm31");
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i, row += line)
    asm volatile("vmovdqu64 %%zmm31, (%0)" : : "r"(row) : "memory");
}

/// Sixteen additions, each of which waits for the one before, in this tile's product or another's.
MT_PACED void multiply() {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
    asm volatile("vpaddd %%xmm30, %%xmm30, %%xmm30" : : : "xmm30");
}

#undef MT_PACED

} // namespace mt::test::paced
#endif
