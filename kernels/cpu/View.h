// A read operand seen in the row-major order of a result: dims with strides, adjacent dims merged. Reads any run of
// elements by linear index. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_VIEW_H
#define MT_KERNELS_CPU_VIEW_H

#include "kernels/cpu/Elements.h"

namespace mt::kernels::cpu {

class View {
public:
  View() = default;
  /// Strides in elements, 0 where a dimension repeats; `offset` is that of the first element.
  View(Dims dims, Dims strides, int64_t offset = 0);
  /// `operand` broadcast to `result` as NumPy does; they must agree.
  static View broadcast(const Dims &operand, const Dims &result);

  bool contiguous() const { return sizes.size() <= 1 && (sizes.empty() || steps[0] == 1); }
  int64_t first() const { return start; }
  /// Elements of a run: those behind each other lie `step()` apart.
  int64_t inner() const { return sizes.empty() ? 1 : sizes.back(); }
  int64_t step() const { return steps.empty() ? 0 : steps.back(); }
  /// Whether every run is the same one.
  bool repeatsOneRun() const { return sizes.empty() || (sizes.size() == 1 && steps[0] == 0) || (sizes.size() == 2 && steps[0] == 0); }
  /// Where an element lies.
  int64_t offset(int64_t at) const { return sizes.empty() ? start : start + rowOffset(at / inner()) + at % inner() * step(); }

  /// out[i] = element (begin + i) for i < count.
  template <typename C> void read(LoadRow<C> load, const void *base, int64_t begin, int64_t count, C *out) const {
    if (contiguous())
      return load(base, start + begin, 1, count, out);
    int64_t inner = sizes.back();
    int64_t done = 0;
    while (done < count) {
      int64_t at = begin + done, column = at % inner;
      int64_t run = std::min(inner - column, count - done);
      load(base, start + rowOffset(at / inner) + column * steps.back(), steps.back(), run, out + done);
      done += run;
    }
  }

private:
  Dims sizes, steps;
  int64_t start = 0;

  int64_t rowOffset(int64_t row) const {
    int64_t offset = 0;
    for (size_t i = sizes.size() - 1; i-- > 0;) {
      offset += row % sizes[i] * steps[i];
      row /= sizes[i];
    }
    return offset;
  }
};

/// Strides of a row-major tensor.
Dims rowMajor(const Dims &dims);

} // namespace mt::kernels::cpu
#endif
