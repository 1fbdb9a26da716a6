// A read operand seen in the row-major order of a result: dims with strides, adjacent dims merged. Reads any run of
// elements by linear index. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_VIEW_H
#define MT_KERNELS_CPU_VIEW_H

#include "kernels/Blocks.h"
#include "kernels/cpu/Elements.h"

#include <algorithm>

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
    const int64_t inner = sizes.back(), step = steps.back();
    C each[kTogether]; // what is repeated
    Row row(*this, begin / inner);
    int64_t column = begin % inner;
    for (int64_t done = 0; done < count;) {
      const int64_t rows = step == 0 ? std::min({kTogether, row.left(), ceilDivide(column + count - done, inner)}) : 1;
      if (step == 0)
        load(base, start + row.offset, row.step(), rows, each);
      for (int64_t i = 0; i < rows; ++i, column = 0) {
        const int64_t run = std::min(inner - column, count - done);
        if (step == 0)
          std::fill_n(out + done, run, each[i]);
        else
          load(base, start + row.offset + column * step, step, run, out + done);
        done += run;
      }
      row.advance(rows);
    }
  }

private:
  static constexpr int64_t kTogether = 64; ///< rows
  Dims sizes, steps;
  int64_t start = 0;

  /// A run of the last dimension, and how many follow it, `step` apart, before another dimension changes.
  struct Row {
    const View &view;
    int64_t number, within, offset;
    Row(const View &view, int64_t number)
        : view(view), number(number), within(view.sizes.size() < 2 ? 0 : number % size()),
          offset(view.rowOffset(number)) {}
    int64_t size() const { return view.sizes.size() < 2 ? 1 : view.sizes[view.sizes.size() - 2]; }
    int64_t step() const { return view.sizes.size() < 2 ? 0 : view.steps[view.sizes.size() - 2]; }
    int64_t left() const { return size() - within; }
    void advance(int64_t rows) {
      number += rows, within += rows, offset += rows * step();
      if (within == size())
        within = 0, offset = view.rowOffset(number);
    }
  };

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
