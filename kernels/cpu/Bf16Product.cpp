#include "kernels/cpu/Bf16Product.h"

#if defined(__x86_64__)
#include "kernels/cpu/Bf16Units-inl.h"

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kLine = 64; ///< bytes, of the cache

/// Parts of a product that stay in the caches, those of the depth its steps, in elements: on tiles rows of A in the
/// first and columns of B by pairs in the second; vectors read both from the second. Steps are deeper where sums that
/// are not whole have no place in C, and shallower where they have, so that more rows are kept.
struct Parts {
  int64_t deepest, tall, ofB;
  int64_t ofA; ///< elements of the rows that are kept, packed, for all columns; 0: none are
  static constexpr Parts of(Units units, bool inPlace) {
    if (units == Units::splitTiles)
      return {384, kPair, 128 * 1024, 256 * 1024};
    return units == Units::tiles ? Parts{inPlace ? 1536 : 3072, kPair, 384 * 1024, 768 * 1024}
                                 : Parts{1024, 128, 1024 * 768, 0};
  }
  int64_t depth(int64_t k) const { return Chunks(k, ceilDivide(k, deepest), kPair).size; }
  int64_t width(int64_t n, int64_t deep) const { return Chunks(n, ceilDivide(n, ofB / deep), kPair).size; }
  int64_t kept(int64_t m, int64_t deep) const {
    const int64_t most = std::max<int64_t>(1, ofA / deep / tall) * tall;
    return Chunks(m, std::max<int64_t>(1, ceilDivide(m, most)), tall).size;
  }
};

/// What is fetched while tiles are multiplied, some lines of the cache with each: no processor sees ahead so far. A share
/// of the next 32 columns of B, and rows of C.
template <typename T> struct Ahead {
  const T *b;               ///< null: none
  int64_t lineOfB, stepOfB; ///< from a line to the next, and between those of a tile and the next
  int64_t linesOfB;         ///< of a tile
  std::byte *c;
  const std::byte *addend;   ///< null: none
  int64_t lineOfC, bytesOfC; ///< of a row

  MT_VECTORS_INLINE void fetchRow(int64_t at) const {
    __builtin_prefetch(c + at, 1, 3);
    if (addend)
      __builtin_prefetch(addend + at, 0, 3);
  }
  MT_VECTORS_INLINE void operator()(int64_t tile) const {
    for (int64_t i = 0; b && i < linesOfB; ++i)
      for (int64_t at = 0; at < kPair; at += kLine / static_cast<int64_t>(sizeof(T)))
        _mm_prefetch(b + tile * stepOfB + i * lineOfB + at, _MM_HINT_T1);
    for (int64_t i = 0; i < 4 && tile < 8; ++i)
      for (int64_t at = 0; at < bytesOfC; at += 64)
        fetchRow((4 * tile + i) * lineOfC + at);
  }
};

/// 32 of a row, or as many as a mask has.
struct RowOf32 {
  __m512 low, high;

