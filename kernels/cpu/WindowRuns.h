// What windows see of an image, place by place: runs of results side by side. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_WINDOWRUNS_H
#define MT_KERNELS_CPU_WINDOWRUNS_H

#include "kernels/Blocks.h"
#include "kernels/Windows.h"

#include <algorithm>

namespace mt::kernels::cpu {

/// A place of a window, counted in row-major order, in each dimension.
struct Place {
  int64_t at[Windows::kDims];
  Place(const Windows &w, int64_t place)
      : at{place / (w.size[1] * w.size[2]), place / w.size[2] % w.size[1], place % w.size[2]} {}
  /// Where the window of result 0 has this place in dimension `d` of the image.
  int64_t offset(const Windows &w, int d) const { return at[d] * w.dilation[d] - w.low[d]; }
};

/// Calls visit(result, element, count) for runs of results of [begin, end) whose place lies in the image: `count`
/// results side by side, whose elements are stride[2] apart.
template <typename Visit> void eachRun(const Windows &w, const Place &place, int64_t begin, int64_t end, Visit visit) {
  int64_t width = w.result[2], step = w.stride[2], shift = place.offset(w, 2);
  int64_t low = std::max<int64_t>(0, ceilDivide(std::max<int64_t>(0, -shift), step));
  int64_t high = w.image[2] - shift <= 0 ? 0 : std::min(width, ceilDivide(w.image[2] - shift, step));
  int64_t x = begin % width, row = begin / width % w.result[1], plane = begin / width / w.result[1];
  for (int64_t at = begin; at < end; x = 0) {
    const int64_t run = std::min(width - x, end - at);
    const int64_t i = plane * w.stride[0] + place.offset(w, 0), j = row * w.stride[1] + place.offset(w, 1);
    const int64_t first = std::max(x, low), last = std::min(x + run, high);
    if (i >= 0 && i < w.image[0] && j >= 0 && j < w.image[1] && first < last)
      visit(at + first - x, (i * w.image[1] + j) * w.image[2] + first * step + shift, last - first);
    at += run;
    if (++row == w.result[1])
      row = 0, ++plane;
  }
}

} // namespace mt::kernels::cpu
#endif
