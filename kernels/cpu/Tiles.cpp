#include "kernels/cpu/Tiles.h"

#include <dnnl.h>

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // in GCC 12's own headers of vectors
#endif

// Functions of their own instruction set: what else this file instantiates runs on any processor.
#define MT_TILES __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512bf16")))
#define MT_TILES_INLINE MT_TILES __attribute__((always_inline)) inline

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kSide = 16, kPair = 32; ///< rows of a tile, and of two; a tile's row is 16 floats or 32 of bf16
constexpr int64_t kTile = kSide * kPair;
constexpr int64_t kLine = 64; ///< bytes, of the cache
/// Parts that stay in the caches: columns of B by pairs in the first, what is packed of both in the second.
constexpr int64_t kDeepest = 768, kTall = 256, kOfB = 1024 * 768; ///< in elements
constexpr int64_t partDepth(int64_t k) { return Chunks(k, ceilDivide(k, kDeepest), kPair).size; }
constexpr int64_t partWidth(int64_t n, int64_t deep) { return Chunks(n, ceilDivide(n, kOfB / deep), kPair).size; }

constexpr int64_t padded(int64_t count) { return ceilDivide(count, kPair) * kPair; }

/// Rows and columns as tiles: shapes of all eight.
MT_TILES void configure() {
  struct alignas(64) Shapes {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  } shapes;
  for (int i = 0; i < 8; ++i)
    shapes.bytes[i] = 64, shapes.rows[i] = kSide;
  _tile_loadconfig(&shapes);
}

constexpr uint32_t first(int64_t count) { return count >= 32 ? ~0u : (1u << count) - 1; }

/// 16 rows of 16 words of 32 bits -> its transpose.
MT_TILES_INLINE void transpose(__m512i *r) {
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

/// What a side of a product is packed from: `across` rows of A, or columns of B, by `depth` of the summed dimension.
struct Panel {
  const Bf16 *data;
  int64_t line;      ///< from a stored row to the next
  bool depthByDepth; ///< whether rows are stored of equal depth
  int64_t across, depth;

  const Bf16 *at(int64_t row, int64_t begin) const { return data + (depthByDepth ? begin * line + row : row * line + begin); }
};

MT_TILES_INLINE __m512i loadWords(const Bf16 *from, __mmask16 mask) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
}

/// One tile of 16 across by 32 deep. A's has a row for each across, B's one for each two of the depth; zeros fill it.
MT_TILES_INLINE void packTile(const Panel &panel, int64_t row, int64_t begin, bool isB, Bf16 *out) {
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
    const __mmask32 mask = first(depth);
    for (int i = 0; i < kSide; ++i)
      r[i] = i < rows ? _mm512_maskz_loadu_epi16(mask, from + i * panel.line) : _mm512_setzero_si512();
  }
  if (panel.depthByDepth != isB)
    transpose(r);
  for (int i = 0; i < kSide; ++i)
    _mm512_store_si512(out + i * kPair, r[i]);
}

/// Rows [begin, end), multiples of 32: of each 16 all tiles, one after another.
MT_TILES void pack(const Panel &panel, int64_t begin, int64_t end, bool isB, Bf16 *out) {
  const int64_t strip = ceilDivide(panel.depth, kPair) * kTile;
  for (int64_t row = begin; row < end; row += kPair, out += 2 * strip)
    for (int64_t k = 0; k < panel.depth; k += kPair) {
      packTile(panel, row, k, isB, out + k * kSide);
      packTile(panel, row + kSide, k, isB, out + k * kSide + strip);
    }
}

/// Two rows of tiles of A, packed or where they lie.
struct Rows {
  const Bf16 *upper, *lower;
  int64_t line, step; ///< from a row to the next, in bytes; from a tile to the next
};

/// What is fetched while tiles are multiplied, some lines of the cache with each: no processor sees ahead so far. A share
/// of the next 32 columns of B, and rows of C.
struct Ahead {
  const Bf16 *b; ///< null: none
  int64_t lineOfB, stepOfB; ///< from a line to the next, and between those of a tile and the next
  int64_t linesOfB;         ///< of a tile
  std::byte *c;
  const std::byte *addend;   ///< null: none
  int64_t lineOfC, bytesOfC; ///< of a row

  MT_TILES_INLINE void fetchRow(int64_t at) const {
    __builtin_prefetch(c + at, 1, 3);
    if (addend)
      __builtin_prefetch(addend + at, 0, 3);
  }
  MT_TILES_INLINE void fetch(int64_t tile) const {
    for (int64_t i = 0; b && i < linesOfB; ++i)
      _mm_prefetch(b + tile * stepOfB + i * lineOfB, _MM_HINT_T1);
    for (int64_t i = 0; i < 4 && tile < 8; ++i)
      for (int64_t at = 0; at < bytesOfC; at += 64)
        fetchRow((4 * tile + i) * lineOfC + at);
  }
};