  MT_VECTORS_INLINE static RowOf32 load(const void *from, DType type, int64_t at, __mmask32 mask) {
    const auto left = static_cast<__mmask16>(mask), right = static_cast<__mmask16>(mask >> kSide);
    if (type == DType::f32) {
      const float *floats = static_cast<const float *>(from) + at;
      return {_mm512_maskz_loadu_ps(left, floats), _mm512_maskz_loadu_ps(right, floats + kSide)};
    }
    const __m512i words = _mm512_maskz_loadu_epi16(mask, static_cast<const Bf16 *>(from) + at);
    return {widen(_mm512_castsi512_si256(words)), widen(_mm512_extracti64x4_epi64(words, 1))};
  }
  MT_VECTORS_INLINE void add(const RowOf32 &other) {
    low = _mm512_add_ps(low, other.low), high = _mm512_add_ps(high, other.high);
  }
  MT_VECTORS_INLINE void store(void *to, DType type, int64_t at, __mmask32 mask) const {
    if (type == DType::bf16)
      return _mm512_mask_storeu_epi16(static_cast<Bf16 *>(to) + at, mask, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    float *floats = static_cast<float *>(to) + at;
    _mm512_mask_storeu_ps(floats, static_cast<__mmask16>(mask), low);
    _mm512_mask_storeu_ps(floats + kSide, static_cast<__mmask16>(mask >> kSide), high);
  }
};

/// Rows [begin, end) by columns of `sums` [32, 32], finished, to C, whose first element there is `at`.
MT_VECTORS_INLINE void finish(const float *sums, int64_t begin, int64_t end, int64_t columns, const Bf16Result &result,
                              int64_t column, int64_t at, int64_t line) {
  const __mmask32 mask = first(columns);
  const __m512 alpha = _mm512_set1_ps(result.alpha);
  const DType type = result.type;
  void *const c = result.c;
  const void *const addend = result.addend;
  const bool adds = result.adds, hasBias = result.bias != nullptr;
  const RowOf32 bias = hasBias ? RowOf32::load(result.bias, result.biasType, column, mask) : RowOf32{alpha, alpha};
  for (int64_t i = begin; i < end; ++i) {
    const int64_t place = at + i * line;
    const float *row = sums + i * kPair;
    RowOf32 value{_mm512_mul_ps(alpha, _mm512_load_ps(row)), _mm512_mul_ps(alpha, _mm512_load_ps(row + kSide))};
    if (hasBias)
      value.add(bias);
    if (adds)
      value.add(RowOf32::load(c, type, place, mask));
    if (addend)
      value.add(RowOf32::load(addend, type, place, mask));
    value.store(c, type, place, mask);
  }
}

/// What is left of a square of C when its sums are whole: it is done while the next one is multiplied, some rows with
/// each of its tiles, as vectors are idle then.
struct Unfinished {
  const float *sums = nullptr;
  const Bf16Result *result = nullptr;
  int64_t rows = 0, columns = 0, column = 0, at = 0;
  int64_t done = 0; ///< rows

