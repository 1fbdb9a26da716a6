// Code for the units that multiply bf16: how both sides of a product are laid out for them, and the innermost loops.
// Functions of their own instruction sets, which run where bf16Units() names them. Included where there is x86 only.
#ifndef MT_KERNELS_CPU_BF16UNITS_INL_H
#define MT_KERNELS_CPU_BF16UNITS_INL_H

#include "kernels/cpu/Bf16Panels.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

#if defined(MT_EMULATED_TILES)
#include MT_EMULATED_TILES
#endif

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // in GCC 12's own headers of vectors
#endif

#define MT_VECTORS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define MT_VECTORS_INLINE MT_VECTORS __attribute__((always_inline)) inline
#if defined(MT_EMULATED_TILES)
#define MT_TILES MT_VECTORS
#else
#define MT_TILES __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512bf16")))
#endif
#define MT_TILES_INLINE MT_TILES __attribute__((always_inline)) inline

namespace mt::kernels::cpu {
namespace {

/// A tile: 16 rows of 32 bf16, or of 16 pairs of them; sums of two by two tiles are 32 x 32.
constexpr int64_t kSide = Packed::kStrip, kPair = kPanel, kTile = kSide * kPair;

constexpr uint32_t first(int64_t count) { return count >= 32 ? ~0u : count <= 0 ? 0 : (1u << count) - 1; }

/// 16 rows of 16 words of 32 bits -> its transpose.
MT_VECTORS_INLINE void transpose(__m512i *r) {
  __m512i t[kSide];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + 2 + j]);
      r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + 2 + j]);
    }
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 4; ++j) {
      t[i + j] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0x88);
      t[i + j + 4] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0xdd);
    }
  for (int j = 0; j < 8; ++j) {
    r[j] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0x88);
    r[j + 8] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0xdd);
  }
}

MT_VECTORS_INLINE __m512i loadWords(const Bf16 *from, __mmask16 mask) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
}

/// Words of a stored row, as many as a vector holds or fewer, from one of its elements on.
struct Words {
  struct Piece {
    int64_t offset; ///< of the vector's first word, were it part of the piece
    __mmask32 mask;
  };
  Piece all[kPair];
  int count = 0;

  MT_VECTORS_INLINE Words(const Pieces &pieces, int64_t begin, int64_t size) {
    size = std::min(size, kPair);
    for (int64_t done = 0, many; done < size || count == 0; done += many) {
      many = pieces.together(begin + done, size - done);
      all[count++] = {pieces.at(begin + done) - done, first(done + many) & ~first(done)};
    }
  }
  MT_VECTORS_INLINE bool isOne() const { return count == 1; }
  MT_VECTORS_INLINE __m512i loadOne(const Bf16 *row) const {
    return _mm512_maskz_loadu_epi16(all[0].mask, row + all[0].offset);
  }
  MT_VECTORS_INLINE __m512i load(const Bf16 *row) const {
    __m512i words = _mm512_maskz_loadu_epi16(all[0].mask, row + all[0].offset);
    for (int i = 1; i < count; ++i)
      words = _mm512_mask_loadu_epi16(words, all[i].mask, row + all[i].offset);
    return words;
  }
};

/// One tile of 16 across by 32 deep: a row for each across, or, in pairs, one for each two of the depth; zeros fill it.
MT_VECTORS_INLINE void packTile(const Panel &panel, int64_t row, int64_t begin, bool inPairs, Bf16 *out) {
  const Bf16 *from = panel.at(row, begin);
  const int64_t rows = std::clamp<int64_t>(panel.across - row, 0, kSide), depth = std::min(kPair, panel.depth - begin);
  __m512i r[kSide];
  if (panel.depthByDepth) {
    const auto mask = static_cast<__mmask16>(first(rows));
    for (int64_t i = 0; i < kSide; ++i) {
      const Bf16 *even = from + 2 * i * panel.line, *odd = even + panel.line;
      const __m512i low = loadWords(even, 2 * i < depth ? mask : 0), high = loadWords(odd, 2 * i + 1 < depth ? mask : 0);
      r[i] = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
    }
  } else {
    const Words words(panel.pieces, begin, depth);
    const Bf16 *line = panel.data + row * panel.line;
    for (int i = 0; i < kSide && words.isOne(); ++i)
      r[i] = i < rows ? words.loadOne(line + i * panel.line) : _mm512_setzero_si512();
    for (int i = 0; i < kSide && !words.isOne(); ++i)
      r[i] = i < rows ? words.load(line + i * panel.line) : _mm512_setzero_si512();
  }
  if (panel.depthByDepth != inPairs)
    transpose(r);
  for (int i = 0; i < kSide; ++i)
    _mm512_store_si512(out + i * kPair, r[i]);
}

