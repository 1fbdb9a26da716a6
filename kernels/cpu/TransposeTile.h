// A tile of a matrix turned round, by way of a buffer that stays in the first cache. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_TRANSPOSETILE_H
#define MT_KERNELS_CPU_TRANSPOSETILE_H

#include <algorithm>
#include <cstdint>

namespace mt::kernels::cpu {

/// Rows and columns of a tile at most.
inline constexpr int64_t kTile = 32;

/// to [tall, wide] = from^T, from [wide, tall]; rows lie `toLine` and `fromLine` elements apart.
template <typename E>
void transposeTile(const E *from, int64_t fromLine, int64_t tall, int64_t wide, E *to, int64_t toLine) {
  if constexpr (sizeof(E) < 4) { // compilers make vectors of small elements on the way out, of others on the way in
    E held[kTile][kTile + 1];
    for (int64_t j = 0; j < wide; ++j)
      std::copy_n(from + j * fromLine, tall, held[j]);
    for (int64_t i = 0; i < tall; ++i)
      for (int64_t j = 0; j < wide; ++j)
        to[i * toLine + j] = held[j][i];
  } else {
    E held[kTile][kTile];
    for (int64_t j = 0; j < wide; ++j) {
      const E *column = from + j * fromLine;
      for (int64_t i = 0; i < tall; ++i)
        held[i][j] = column[i];
    }
    for (int64_t i = 0; i < tall; ++i)
      std::copy_n(held[i], wide, to + i * toLine);
  }
}

} // namespace mt::kernels::cpu
#endif