  MT_VECTORS_INLINE void finishSome(int64_t most, int64_t line) {
    if (done >= rows)
      return;
    const int64_t end = std::min(rows, done + most);
    finish(sums, done, end, columns, *result, column, at, line);
    done = end;
  }
};

/// One call: some columns of C at a time, of these some of the summed dimension, of these some rows. On tiles rows that
/// must be packed, as many as a cache holds, are kept for all columns, but where sums of several steps would need a
/// place for all of them. Of floats each step's sums are finished, and added to C.
template <typename T> class Multiplication {
  static constexpr bool kSplit = std::is_same_v<T, float>;
  static constexpr int64_t kEach = kSplit ? kParts : 1; ///< what is packed of an element

public:
  MT_TILES Multiplication(const Gemm &gemm, const UnitSide<T> &a, const UnitSide<T> &b, const Bf16Result &result,
                          int64_t deepest, std::byte *scratch)
      : gemm(gemm), a(a), b(b), result(result), inPlace(!kSplit && result.keepsSums()),
        onTiles(units != Units::vectors),
        isDirect(liesForUnits(gemm, units) && !a.shared && a.pieces.size == 0 &&
                 (!onTiles || reinterpret_cast<uintptr_t>(a.data + a.pieces.first) % kLine == 0)),
        deep(parts.depth(deepest)), wide(parts.width(gemm.n, deep)),
        kept(keepsLeft(parts, deepest, inPlace) && !isDirect && !a.shared ? parts.kept(gemm.m, deep) : 0),
        whole(result) {
    right = reinterpret_cast<Bf16 *>(scratch), left = right + wide * deep * kEach;
    sums = reinterpret_cast<float *>(left + std::min(padded(gemm.m), std::max(kept, parts.tall)) * deep * kEach);
    whole.adds = result.adds && !inPlace;
    further = {.c = result.c, .adds = true, .alpha = result.alpha};
  }

  MT_TILES void operator()() {
    const PanelUnits setUp;
    if (kept > 0)
      for (top = 0; top < gemm.m; top += kept)
        eachStep([&] { eachColumns([&] { multiplyRows(std::min(gemm.m, top + kept)); }); });
    else
      eachColumns([&] { eachStep([&] { multiplyRows(gemm.m); }); });
    unfinished.finishSome(kPair, gemm.ldc);
  }

  /// What a call takes, or one of less depth, which may keep rows where this one does not.
  static uint64_t scratch(const Parts &parts, int64_t m, int64_t n, int64_t k, bool inPlace) {
    const int64_t deep = std::min(padded(k), parts.deepest),
                  left = std::min(padded(m) * deep, std::max(parts.ofA, parts.tall * deep)),
                  right = std::min(padded(n) * deep, parts.ofB + kPair * deep);
    const int64_t widest = parts.ofB / (parts.deepest / 2) + kPair, // several parts are at least half as deep as may be
        sums = !kSplit && !inPlace && k > parts.deepest ? padded(m) * std::min(padded(n), widest) : 0;
    return static_cast<uint64_t>(kEach * (left + right)) * sizeof(Bf16) + static_cast<uint64_t>(sums) * sizeof(float);
  }

private:
  const Gemm &gemm;
  const UnitSide<T> &a, &b;
  const Bf16Result &result;
  const Units units = kSplit ? Units::splitTiles : bf16Units();
  const bool inPlace; ///< sums are kept in C
  const Parts parts = Parts::of(units, inPlace);
  const bool onTiles;
  const bool isDirect;      ///< A is read where it lies
  const int64_t deep, wide; ///< of a part
  const int64_t kept;       ///< rows that are packed for all columns; 0: for a part
  Bf16Result whole;         ///< of sums that are whole, or, of floats, of the first step
  Bf16Result further;       ///< of floats' further steps
  Bf16 *right, *left;       ///< packed, of B and of A
  float *sums;              ///< [m, wide], where they are not in C and there are several parts
  int64_t column = 0, begin = 0, row = 0; ///< where the part begins
  int64_t top = 0;              ///< the first of the rows that are multiplied by these columns, before others are
  int64_t depth = 0, tiles = 0; ///< of the summed dimension
  Unfinished unfinished;
  size_t current = 0; ///< of the squares
  alignas(64) float squares[2][kPair * kPair];

  template <typename Visit> void eachColumns(const Visit &visit) {
    for (column = 0; column < gemm.n; column += wide)
      visit();
  }
  template <typename Visit> void eachStep(const Visit &visit) {
    for (begin = 0; begin == 0 || begin < gemm.k; begin += deep) {
      depth = std::min(deep, gemm.k - begin), tiles = ceilDivide(depth, kPair);
      visit();
    }
  }

  const int64_t together = onTiles ? 4 * kPair : kPair; ///< columns of B that are packed together

  /// Whether rows of A are kept for all columns: sums then need no place but C.
  static bool keepsLeft(const Parts &parts, int64_t k, bool inPlace) {
    return kSplit || (parts.ofA > 0 && (inPlace || k <= parts.deepest));
  }

  PanelOf<T> panelOf(const UnitSide<T> &side, int64_t line, bool depthByDepth, int64_t from, int64_t across) const {
    const int64_t rowsBefore = depthByDepth ? begin : from, before = depthByDepth ? from : begin;
    const T *data = side.shared ? nullptr : side.data + rowsBefore * line;
    return {data, line, depthByDepth, across, depth, side.pieces.from(before)};
  }

  MT_TILES void multiplyRows(int64_t end) {
    for (row = top; row < end; row += parts.tall)
      multiplyPart(std::min(parts.tall, end - row));
  }

  /// Columns [begin, end) of B: where rows are stored of equal depth, all of a row before those of the next.
  MT_VECTORS_INLINE static void packColumns(const PanelOf<T> &ofB, int64_t begin, int64_t end, Bf16 *to) {
    if (!ofB.depthByDepth)
      return pack(ofB, begin, end, true, to);
    const int64_t strip = ceilDivide(ofB.depth, kPair) * kTile * kEach;
    for (int64_t k = 0; k < ofB.depth; k += kPair)
      for (int64_t j = begin; j < end; j += kPair) {
        Bf16 *at = to + (j - begin) / kSide * strip + k * kSide * kEach;
        if constexpr (kSplit)
          packTile(ofB, j, k, true, at), packTile(ofB, j + kSide, k, true, at + strip);
        else
          pairTiles(ofB, j, k, at, strip);
      }
  }

  /// Rows by columns, both packed unless they are already.
  MT_TILES void multiplyPart(int64_t rows) {
    const int64_t columns = std::min(wide, gemm.n - column);
    const PanelOf<T> ofA = panelOf(a, gemm.lda, gemm.transposeA, row, rows),
                     ofB = panelOf(b, gemm.ldb, !gemm.transposeB, column, columns);
    const bool inPairs = packsLeftInPairs(gemm.transposeA, units);
    const int64_t lying = isDirect ? rows / kPair * kPair : 0; // rows
    const int64_t line = tiles * kPair * kEach;                // of what is packed
    Bf16 *packedA = left + (kept > 0 ? (row - top) * line : 0);
    if (lying < rows && !a.shared && (kept == 0 || column == 0))
      pack(ofA, lying, padded(rows), inPairs, packedA + lying * line);
    const Bf16 *ofRows = a.shared ? a.shared->at(a.across + row, a.depth + begin, depth) : packedA,
               *ofColumns = b.shared ? b.shared->at(b.across + column, b.depth + begin, depth) : right;
    for (int64_t j = 0; j < columns; j += kPair) {
      const Bf16 *packed = ofColumns + j * line;
      if (row == top && !b.shared && j % together == 0)
        packColumns(ofB, j, std::min(j + together, padded(columns)), right + j * line);
      for (int64_t i = 0; i < rows; i += kPair) {
        const Bf16 *tile = ofRows + i * line;
        Rows of{tile, tile + kSide * line, kPair, kTile * kEach, inPairs};
        if constexpr (!kSplit)
          if (i < lying)
            of = {ofA.at(i, 0), ofA.at(i + kSide, 0), gemm.lda, kPair};
        multiplySquare(of, packed, row + i, column + j, aheadOf(ofB, packed, rows, i, j));
      }
    }
  }

  /// While the square at (i, j) of a part is multiplied: those of the same columns share columns of B, which the first
  /// rows are to pack next, or which are packed already.
  MT_TILES_INLINE Ahead<T> aheadOf(const PanelOf<T> &ofB, const Bf16 *packed, int64_t rows, int64_t i,
                                   int64_t j) const {
    Ahead<T> ahead = {};
    const int64_t next = j + (b.shared ? kPair : together);
    if (row == top && next < ofB.across) {
      const int64_t squares = ceilDivide(rows, kPair), line = i / kPair * kPair / squares;
      ahead.linesOfB = (i / kPair + 1) * kPair / squares - line;
      if (b.shared) {
        if constexpr (!kSplit)
          ahead.b = packed + (tiles * kPair + line) * kPair, ahead.lineOfB = kPair, ahead.stepOfB = 2 * kTile;
      } else {
        ahead.b = ofB.depthByDepth ? ofB.at(next, line) : ofB.at(next + line, 0);
        ahead.lineOfB = ofB.line, ahead.stepOfB = ofB.depthByDepth ? kPair * ofB.line : kPair;
      }
    }
    if (kSplit || inPlace || begin + depth >= gemm.k) {
      const auto size = static_cast<int64_t>(byteSize(result.type));
      const int64_t place = ((row + i) * gemm.ldc + column + j) * size;
      ahead.c = static_cast<std::byte *>(result.c) + place;
      ahead.addend = result.addend ? static_cast<const std::byte *>(result.addend) + place : nullptr;
      ahead.lineOfC = gemm.ldc * size, ahead.bytesOfC = kPair * size;
    }
    return ahead;
  }

  /// 32 x 32 of C, or as many as there are.
  MT_TILES_INLINE void multiplySquare(const Rows &of, const Bf16 *packed, int64_t m, int64_t n, const Ahead<T> &ahead) {
    const int64_t rows = std::min(kPair, gemm.m - m), columns = std::min(kPair, gemm.n - n);
    const bool isEdge = rows < kPair || columns < kPair, continues = !kSplit && (begin > 0 || (inPlace && result.adds));
    const bool isFinished = kSplit || (begin + depth >= gemm.k && (!inPlace || result.bias || result.addend));
    float *home = inPlace ? static_cast<float *>(result.c) + m * gemm.ldc + n : sums + m * wide + n - column;
    float *square = squares[current];
    int64_t line = inPlace ? gemm.ldc : wide;
    if (inPlace && isEdge) { // tiles would reach beyond C
      std::fill_n(square, continues ? kPair * kPair : 0, 0.0F);
      for (int64_t i = 0; continues && i < rows; ++i)
        std::copy_n(home + i * line, columns, square + i * kPair);
      home = square, line = kPair;
    }
    float *to = isFinished ? square : home;
    const float *from = continues ? home : nullptr;
    const int64_t toLine = isFinished ? kPair : line;
    const Bf16 *behind = packed + kSide * tiles * kPair * kEach;
    const int64_t share = kSplit ? 2 * ceilDivide(kSide, tiles) : 2; // rows
    const auto meanwhile = [&](int64_t tile) MT_VECTORS __attribute__((always_inline)) {
      ahead(tile);
      unfinished.finishSome(share, gemm.ldc);
    };
    if constexpr (kSplit)
      multiplySplitTiles(of, packed, behind, tiles, to, meanwhile);
    else if (onTiles)
      multiplyTiles<true>(of, packed, behind, tiles, from, line, to, toLine, meanwhile);
    else
      multiplyVectors(of, packed, behind, tiles, from, line, to, toLine, ahead);
    if (isFinished) {
      unfinished.finishSome(kPair, gemm.ldc); // what few tiles have left
      unfinished = {square, kSplit && begin > 0 ? &further : &whole, rows, columns, n, m * gemm.ldc + n};
      current = 1 - current;
      if (!onTiles)
        unfinished.finishSome(kPair, gemm.ldc);
    } else if (to == square) {
      finish(square, 0, rows, columns, {.c = result.c}, n, m * gemm.ldc + n, gemm.ldc);
    }
  }
};

} // namespace