/// Two tiles of pairs, `strip` elements apart, of what is stored by depth: two rows become one of each.
MT_VECTORS_INLINE void pairTiles(const Panel &panel, int64_t row, int64_t begin, Bf16 *out, int64_t strip) {
  alignas(64) static constexpr uint16_t kOrder[2][kPair] = {
      {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
      {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
  const __m512i left = _mm512_load_si512(kOrder[0]), right = _mm512_load_si512(kOrder[1]);
  const Words words(panel.pieces, row, panel.across - row);
  const int64_t depth = panel.depth - begin;
  const Bf16 *even = panel.data + begin * panel.line;
  for (int64_t i = 0; i < kSide; ++i, even += 2 * panel.line, out += kPair) {
    const __m512i low = 2 * i < depth ? words.load(even) : _mm512_setzero_si512(),
                  high = 2 * i + 1 < depth ? words.load(even + panel.line) : _mm512_setzero_si512();
    _mm512_store_si512(out, _mm512_permutex2var_epi16(low, left, high));
    _mm512_store_si512(out + strip, _mm512_permutex2var_epi16(low, right, high));
  }
}

/// Rows [begin, end), multiples of 32: of each 16 all tiles, one after another.
MT_VECTORS_INLINE void pack(const Panel &panel, int64_t begin, int64_t end, bool inPairs, Bf16 *out) {
  const int64_t strip = ceilDivide(panel.depth, kPair) * kTile;
  for (int64_t row = begin; row < end; row += kPair, out += 2 * strip)
    for (int64_t k = 0; k < panel.depth; k += kPair) {
      Bf16 *to = out + k * kSide;
      if (inPairs && panel.depthByDepth) {
        pairTiles(panel, row, k, to, strip);
      } else {
        packTile(panel, row, k, inPairs, to);
        packTile(panel, row + kSide, k, inPairs, to + strip);
      }
    }
}

/// 16 words, and 16 that belong to them -> each beside its own.
MT_VECTORS_INLINE __m512i pairWords(__m512i words) {
  alignas(64) static constexpr uint16_t kPairs[] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                    8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kPairs), words);
}

/// A number as the sum of three of bf16, of which it has 24 bits in all: tiles of each lie one after another.
constexpr int64_t kParts = 3;

MT_VECTORS_INLINE __m512 widen(__m256i words) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}
/// Within what bf16 has without infinity; of NaN the least.
MT_VECTORS_INLINE __m512 clamp(__m512 x) {
  const __m512 most = _mm512_castsi512_ps(_mm512_set1_epi32(0x7f7f0000));
  return _mm512_min_ps(_mm512_max_ps(x, _mm512_sub_ps(_mm512_setzero_ps(), most)), most);
}
MT_VECTORS_INLINE __m512 loadFirst(const float *from, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(first(count)), from);
}

/// 32 numbers, or 16 pairs of one of either, as words of each part, `kTile` apart. A number that bf16 would round to
/// infinity begins with the largest that it has.
MT_VECTORS_INLINE void splitWords(__m512 low, __m512 high, bool pairs, Bf16 *out) {
  for (int64_t part = 0; part < kParts; ++part, out += kTile) {
    const auto words =
        (__m512i)(part == 0 ? _mm512_cvtne2ps_pbh(clamp(high), clamp(low)) : _mm512_cvtne2ps_pbh(high, low));
    _mm512_store_si512(out, pairs ? pairWords(words) : words);
    low = _mm512_sub_ps(low, widen(_mm512_castsi512_si256(words)));
    high = _mm512_sub_ps(high, widen(_mm512_extracti64x4_epi64(words, 1)));
  }
}

