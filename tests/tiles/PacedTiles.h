// In place of AMX's tiles, for estimates of times where there are none: what reads and writes the same memory and takes
// about as long, but computes nothing. A tile is read in eight cycles, two lines a cycle, and multiplied in 16, as
// Intel's Optimization Reference Manual has it, at the clock of the processor that runs this.
#ifndef MT_TESTS_TILES_PACEDTILES_H
#define MT_TESTS_TILES_PACEDTILES_H

#include "tests/tiles/TileInstructions.h"

#include <cstdint>

namespace mt::test {

#define MT_PACED __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx512bf16"))) inline

struct Tiles {
  static constexpr int kRows = 16;

  static Tiles own() { return {}; }
  void configure(const void *) const {}
  void release() const {}
  void clear(int) const {}

  MT_PACED void load(int, const void *from, int64_t line) const {
    const auto *row = static_cast<const char *>(from);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i, row += line)
      asm volatile("vmovdqu64 (%0), %%zmm31" : : "r"(row) : "xmm31");
  }

  MT_PACED void store(int, void *to, int64_t line) const {
    auto *row = static_cast<char *>(to);
    asm volatile("vpxorq %%zmm31, %%zmm31, %%zmm31" : : : "xmm31");
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i, row += line)
      asm volatile("vmovdqu64 %%zmm31, (%0)" : : "r"(row) : "memory");
  }

  /// Sixteen additions, each of which waits for the one before, in this tile's product or another's.
  MT_PACED void multiply(int, int, int) const {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
      asm volatile("vpaddd %%xmm30, %%xmm30, %%xmm30" : : : "xmm30");
  }
};

#undef MT_PACED

} // namespace mt::test
#endif
