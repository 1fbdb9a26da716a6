// A tile of a matrix turned round, by blocks that are as wide as a vector of 16 bytes. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_TRANSPOSETILE_H
#define MT_KERNELS_CPU_TRANSPOSETILE_H

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

namespace mt::kernels::cpu {

/// Rows and columns of a tile at most.
inline constexpr int64_t kTile = 32;

/// Where the lines of a tile begin, each of elements side by side.
template <typename E> using TileLines = std::array<E *, kTile>;

/// Elements of two vectors in turns, those of their first or of their second halves.
template <typename V, int Lanes, int... I> V interleaved(V a, V b, bool second, std::integer_sequence<int, I...>) {
  return second ? __builtin_shufflevector(a, b, (I / 2 + I % 2 * Lanes + Lanes / 2)...)
                : __builtin_shufflevector(a, b, (I / 2 + I % 2 * Lanes)...);
}

/// As many lines as a vector has elements. Lines in turns with those half of them further on, as often as two goes into
/// their number, are columns.
template <typename E> void transposeBlock(const E *const *from, int64_t first, E *const *to, int64_t begin) {
  constexpr int kLanes = 16 / sizeof(E);
  typedef E V __attribute__((vector_size(16)));
  V held[kLanes], next[kLanes];
  for (int i = 0; i < kLanes; ++i)
    std::memcpy(&held[i], from[i] + first, sizeof(V));
  for (int step = 1; step < kLanes; step *= 2) {
    for (int i = 0; i < kLanes / 2; ++i)
      for (int half = 0; half < 2; ++half)
        next[2 * i + half] =
            interleaved<V, kLanes>(held[i], held[i + kLanes / 2], half == 1, std::make_integer_sequence<int, kLanes>());
    std::memcpy(held, next, sizeof held);
  }
  for (int i = 0; i < kLanes; ++i)
    std::memcpy(to[i] + begin, &held[i], sizeof(V));
}

/// to[i][j] = from[j][i] for i < tall, j < wide.
template <typename E>
void transposeTile(const TileLines<const E> &from, int64_t tall, int64_t wide, const TileLines<E> &to) {
  int64_t blockTall = 0, blockWide = 0; // what blocks do of it
  if constexpr (sizeof(E) <= 8) {
    constexpr int64_t kLanes = 16 / sizeof(E);
    blockTall = tall / kLanes * kLanes, blockWide = wide / kLanes * kLanes;
    for (int64_t i = 0; i < blockTall; i += kLanes)
      for (int64_t j = 0; j < blockWide; j += kLanes)
        transposeBlock(from.data() + j, i, to.data() + i, j);
  }
  for (int64_t i = 0; i < tall; ++i)
    for (int64_t j = i < blockTall ? blockWide : 0; j < wide; ++j)
      to[static_cast<size_t>(i)][j] = from[static_cast<size_t>(j)][i];
}

} // namespace mt::kernels::cpu
#endif