/// One tile of 16 across by 32 deep of each part: as packTile() has it.
MT_VECTORS_INLINE void packTile(const PanelOf<float> &panel, int64_t row, int64_t begin, bool inPairs, Bf16 *out) {
  const float *from = panel.at(row, begin);
  const int64_t rows = std::clamp<int64_t>(panel.across - row, 0, kSide), depth = std::min(kPair, panel.depth - begin);
  for (int64_t i = 0; i < kSide; ++i) {
    const float *line = from + (panel.depthByDepth ? 2 * i : i) * panel.line;
    if (panel.depthByDepth)
      splitWords(loadFirst(line, 2 * i < depth ? rows : 0), loadFirst(line + panel.line, 2 * i + 1 < depth ? rows : 0),
                 true, out + i * kPair);
    else
      splitWords(loadFirst(line, i < rows ? depth : 0), loadFirst(line + kSide, i < rows ? depth - kSide : 0), false,
                 out + i * kPair);
  }
  for (int64_t part = 0; panel.depthByDepth != inPairs && part < kParts; ++part) {
    __m512i r[kSide];
    for (int64_t i = 0; i < kSide; ++i)
      r[i] = _mm512_load_si512(out + part * kTile + i * kPair);
    transpose(r);
    for (int64_t i = 0; i < kSide; ++i)
      _mm512_store_si512(out + part * kTile + i * kPair, r[i]);
  }
}

/// As pack() has it, the tiles of all parts after another.
MT_VECTORS_INLINE void pack(const PanelOf<float> &panel, int64_t begin, int64_t end, bool inPairs, Bf16 *out) {
  const int64_t strip = ceilDivide(panel.depth, kPair) * kTile * kParts;
  for (int64_t row = begin; row < end; row += kSide, out += strip)
    for (int64_t k = 0; k < panel.depth; k += kPair)
      packTile(panel, row, k, inPairs, out + k * kSide * kParts);
}

/// 32 rows of A: in tiles or rows, where a word of two elements follows the other, or in pairs, a word for each row.
struct Rows {
  const Bf16 *upper, *lower; ///< 16 rows each
  int64_t line, step;        ///< from a row to the next, and from 32 of the depth to the next, in elements
  bool inPairs = false;      ///< rows do not count then: those of a tile's pairs are kPair apart
};

/// 32 x 32 of C: from zeros, or from what is at `from`; sums go to `to`. Rows of either are so many floats apart. B:
/// the tiles of 16 columns, and of the 16 behind them; if they are read `once`, past the first cache, whose place is
/// A's. `ahead(i)`: what is fetched while the i-th tiles are multiplied.
template <bool once, typename Ahead>
MT_TILES_INLINE void multiplyTiles(const Rows &a, const Bf16 *left, const Bf16 *right, int64_t tiles, const float *from,
                                   int64_t fromLine, float *to, int64_t toLine, const Ahead &ahead) {
  const int64_t in = fromLine * 4, out = toLine * 4, line = a.line * 2;
  asm volatile("" ::: "memory"); // GCC 12 does not know what loading a tile reads
  if (from) {
    _tile_loadd(0, from, in);
    _tile_loadd(1, from + kSide, in);
    _tile_loadd(2, from + kSide * fromLine, in);
    _tile_loadd(3, from + kSide * fromLine + kSide, in);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t i = 0; i < tiles; ++i) {
    ahead(i);
    _tile_loadd(4, a.upper + i * a.step, line);
    if constexpr (once) {
      _tile_stream_loadd(6, left + i * kTile, 64);
      _tile_stream_loadd(7, right + i * kTile, 64);
    } else {
      _tile_loadd(6, left + i * kTile, 64);
      _tile_loadd(7, right + i * kTile, 64);
    }
    _tile_loadd(5, a.lower + i * a.step, line);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, to, out);
  _tile_stored(1, to + kSide, out);
  _tile_stored(2, to + kSide * toLine, out);
  _tile_stored(3, to + kSide * toLine + kSide, out);
}

/// The same of numbers in parts: of nine products of parts the six that a float's last bit sees.
template <typename Ahead>
MT_TILES_INLINE void multiplySplitTiles(const Rows &a, const Bf16 *left, const Bf16 *right, int64_t tiles, float *to,
                                        const Ahead &ahead) {
  const int64_t line = a.line * 2;
  asm volatile("" ::: "memory"); // as above
  const Bf16 *upper = a.upper, *lower = a.lower;
  const auto rows = [&](int64_t part) MT_TILES __attribute__((always_inline)) {
    _tile_loadd(4, upper + part * kTile, line);
    _tile_loadd(5, lower + part * kTile, line);
  };
  const auto columns = [&](int64_t part) MT_TILES __attribute__((always_inline)) {
    _tile_loadd(6, left + part * kTile, 64);
    _tile_loadd(7, right + part * kTile, 64);
  };
  const auto multiply = [&]() MT_TILES __attribute__((always_inline)) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  };
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < tiles;
       ++i, upper += a.step, lower += a.step, left += kParts * kTile, right += kParts * kTile) {
    ahead(i);
    rows(2), columns(0), multiply();
    rows(1), multiply();
    columns(1), multiply();
    rows(0), multiply();
    columns(2), multiply();
    columns(0), multiply();
  }
  _tile_stored(0, to, kPair * 4);
  _tile_stored(1, to + kSide, kPair * 4);
  _tile_stored(2, to + kSide * kPair, kPair * 4);
  _tile_stored(3, to + kSide * kPair + kSide, kPair * 4);
}

