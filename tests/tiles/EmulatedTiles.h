// AMX's tiles for processors that have none: its instructions by their definition (Intel's Software Developer's Manual,
// TDPBF16PS), on eight tiles of the calling thread. Included in their place by code that MT_EMULATED_TILES names
// it to. A tile that is used before tiles are configured, or after they are released, ends the program.
#ifndef MT_TESTS_TILES_EMULATEDTILES_H
#define MT_TESTS_TILES_EMULATEDTILES_H

#include "tests/tiles/TileInstructions.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace mt::test {

class Tiles {
public:
  static Tiles &own() {
    thread_local Tiles tiles;
    return tiles;
  }

  /// The 64 bytes of a configuration: palette 1, then bytes a row and rows of each tile.
  void configure(const void *shapes) {
    const auto *bytes = static_cast<const uint8_t *>(shapes);
    require(bytes[0] == 1 && bytes[1] == 0, "another palette, or a start row");
    for (int i = 0; i < kTiles; ++i) {
      uint16_t columns;
      std::memcpy(&columns, bytes + 16 + 2 * i, sizeof columns);
      require(columns == kBytes && bytes[48 + i] == kRows, "tiles that are not whole");
    }
    isConfigured = true;
  }
  void release() { isConfigured = false; }

  void load(int tile, const void *from, int64_t line) {
    use();
    for (int64_t row = 0; row < kRows; ++row)
      std::memcpy(tiles[tile][row], static_cast<const char *>(from) + row * line, kBytes);
  }
  void store(int tile, void *to, int64_t line) {
    use();
    for (int64_t row = 0; row < kRows; ++row)
      std::memcpy(static_cast<char *>(to) + row * line, tiles[tile][row], kBytes);
  }
  void clear(int tile) {
    use();
    std::memset(tiles[tile], 0, sizeof tiles[tile]);
  }

  /// Of each pair the even and the odd products are summed apart, then both, then with what was there; numbers below
  /// the normal ones are zero, before and after.
  __attribute__((target("avx512f,fma"))) void multiply(int sums, int left, int right) {
    use();
    float evens[kRows][kColumns], odds[kRows][kColumns]; // of the right side
    for (int k = 0; k < kRows; ++k)
      for (int n = 0; n < kColumns; ++n)
        evens[k][n] = widen(half(right, k, 2 * n)), odds[k][n] = widen(half(right, k, 2 * n + 1));
    for (int m = 0; m < kRows; ++m) {
      float even[kColumns] = {}, odd[kColumns] = {}, held[kColumns];
      for (int k = 0; k < kRows; ++k) {
        const float a = widen(half(left, m, 2 * k)), b = widen(half(left, m, 2 * k + 1));
        for (int n = 0; n < kColumns; ++n) {
          even[n] = flush(__builtin_fmaf(a, evens[k][n], even[n]));
          odd[n] = flush(__builtin_fmaf(b, odds[k][n], odd[n]));
        }
      }
      std::memcpy(held, tiles[sums][m], sizeof held);
      for (int n = 0; n < kColumns; ++n)
        held[n] = flush(flush(held[n]) + flush(even[n] + odd[n]));
      std::memcpy(tiles[sums][m], held, sizeof held);
    }
  }

private:
  static constexpr int kTiles = 8, kRows = 16, kColumns = 16, kBytes = 64;
  unsigned char tiles[kTiles][kRows][kBytes];
  bool isConfigured = false;

  static void require(bool holds, const char *what) {
    if (holds)
      return;
    std::fprintf(stderr, "tiles: %s\n", what);
    std::abort();
  }
  void use() const { require(isConfigured, "used without a configuration"); }

  __attribute__((always_inline)) uint16_t half(int tile, int row, int column) const {
    uint16_t bits;
    std::memcpy(&bits, tiles[tile][row] + 2 * column, sizeof bits);
    return bits;
  }
  static inline __attribute__((always_inline)) float flush(float x) {
    return __builtin_fabsf(x) < std::numeric_limits<float>::min() ? 0.0F : x;
  }
  static inline __attribute__((always_inline)) float widen(uint16_t bits) {
    const uint32_t whole = static_cast<uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &whole, sizeof x);
    return flush(x);
  }
};

} // namespace mt::test
#endif
