// In which order the CPU reduces elements: what fixes the bits of sums. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_REDUCEORDER_H
#define MT_KERNELS_CPU_REDUCEORDER_H

#include "kernels/Blocks.h"
#include "kernels/Types.h"
#include "kernels/cpu/ThreadPool.h"
#include "kernels/cpu/Vector.h"
#include "kernels/cpu/View.h"

#include <algorithm>

namespace mt::kernels::cpu {

/// Dims and strides of a part of an operand.
struct Walk {
  Dims sizes, strides;
  int64_t elements() const { return OperandType{.dims = sizes}.elements(); }
  int64_t offset(int64_t index) const {
    int64_t offset = 0;
    for (size_t i = sizes.size(); i-- > 0; index /= sizes[i])
      offset += index % sizes[i] * strides[i];
    return offset;
  }
  /// Adds a dimension inside the others, merged with the last where the two are one.
  void add(int64_t size, int64_t stride) {
    if (!sizes.empty() && strides.back() == size * stride) {
      sizes.back() *= size;
      strides.back() = stride;
    } else {
      sizes.push_back(size);
      strides.push_back(stride);
    }
  }
};

/// Results that lie together in the operand (`inner` of them) are computed side by side, a row of the operand at a
/// time; where the last dimension is itself reduced, each result walks its own elements, into lanes. Where results are
/// few, parts of their elements are reduced apart and then combined in order.
struct ReduceOrder {
  static constexpr int64_t kLanes = vec::kFoldLanes;

  Walk kept, reduced;
  int64_t groups = 1, inner = 1, count = 1; ///< results = groups * inner, each of `count` elements
  int64_t run = 1;                          ///< elements that follow one another, of results side by side or of one
  Chunks parts = {1, 1};                    ///< of those

  static ReduceOrder of(const Dims &dims, const Dims &axes) {
    ReduceOrder order;
    const Dims strides = rowMajor(dims);
    for (size_t i = 0; i < dims.size(); ++i) {
      const bool isReduced = std::ranges::binary_search(axes, static_cast<int64_t>(i));
      (isReduced ? order.reduced : order.kept).add(dims[i], strides[i]);
    }
    const auto [results, inner, run] = Kept::of(dims, axes);
    order.groups = results / inner, order.inner = inner, order.count = order.reduced.elements(), order.run = run;
    order.parts = reduceParts(results, inner, order.count);
    return order;
  }

  int64_t results() const { return groups * inner; }
  /// Where in the operand the elements of results [first, ..) of a group begin.
  int64_t base(int64_t group, int64_t first) const { return kept.offset(group * inner) + first; }

  /// How many lanes so many elements are folded into.
  static int64_t lanesOf(int64_t elements) {
    int64_t used = kLanes;
    while (used / 2 >= elements)
      used /= 2;
    return used;
  }

  /// Calls body(offset, stride, many) for elements [begin, end) of a result: `many` of them, `stride` apart, from there
  /// on.
  template <typename Body> void eachRun(int64_t begin, int64_t end, const Body &body) const {
    const int64_t run = reduced.sizes.empty() ? 1 : reduced.sizes.back();
    const int64_t stride = reduced.sizes.empty() ? 1 : reduced.strides.back();
    for (int64_t step = begin, many; step < end; step += many) {
      many = std::min(run - step % run, end - step);
      body(reduced.offset(step), stride, many);
    }
  }

  /// Calls body(own, part, group, first, width) for all results of all parts, `columns` of them at most, over the pool;
  /// own: what start() gives, for some of the calls after one another.
  template <typename Start, typename Body>
  void each(ThreadPool &pool, int64_t columns, const Start &start, const Body &body) const {
    const int64_t blocks = ceilDivide(inner, columns), tasks = parts.count * groups * blocks;
    const int64_t together = std::max<int64_t>(1, 16384 / (parts.size * std::min(inner, columns)));
    pool.parallelFor(ceilDivide(tasks, together), [&](int64_t chunk) {
      auto own = start();
      for (int64_t task = chunk * together; task < std::min(tasks, (chunk + 1) * together); ++task) {
        const int64_t first = task % blocks * columns;
        body(own, task / blocks / groups, task / blocks % groups, first, std::min(columns, inner - first));
      }
    });
  }
};

} // namespace mt::kernels::cpu
#endif