/// 32 x 32 of C: from zeros, or from what is at `from`; sums go to `to`. Rows of either are so many floats apart.
MT_TILES_INLINE void multiplyTiles(const Rows &a, const Bf16 *left, const Bf16 *right, int64_t tiles, const float *from,
                                   int64_t fromLine, float *to, int64_t toLine, const Ahead &ahead) {
  const int64_t in = fromLine * 4, out = toLine * 4;
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
    ahead.fetch(i);
    _tile_loadd(4, a.upper + i * a.step, a.line);
    _tile_loadd(6, left + i * kTile, 64);
    _tile_loadd(7, right + i * kTile, 64);
    _tile_loadd(5, a.lower + i * a.step, a.line);
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

MT_TILES_INLINE __m512 loadFloats(const void *from, DType type, int64_t at, __mmask16 mask) {
  if (type == DType::f32)
    return _mm512_maskz_loadu_ps(mask, static_cast<const float *>(from) + at);
  return _mm512_castsi512_ps(_mm512_slli_epi32(loadWords(static_cast<const Bf16 *>(from) + at, mask), 16));
}

/// Rows by columns of `sums` [32, 32], finished, to C at its element `at`.
MT_TILES_INLINE void finish(const float *sums, int64_t rows, int64_t columns, const TileResult &result, int64_t column,
                            int64_t at, int64_t line) {
  for (int64_t half = 0; half < columns; half += kSide) {
    const auto mask = static_cast<__mmask16>(first(columns - half));
    const __m512 alpha = _mm512_set1_ps(result.alpha),
                 bias = result.bias ? loadFloats(result.bias, result.biasType, column + half, mask) : _mm512_setzero_ps();
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t place = at + i * line + half;
      __m512 value = _mm512_mul_ps(alpha, _mm512_loadu_ps(sums + i * kPair + half));
      if (result.bias)
        value = _mm512_add_ps(value, bias);
      if (result.adds)
        value = _mm512_add_ps(value, loadFloats(result.c, result.type, place, mask));
      if (result.addend)
        value = _mm512_add_ps(value, loadFloats(result.addend, result.type, place, mask));
      if (result.type == DType::f32)
        _mm512_mask_storeu_ps(static_cast<float *>(result.c) + place, mask, value);
      else
        _mm256_mask_storeu_epi16(static_cast<Bf16 *>(result.c) + place, mask, (__m256i)_mm512_cvtneps_pbh(value));
    }
  }
}

/// One call: some columns of C at a time, of these some of the summed dimension, of these some rows.
class Multiplication {
public:
  MT_TILES Multiplication(const Gemm &gemm, const Bf16 *a, const Bf16 *b, const TileResult &result, std::byte *scratch)
      : gemm(gemm), a(a), b(b), result(result), inPlace(result.type == DType::f32 && result.alpha == 1),
        isDirect(liesAsTiles(gemm) && reinterpret_cast<uintptr_t>(a) % kLine == 0), deep(partDepth(gemm.k)), wide(partWidth(gemm.n, deep)) {
    right = reinterpret_cast<Bf16 *>(scratch), left = right + wide * deep;
    sums = reinterpret_cast<float *>(left + std::min(padded(gemm.m), kTall) * deep);
  }

  MT_TILES void operator()() {
    configure();
    for (column = 0; column < gemm.n; column += wide)
      for (begin = 0; begin == 0 || begin < gemm.k; begin += deep) {
        depth = std::min(deep, gemm.k - begin), tiles = ceilDivide(depth, kPair);
        for (row = 0; row < gemm.m; row += kTall)
          multiplyPart();
      }
    _tile_release();
  }

private:
  const Gemm &gemm;
  const Bf16 *a, *b;
  const TileResult &result;
  const bool inPlace;       ///< sums are kept in C: f32 that are not scaled
  const bool isDirect;      ///< A is read where it lies
  const int64_t deep, wide; ///< of a part
  Bf16 *right, *left;       ///< packed, of B and of A
  float *sums;              ///< [m, wide], where they are not in C and there are several parts
  int64_t column, begin, row; ///< where the part begins
  int64_t depth, tiles;     ///< of the summed dimension
  alignas(64) float square[kPair * kPair];

  /// Rows by columns, both packed unless they are already.
  MT_TILES void multiplyPart() {
    const int64_t rows = std::min(kTall, gemm.m - row), columns = std::min(wide, gemm.n - column);
    const Panel ofA{a + (gemm.transposeA ? begin * gemm.lda + row : row * gemm.lda + begin), gemm.lda, gemm.transposeA,
                    rows, depth};
    const Panel ofB{b + (gemm.transposeB ? column * gemm.ldb + begin : begin * gemm.ldb + column), gemm.ldb,
                    !gemm.transposeB, columns, depth};
    const int64_t whole = isDirect ? rows / kPair * kPair : 0; // rows
    if (whole < rows)
      pack(ofA, whole, padded(rows), false, left + whole * tiles * kPair);
    for (int64_t j = 0; j < columns; j += kPair) {
      Bf16 *packed = right + j * tiles * kPair;
      if (row == 0)
        pack(ofB, j, j + kPair, true, packed);
      for (int64_t i = 0; i < rows; i += kPair) {
        const Bf16 *tile = left + i * tiles * kPair;
        const Rows of = i < whole ? Rows{ofA.at(i, 0), ofA.at(i + kSide, 0), gemm.lda * 2, kPair}
                                  : Rows{tile, tile + kSide * tiles * kPair, 64, kTile};
        multiplySquare(of, packed, row + i, column + j, aheadOf(ofB, rows, i, j));
      }
    }
  }