MT_VECTORS static void packChunk(const Panel &panel, int64_t across, bool inPairs, Bf16 *to) {
  pack(panel, across, across + kPair, inPairs, to);
}

SharedSide::SharedSide(int64_t across, Chunks depth, bool inPairs, bool cKeepsSums, Bf16 *to)
    : across(across), depth(depth), deep(Parts::of(bf16Units(), cKeepsSums).depth(depth.end(0))), inPairs(inPairs),
      to(to) {}

int64_t SharedSide::chunks() const { return depth.count * steps() * ceilDivide(across, kPair); }

void SharedSide::pack(int64_t chunk, const Bf16 *data, int64_t line, bool depthByDepth) const {
  const int64_t strips = ceilDivide(across, kPair), row = chunk % strips * kPair, part = chunk / strips / steps(),
                begin = depth.begin(part) + chunk / strips % steps() * deep,
                size = std::min(deep, depth.end(part) - begin);
  if (size <= 0)
    return; // the last part may be shorter
  const Panel panel{data + (depthByDepth ? begin * line : begin), line, depthByDepth, across, size};
  packChunk(panel, row, inPairs, to + begin * padded(across) + row * padded(size));
}

bool liesForUnits(const Gemm &gemm, Units units) {
  constexpr int64_t kSets = 8192;
  if (units == Units::splitTiles)
    return false;
  const int64_t bytes = gemm.lda * static_cast<int64_t>(sizeof(Bf16));
  return !gemm.transposeA && gemm.k % kPair == 0 && (units != Units::tiles || (bytes % kLine == 0 && bytes % kSets != 0));
}

