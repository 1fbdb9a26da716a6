#include "kernels/cpu/Bf16Columns.h"

#if defined(__x86_64__)
#include "kernels/cpu/Bf16Units-inl.h"

namespace mt::kernels::cpu {
namespace {

/// 16 bits, each at twice its place.
uint32_t apart(uint32_t bits) {
  bits &= 0xffff;
  bits = (bits | bits << 8) & 0x00ff00ff;
  bits = (bits | bits << 4) & 0x0f0f0f0f;
  bits = (bits | bits << 2) & 0x33333333;
  return (bits | bits << 1) & 0x55555555;
}

/// Which of 32 words are read; of those two apart, also where in memory.
struct Mask {
  __mmask32 words, front, back;

  explicit Mask(uint32_t words = 0) : words(words), front(apart(words)), back(apart(words >> 16)) {}
};

/// Words of a mask, `kStep` apart, 0 for any; zeros in place of others.
template <int kStep> MT_VECTORS_INLINE __m512i loadApart(const Bf16 *from, int64_t step, const Mask &mask) {
  if constexpr (kStep == 1) {
    return _mm512_maskz_loadu_epi16(mask.words, from);
  } else if constexpr (kStep == 2) {
    alignas(64) static constexpr uint16_t kEven[kPair] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                                          22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42,
                                                          44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    const __m512i front = _mm512_maskz_loadu_epi16(mask.front, from),
                  back = _mm512_maskz_loadu_epi16(mask.back, from + kPair);
    return _mm512_permutex2var_epi16(front, _mm512_load_si512(kEven), back);
  } else {
    alignas(64) Bf16 words[kPair] = {};
    for (int64_t i = 0; i < kPair; ++i)
      if (mask.words >> i & 1)
        words[i] = from[i * step];
    return _mm512_load_si512(words);
  }
}

/// Lines of an image, of which results side by side see elements `step` apart.
template <int kStep> class Lines {
public:
  Lines(const Windows &w, const Place &place, const Bf16 *image)
      : w(w), place(place), image(image), width(w.result[2]), step(w.stride[2]), shift(place.offset(w, 2)),
        low(ceilDivide(std::max<int64_t>(0, -shift), step)),
        high(w.image[2] <= shift ? 0 : ceilDivide(w.image[2] - shift, step)) {
    for (int64_t part = 0; part < std::min(kMasks, ceilDivide(width, kPair)); ++part)
      masks[part] = maskAt(part * kPair);
  }

  MT_VECTORS void bring(int64_t begin, int64_t end, Bf16 *to) const {
    int64_t x = begin % width, row = begin / width % w.result[1], plane = begin / width / w.result[1];
    for (int64_t left = end - begin; left > 0;) {
      const int64_t i = plane * w.stride[0] + place.offset(w, 0);
      const Bf16 *slice = i >= 0 && i < w.image[0] ? image + i * w.image[1] * w.image[2] + shift : nullptr;
      const bool isWhole = x == 0 && left >= width && width <= kMasks * kPair;
      const int64_t lines = isWhole ? std::min(left / width, w.result[1] - row) : 1,
                    run = isWhole ? lines * width : std::min(width - x, left);
      isWhole ? bringWhole(slice, row, lines, to) : bringPart(slice, row, x, run, to);
      to += run, left -= run;
      const bool ends = isWhole || x + run == width;
      row += ends ? lines : 0;
      x = ends ? 0 : x + run;
      if (row == w.result[1])
        row = 0, ++plane;
    }
  }

private:
  static constexpr int64_t kMasks = 8;
  const Windows &w;
  const Place &place;
  const Bf16 *image;
  const int64_t width, step, shift;
  const int64_t low, high; ///< results of a line that see one of the image are from, and before
  Mask masks[kMasks];      ///< of those, of each 32

  Mask maskAt(int64_t x) const { return Mask(first(high - x) & ~first(low - x)); }

  /// `slice`: where the line before the first would be seen from result 0 on; null: outside.
  MT_VECTORS_INLINE const Bf16 *lineOf(const Bf16 *slice, int64_t row) const {
    const int64_t j = row * w.stride[1] + place.offset(w, 1);
    return slice && j >= 0 && j < w.image[1] ? slice + j * w.image[2] : nullptr;
  }

  MT_VECTORS_INLINE void bringPart(const Bf16 *slice, int64_t row, int64_t x, int64_t run, Bf16 *to) const {
    const Bf16 *line = lineOf(slice, row);
    for (int64_t part = 0; part < run; part += kPair)
      _mm512_storeu_si512(to + part, line ? loadApart<kStep>(line + (x + part) * step, step, maskAt(x + part))
                                          : _mm512_setzero_si512());
  }

  MT_VECTORS_INLINE void bringWhole(const Bf16 *slice, int64_t row, int64_t rows, Bf16 *to) const {
    const int64_t down = w.stride[1], tall = w.image[1], line = w.image[2], offset = place.offset(w, 1);
    const int64_t begin = std::clamp(ceilDivide(std::max<int64_t>(0, -offset), down), row, row + rows),
                  end = std::clamp(tall <= offset ? 0 : ceilDivide(tall - offset, down), begin, row + rows);
    clear(to, slice ? (begin - row) * width : rows * width);
    if (!slice)
      return;
    const Bf16 *from = slice + (begin * down + offset) * line;
    Bf16 *out = to + (begin - row) * width;
    if (const Mask mask = masks[0]; width <= kPair)
      for (int64_t r = begin; r < end; ++r, from += down * line, out += width)
        _mm512_storeu_si512(out, loadApart<kStep>(from, step, mask));
    else
      for (int64_t r = begin; r < end; ++r, from += down * line, out += width)
        for (int64_t part = 0; part * kPair < width; ++part)
          _mm512_storeu_si512(out + part * kPair, loadApart<kStep>(from + part * kPair * step, step, masks[part]));
    clear(out, (row + rows - end) * width);
  }

  MT_VECTORS_INLINE static void clear(Bf16 *to, int64_t count) {
    for (int64_t i = 0; i < count; i += kPair)
      _mm512_storeu_si512(to + i, _mm512_setzero_si512());
  }
};

} // namespace

void bringPlace(const Windows &windows, const Place &place, const Bf16 *image, int64_t begin, int64_t end, Bf16 *to) {
  const int64_t step = windows.stride[2];
  step == 1   ? Lines<1>(windows, place, image).bring(begin, end, to)
  : step == 2 ? Lines<2>(windows, place, image).bring(begin, end, to)
              : Lines<0>(windows, place, image).bring(begin, end, to);
}

} // namespace mt::kernels::cpu

#else

namespace mt::kernels::cpu {

void bringPlace(const Windows &, const Place &, const Bf16 *, int64_t, int64_t, Bf16 *) {}

} // namespace mt::kernels::cpu
#endif