  /// While the square at (i, j) of a part is multiplied: those of the first rows share the columns of B behind j.
  MT_TILES_INLINE Ahead aheadOf(const Panel &ofB, int64_t rows, int64_t i, int64_t j) const {
    Ahead ahead = {};
    if (row == 0 && j + kPair < ofB.across) {
      const int64_t squares = ceilDivide(rows, kPair), line = i / kPair * kPair / squares;
      ahead.linesOfB = (i / kPair + 1) * kPair / squares - line;
      ahead.b = ofB.depthByDepth ? ofB.at(j + kPair, line) : ofB.at(j + kPair + line, 0);
      ahead.lineOfB = ofB.line, ahead.stepOfB = ofB.depthByDepth ? kPair * ofB.line : kPair;
    }
    if (inPlace || begin + depth >= gemm.k) {
      const auto size = static_cast<int64_t>(byteSize(result.type));
      const int64_t place = ((row + i) * gemm.ldc + column + j) * size;
      ahead.c = static_cast<std::byte *>(result.c) + place;
      ahead.addend = result.addend ? static_cast<const std::byte *>(result.addend) + place : nullptr;
      ahead.lineOfC = gemm.ldc * size, ahead.bytesOfC = kPair * size;
    }
    return ahead;
  }

  /// 32 x 32 of C, or as many as there are.
  MT_TILES_INLINE void multiplySquare(const Rows &of, const Bf16 *packed, int64_t m, int64_t n, const Ahead &ahead) {
    const int64_t rows = std::min(kPair, gemm.m - m), columns = std::min(kPair, gemm.n - n);
    const bool isEdge = rows < kPair || columns < kPair, continues = begin > 0 || (inPlace && result.adds);
    const bool isFinished = begin + depth >= gemm.k && (!inPlace || result.bias || result.addend);
    float *home = inPlace ? static_cast<float *>(result.c) + m * gemm.ldc + n : sums + m * wide + n - column;
    int64_t line = inPlace ? gemm.ldc : wide;
    if (inPlace && isEdge) { // tiles would reach beyond C
      std::fill_n(square, continues ? kPair * kPair : 0, 0.0F);
      for (int64_t i = 0; continues && i < rows; ++i)
        std::copy_n(home + i * line, columns, square + i * kPair);
      home = square, line = kPair;
    }
    float *to = isFinished ? square : home;
    multiplyTiles(of, packed, packed + kSide * tiles * kPair, tiles, continues ? home : nullptr, line, to,
                  isFinished ? kPair : line, ahead);
    if (isFinished) {
      TileResult whole = result;
      whole.adds = result.adds && !inPlace;
      finish(square, rows, columns, whole, n, m * gemm.ldc + n, gemm.ldc);
    } else if (to == square) {
      finish(square, rows, columns, {.c = result.c}, n, m * gemm.ldc + n, gemm.ldc);
    }
  }
};

} // namespace

bool hasTiles() {
  constexpr auto kLeast = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_amx);
  constexpr long kAskFor = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA of <asm/prctl.h>
  static const bool isLent = syscall(SYS_arch_prctl, kAskFor, kTileData) == 0;
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kLeast) == kLeast && isLent;
}

bool liesAsTiles(const Gemm &gemm) {
  constexpr int64_t kSets = 8192;
  const int64_t bytes = gemm.lda * static_cast<int64_t>(sizeof(Bf16));
  return !gemm.transposeA && gemm.k % kPair == 0 && bytes % kLine == 0 && bytes % kSets != 0;
}

uint64_t tileScratch(const Gemm &gemm) {
  const int64_t deep = partDepth(gemm.k), wide = partWidth(gemm.n, deep),
                tall = std::min(padded(gemm.m), kTall), sums = gemm.k > kDeepest ? padded(gemm.m) * wide : 0;
  return static_cast<uint64_t>((wide + tall) * deep) * sizeof(Bf16) + static_cast<uint64_t>(sums) * sizeof(float);
}

void multiplyByTiles(const Gemm &gemm, const Bf16 *a, const Bf16 *b, const TileResult &result, std::byte *scratch) {
  Multiplication(gemm, a, b, result, scratch)();
}

} // namespace mt::kernels::cpu

#else

namespace mt::kernels::cpu {

bool hasTiles() { return false; }
bool liesAsTiles(const Gemm &) { return false; }
uint64_t tileScratch(const Gemm &) { return 0; }
void multiplyByTiles(const Gemm &, const Bf16 *, const Bf16 *, const TileResult &, std::byte *) {}

} // namespace mt::kernels::cpu
#endif