uint64_t unitScratch(Units units, int64_t m, int64_t n, int64_t k, bool cKeepsSums) {
  const Parts parts = Parts::of(units, cKeepsSums);
  return units == Units::splitTiles ? Multiplication<float>::scratch(parts, m, n, k, cKeepsSums)
                                    : Multiplication<Bf16>::scratch(parts, m, n, k, cKeepsSums);
}

void multiplyByUnits(const Gemm &gemm, const Bf16Side &a, const Bf16Side &b, const Bf16Result &result, int64_t depth,
                     std::byte *scratch) {
  Multiplication<Bf16>(gemm, a, b, result, depth, scratch)();
}

void multiplyByUnits(const Gemm &gemm, const float *a, const float *b, const Bf16Result &result, int64_t depth,
                     std::byte *scratch) {
  Multiplication<float>(gemm, a, b, result, depth, scratch)();
}

} // namespace mt::kernels::cpu

#else

namespace mt::kernels::cpu {

SharedSide::SharedSide(int64_t across, Chunks depth, bool inPairs, bool, Bf16 *to)
    : across(across), depth(depth), deep(kPanel), inPairs(inPairs), to(to) {}
int64_t SharedSide::chunks() const { return 0; }
void SharedSide::pack(int64_t, const Bf16 *, int64_t, bool) const {}
bool liesForUnits(const Gemm &, Units) { return false; }
uint64_t unitScratch(Units, int64_t, int64_t, int64_t, bool) { return 0; }
void multiplyByUnits(const Gemm &, const Bf16Side &, const Bf16Side &, const Bf16Result &, int64_t, std::byte *) {}
void multiplyByUnits(const Gemm &, const float *, const float *, const Bf16Result &, int64_t, std::byte *) {}

} // namespace mt::kernels::cpu
#endif
