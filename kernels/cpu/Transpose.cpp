// transpose where the elements of a result's row lie apart in the operand: tiles, whose rows and columns both stay in the
// first cache. Elements are moved by their size.
#include "kernels/Blocks.h"
#include "kernels/cpu/Family.h"
#include "kernels/cpu/TransposeTile.h"
#include "kernels/cpu/View.h"

#include <algorithm>

namespace mt::kernels::cpu {
namespace {

/// A dimension of the result: its size, and how far its elements are apart in the operand and in the result.
struct Axis {
  int64_t size, from, to;
};

/// The result's dimensions, adjacent ones that are one in the operand too merged.
std::vector<Axis> axesOf(const Signature &call) {
  const Dims &dims = call.operands[0].dims, strides = rowMajor(dims);
  std::vector<Axis> axes;
  for (int64_t from : call.integers("permutation")) {
    const int64_t size = dims[static_cast<size_t>(from)], stride = strides[static_cast<size_t>(from)];
    if (size == 1)
      continue;
    if (!axes.empty() && axes.back().from == stride * size)
      axes.back() = {axes.back().size * size, stride, 0};
    else
      axes.push_back({size, stride, 0});
  }
  int64_t step = 1;
  for (size_t i = axes.size(); i-- > 0; step *= axes[i].size)
    axes[i].to = step;
  return axes;
}

template <typename E> struct Transpose {
  Axis across, down;       ///< the last of the result, and the one whose elements are side by side in the operand
  std::vector<Axis> outer; ///< the others

  Status operator()(const Launch &launch) const {
    const int64_t rows = ceilDivide(down.size, kTile);
    int64_t count = rows;
    for (const Axis &axis : outer)
      count *= axis.size;
    launch.pool.parallelFor(count, [&](int64_t part) {
      int64_t rest = part / rows, from = 0, to = 0;
      for (size_t i = outer.size(); i-- > 0; rest /= outer[i].size) {
        from += rest % outer[i].size * outer[i].from;
        to += rest % outer[i].size * outer[i].to;
      }
      const int64_t first = part % rows * kTile, tall = std::min(kTile, down.size - first);
      for (int64_t begin = 0; begin < across.size; begin += kTile)
        transposeTile(launch.at<const E>(0) + from + first + begin * across.from, across.from, tall,
                      std::min(kTile, across.size - begin), launch.at<E>(1) + to + first * down.to + begin, down.to);
    });
    return {};
  }
};

template <typename E> Run tiled(std::vector<Axis> axes, const Run &otherwise) {
  const auto down = std::ranges::find(axes, int64_t{1}, &Axis::from);
  Transpose<E> made{axes.back(), *down, {}};
  axes.pop_back();
  std::erase_if(axes, [](const Axis &axis) { return axis.from == 1; });
  made.outer = std::move(axes);
  return Run([made = std::move(made), otherwise](const Launch &launch) { return launch.accumulates(1) ? otherwise(launch) : made(launch); });
}

} // namespace

Run byTiles(const Signature &call, const Run &otherwise) {
  std::vector<Axis> axes = axesOf(call);
  if (axes.size() < 2 || axes.back().from == 1)
    return otherwise;
  switch (byteSize(call.operands[0].type)) {
  case 1:
    return tiled<uint8_t>(std::move(axes), otherwise);
  case 2:
    return tiled<uint16_t>(std::move(axes), otherwise);
  case 4:
    return tiled<uint32_t>(std::move(axes), otherwise);
  default:
    return tiled<uint64_t>(std::move(axes), otherwise);
  }
}

} // namespace mt::kernels::cpu
