#include "kernels/cpu/WindowSums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/WindowSums.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mt::kernels::cpu {
namespace HWY_NAMESPACE {

/// A tile of Rows rows and Across vectors, whose sums stay in registers. Of the last vector `last` lanes are stored.
template <int Rows, int Across>
void sumTile(const WindowTaps &taps, int64_t offset, const float *weights, float start, int64_t width, int64_t last,
             float *out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[Rows][Across];
  for (int row = 0; row < Rows; ++row)
    for (int k = 0; k < Across; ++k)
      sums[row][k] = hn::Set(d, start);
  for (size_t tap = 0; tap < taps.offsets.size(); ++tap) {
    const float *from = taps.planes + taps.offsets[tap] + offset;
    const V weight = hn::Set(d, weights[tap]);
    for (int row = 0; row < Rows; ++row)
      for (int k = 0; k < Across; ++k)
        sums[row][k] = hn::MulAdd(weight, hn::LoadU(d, from + row * taps.line + k * lanes), sums[row][k]);
  }
  for (int row = 0; row < Rows; ++row, out += width) {
    for (int k = 0; k < Across - 1; ++k)
      hn::StoreU(sums[row][k], d, out + k * lanes);
    putRest(sums[row][Across - 1], last, out + (Across - 1) * lanes);
  }
}

/// Rows in tiles that become lower at the end, all of a row one after another.
template <int Rows, int Across>
void sumColumns(const WindowTaps &taps, int64_t row, int64_t rows, int64_t x, const float *weights, float start,
                int64_t width, int64_t last, float *out) {
  for (; row + Rows <= rows; row += Rows)
    sumTile<Rows, Across>(taps, row * taps.line + x, weights, start, width, last, out + row * width + x);
  if constexpr (Rows > 1)
    sumColumns<Rows / 2, Across>(taps, row, rows, x, weights, start, width, last, out);
}

void windowSums(const WindowTaps &taps, const float *weights, float start, int64_t rows, int64_t width, float *out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t x = 0; x < width;) {
    const int64_t left = width - x, across = left > 3 * lanes ? 4 : left > lanes ? 2 : 1;
    const int64_t columns = left < across * lanes ? left : across * lanes;
    const int64_t last = columns - (across - 1) * lanes;
    if (across == 4)
      sumColumns<2, 4>(taps, 0, rows, x, weights, start, width, last, out);
    else if (across == 2)
      sumColumns<4, 2>(taps, 0, rows, x, weights, start, width, last, out);
    else
      sumColumns<8, 1>(taps, 0, rows, x, weights, start, width, last, out);
    x += columns;
  }
}

template <int Taps>
void dotsOf(const WindowTaps &taps, size_t tap, const float *factors, int64_t rows, int64_t width, float *held) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[Taps];
  for (int k = 0; k < Taps; ++k)
    sums[k] = hn::LoadU(d, held + k * kWindowLanes);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t x = 0; x < width; x += lanes) {
      const V factor = hn::LoadU(d, factors + row * width + x);
      const float *from = taps.planes + row * taps.line + x;
      for (int k = 0; k < Taps; ++k)
        sums[k] = hn::MulAdd(factor, hn::LoadU(d, from + taps.offsets[tap + static_cast<size_t>(k)]), sums[k]);
    }
  for (int k = 0; k < Taps; ++k)
    hn::StoreU(sums[k], d, held + k * kWindowLanes);
}

void windowDots(const WindowTaps &taps, const float *factors, int64_t rows, int64_t width, float *sums) {
  size_t tap = 0;
  const size_t count = taps.offsets.size();
  for (; tap + 8 <= count; tap += 8)
    dotsOf<8>(taps, tap, factors, rows, width, sums + tap * kWindowLanes);
  for (; tap + 4 <= count; tap += 4)
    dotsOf<4>(taps, tap, factors, rows, width, sums + tap * kWindowLanes);
  for (; tap < count; ++tap)
    dotsOf<1>(taps, tap, factors, rows, width, sums + tap * kWindowLanes);
}

void everyOf(const float *from, int64_t step, int64_t count, float *out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (step == 1)
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(hn::LoadU(d, from + i), d, out + i);
  if (step == 2) // which reads one beyond the last
    for (; i + lanes < count; i += lanes) {
      V even, odd;
      hn::LoadInterleaved2(d, from + 2 * i, even, odd);
      hn::StoreU(even, d, out + i);
    }
  for (; i < count; ++i)
    out[i] = from[i * step];
}

} // namespace HWY_NAMESPACE
} // namespace mt::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mt::kernels::cpu {

HWY_EXPORT(windowSums);
HWY_EXPORT(windowDots);
HWY_EXPORT(everyOf);

void windowSums(const WindowTaps &taps, const float *weights, float start, int64_t rows, int64_t width, float *out) {
  HWY_DYNAMIC_DISPATCH(windowSums)(taps, weights, start, rows, width, out);
}
void windowDots(const WindowTaps &taps, const float *factors, int64_t rows, int64_t width, float *sums) {
  HWY_DYNAMIC_DISPATCH(windowDots)(taps, factors, rows, width, sums);
}
void everyOf(const float *from, int64_t step, int64_t count, float *out) {
  HWY_DYNAMIC_DISPATCH(everyOf)(from, step, count, out);
}

} // namespace mt::kernels::cpu
#endif
