#include "kernels/cpu/Bf16Panels.h"

#if defined(__x86_64__)
#include "kernels/cpu/Bf16Units-inl.h"

namespace mt::kernels::cpu {
namespace {

/// Nothing is fetched ahead: panels are in the caches.
struct Nothing {
  MT_VECTORS_INLINE void operator()(int64_t) const {}
};

/// Rows of A from one on: what lies behind 16 and behind 32 of them, in elements.
struct Left {
  Rows rows;
  int64_t next;

  explicit Left(LeftRows a) : rows{a.data, a.data + kSide * a.line, a.line, kPair}, next(kPair * a.line) {}
  explicit Left(Packed a) : rows{a.data, a.data + kSide * a.depth, kPair, kTile, a.inPairs}, next(kPair * a.depth) {}
};

MT_TILES void multiplyAll(Units units, int64_t rows, int64_t columns, int64_t depth, const Left &a, Packed b, bool adds,
                          float *c, int64_t line) {
  for (int64_t j = 0; j < columns; j += kPair) {
    const Bf16 *left = b.data + j * b.depth, *right = left + kSide * b.depth;
    Rows of = a.rows;
    for (int64_t i = 0; i < rows; i += kPair, of.upper += a.next, of.lower += a.next) {
      float *to = c + i * line + j;
      const float *from = adds ? to : nullptr;
      if (units == Units::tiles)
        multiplyTiles<false>(of, left, right, depth / kPair, from, line, to, line, Nothing());
      else
        multiplyVectors(of, left, right, depth / kPair, from, line, to, line, Nothing());
    }
  }
}

/// Rows and columns as tiles: shapes of all eight. A constant, since GCC 12 takes the instruction to read the first
/// eight bytes alone, and leaves what is stored behind them out.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {kSide, kSide, kSide, kSide, kSide, kSide, kSide, kSide};
};
constexpr TileShapes kTileShapes;

MT_TILES void setUpTiles() { _tile_loadconfig(&kTileShapes); }
MT_TILES void releaseTiles() { _tile_release(); }

MT_VECTORS void packAll(const Panel &panel, bool inPairs, Bf16 *to) { pack(panel, 0, padded(panel.across), inPairs, to); }

} // namespace

PanelUnits::PanelUnits() {
  if (units == Units::tiles)
    setUpTiles();
}
PanelUnits::~PanelUnits() {
  if (units == Units::tiles)
    releaseTiles();
}

Packed PanelUnits::packLeft(const Panel &panel, Bf16 *to) const {
  const bool inPairs = packsLeftInPairs(panel.depthByDepth, units);
  packAll(panel, inPairs, to);
  return {to, padded(panel.depth), inPairs};
}
Packed PanelUnits::packRight(const Panel &panel, Bf16 *to) const {
  packAll(panel, true, to);
  return {to, padded(panel.depth), true};
}

void PanelUnits::multiply(int64_t rows, int64_t columns, int64_t depth, LeftRows a, Packed b, bool adds, float *c,
                          int64_t line) const {
  multiplyAll(units, rows, columns, depth, Left(a), b, adds, c, line);
}
void PanelUnits::multiply(int64_t rows, int64_t columns, int64_t depth, Packed a, Packed b, bool adds, float *c,
                          int64_t line) const {
  multiplyAll(units, rows, columns, depth, Left(a), b, adds, c, line);
}

MT_VECTORS LeftRows copyRows(const Bf16 *from, int64_t line, int64_t rows, int64_t columns, Bf16 *to) {
  const int64_t toLine = padded(columns);
  for (int64_t i = 0; i < padded(rows); ++i)
    for (int64_t k = 0; k < toLine; k += kPair) {
      const __mmask32 mask = i < rows ? first(std::min(columns - k, kPair)) : 0;
      _mm512_store_si512(to + i * toLine + k, _mm512_maskz_loadu_epi16(mask, from + i * line + k));
    }
  return {to, toLine};
}

MT_VECTORS void roundRows(const float *from, int64_t line, int64_t columns, Bf16 *to, int64_t toLine) {
  for (int64_t i = 0; i < kPanel; ++i)
    for (int64_t k = 0; k < columns; k += kPair) {
      const __m512 low = _mm512_load_ps(from + i * line + k), high = _mm512_load_ps(from + i * line + k + kSide);
      _mm512_store_si512(to + i * toLine + k, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
}

MT_VECTORS void pairRows(const float *from, int64_t line, int64_t columns, Packed pairs, int64_t begin) {
  for (int64_t column = 0; column < columns; column += kSide) {
    Bf16 *to = pairs.at(column, begin).data;
    for (int64_t i = 0; i < kSide; ++i, to += kPair) {
      const float *even = from + 2 * i * line + column;
      const auto both = (__m512i)_mm512_cvtne2ps_pbh(_mm512_load_ps(even + line), _mm512_load_ps(even));
      _mm512_store_si512(to, pairWords(both));
    }
  }
}

void clearPairs(Packed pairs, int64_t begin, int64_t column, int64_t columns) {
  for (int64_t i = 0; i < columns; i += kSide)
    std::memset(pairs.at(column + i, begin).data, 0, kTile * sizeof(Bf16));
}

MT_VECTORS void addTurned(const float *from, int64_t line, int64_t rows, int64_t columns, float scale, float *to,
                          int64_t toLine) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (int64_t row = 0; row < rows; row += kSide) {
    const auto mask = static_cast<__mmask16>(first(rows - row));
    for (int64_t column = 0; column < columns; column += kSide) {
      __m512i r[kSide];
      for (int64_t i = 0; i < kSide; ++i)
        r[i] = _mm512_load_si512(from + (row + i) * line + column);
      transpose(r);
      for (int64_t i = 0; i < std::min(kSide, columns - column); ++i) {
        float *out = to + (column + i) * toLine + row;
        const __m512 gained = _mm512_mul_ps(factor, _mm512_castsi512_ps(r[i]));
        _mm512_mask_storeu_ps(out, mask, _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), gained));
      }
    }
  }
}

} // namespace mt::kernels::cpu

#else

namespace mt::kernels::cpu {

PanelUnits::PanelUnits() = default;
PanelUnits::~PanelUnits() = default;
Packed PanelUnits::packLeft(const Panel &, Bf16 *) const { return {}; }
Packed PanelUnits::packRight(const Panel &, Bf16 *) const { return {}; }
void PanelUnits::multiply(int64_t, int64_t, int64_t, LeftRows, Packed, bool, float *, int64_t) const {}
void PanelUnits::multiply(int64_t, int64_t, int64_t, Packed, Packed, bool, float *, int64_t) const {}
LeftRows copyRows(const Bf16 *, int64_t, int64_t, int64_t, Bf16 *) { return {}; }
void roundRows(const float *, int64_t, int64_t, Bf16 *, int64_t) {}
void pairRows(const float *, int64_t, int64_t, Packed, int64_t) {}
void clearPairs(Packed, int64_t, int64_t, int64_t) {}
void addTurned(const float *, int64_t, int64_t, int64_t, float, float *, int64_t) {}

} // namespace mt::kernels::cpu
#endif
