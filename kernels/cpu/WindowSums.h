// Sums of products of planes with taps of a window, in vectors along rows. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_WINDOWSUMS_H
#define MT_KERNELS_CPU_WINDOWSUMS_H

#include <cstdint>
#include <span>

namespace mt::kernels::cpu {

/// Where taps of a window read for the first result: elements of `planes`; those of the next row are `line` further on.
struct WindowTaps {
  const float *planes;
  std::span<const int64_t> offsets;
  int64_t line;
};
/// Of the widest vector. So many floats behind rows may be read, though nothing depends on them: those behind all
/// planes have to be there.
constexpr int64_t kWindowLanes = 16;

/// out[row, x] = start + sum over taps of weights[tap] * plane[tap, row, x], in the order of the taps; [rows, width].
void windowSums(const WindowTaps &taps, const float *weights, float start, int64_t rows, int64_t width, float *out);

/// sums[tap, x % lanes] += factors[row, x] * plane[tap, row, x] over rows and x; sums [taps, kWindowLanes] of vectors
/// of so many lanes or fewer. factors [rows, width], where width is a multiple of kWindowLanes: what is too much of a
/// row is zero, and finite in the planes.
void windowDots(const WindowTaps &taps, const float *factors, int64_t rows, int64_t width, float *sums);

/// out[i] = from[i * step].
void everyOf(const float *from, int64_t step, int64_t count, float *out);

} // namespace mt::kernels::cpu
#endif