/// The same of eight rows, on vectors: sums of 256 of the depth stay in 16 of them, and are added to what is there, which
/// errs less than one sum of all. Of four octets of rows each fetches a quarter.
template <bool kInPairs, int kOctet, typename Ahead>
MT_VECTORS_INLINE void multiplyOctet(const Rows &a, const Bf16 *left, const Bf16 *right, int64_t tiles,
                                     const float *from, int64_t fromLine, float *to, int64_t toLine, const Ahead &ahead) {
  constexpr int64_t kRows = 8, kTogether = 8; // tiles
  const Bf16 *rows = (kOctet < 2 ? a.upper : a.lower) + kOctet % 2 * kRows * (kInPairs ? 2 : a.line);
  from = from ? from + kOctet * kRows * fromLine : nullptr, to += kOctet * kRows * toLine;
  for (int64_t begin = 0; begin < tiles; begin += kTogether) {
    __m512 sums[kRows][2];
    for (auto &row : sums)
      row[0] = row[1] = _mm512_setzero_ps();
    for (int64_t i = begin; i < std::min(tiles, begin + kTogether); ++i, rows += a.step) {
      if (i % 4 == kOctet)
        ahead(i);
      for (int64_t pair = 0; pair < kSide; ++pair) {
        const auto x = (__m512bh)_mm512_load_si512(left + i * kTile + pair * kPair),
                   y = (__m512bh)_mm512_load_si512(right + i * kTile + pair * kPair);
#pragma GCC unroll 8
        for (int64_t r = 0; r < kRows; ++r) {
          int32_t word;
          std::memcpy(&word, kInPairs ? rows + 2 * r + pair * kPair : rows + r * a.line + 2 * pair, sizeof word);
          const auto both = (__m512bh)_mm512_set1_epi32(word);
          sums[r][0] = _mm512_dpbf16_ps(sums[r][0], both, x);
          sums[r][1] = _mm512_dpbf16_ps(sums[r][1], both, y);
        }
      }
    }
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t half = 0; half < 2; ++half) {
        const __m512 before = from ? _mm512_loadu_ps(from + r * fromLine + half * kSide) : _mm512_setzero_ps();
        _mm512_storeu_ps(to + r * toLine + half * kSide, _mm512_add_ps(before, sums[r][half]));
      }
    from = to, fromLine = toLine;
  }
}

template <bool kInPairs, typename Ahead>
MT_VECTORS void multiplyOctets(const Rows &a, const Bf16 *left, const Bf16 *right, int64_t tiles, const float *from,
                               int64_t fromLine, float *to, int64_t toLine, const Ahead &ahead) {
  multiplyOctet<kInPairs, 0>(a, left, right, tiles, from, fromLine, to, toLine, ahead);
  multiplyOctet<kInPairs, 1>(a, left, right, tiles, from, fromLine, to, toLine, ahead);
  multiplyOctet<kInPairs, 2>(a, left, right, tiles, from, fromLine, to, toLine, ahead);
  multiplyOctet<kInPairs, 3>(a, left, right, tiles, from, fromLine, to, toLine, ahead);
}

/// On vectors what multiplyTiles() is on tiles.
template <typename Ahead>
MT_VECTORS_INLINE void multiplyVectors(const Rows &a, const Bf16 *left, const Bf16 *right, int64_t tiles, const float *from,
                                       int64_t fromLine, float *to, int64_t toLine, const Ahead &ahead) {
  if (a.inPairs)
    multiplyOctets<true>(a, left, right, tiles, from, fromLine, to, toLine, ahead);
  else
    multiplyOctets<false>(a, left, right, tiles, from, fromLine, to, toLine, ahead);
}

} // namespace
} // namespace mt::kernels::cpu
#endif
