// transpose where the elements of a result's row lie apart in the operand: tiles, whose rows and columns both stay in
// the first cache. Elements are moved by their size, as are a few that stay side by side. Where a dimension is small,
// as in patches of pictures, several are the rows of tiles, or their columns.
#include "kernels/Blocks.h"
#include "kernels/cpu/Family.h"
#include "kernels/cpu/TransposeTile.h"
#include "kernels/cpu/View.h"

#include <algorithm>
#include <utility>

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

using Axes = std::vector<Axis>;

/// Where elements of axes are that follow one another elsewhere.
class Places {
public:
  Places(const Axes &axes, int64_t Axis::*step) : last(axes[0].*step) {
    for (size_t i = 1; i < axes.size(); ++i) { // fewer than a tile has
      const std::vector<int64_t> before = std::exchange(first, {});
      for (int64_t place : before)
        for (int64_t j = 0; j < axes[i].size; ++j)
          first.push_back(place + j * axes[i].*step);
    }
    count = axes[0].size * static_cast<int64_t>(first.size());
  }
  int64_t size() const { return count; }
  int64_t operator[](int64_t i) const {
    const auto each = static_cast<int64_t>(first.size());
    return first[static_cast<size_t>(i % each)] + i / each * last;
  }

private:
  int64_t last, count;
  std::vector<int64_t> first = {0};
};

/// Which axes tiles have: the last of the result, side by side there, and others that are side by side in the operand,
/// of either, the outermost first, as many as make a tile.
struct TileAxes {
  Axes across, down, outer;

  explicit TileAxes(Axes axes) {
    const auto takeWhere = [&](int64_t Axis::*step, Axes &into) {
      int64_t size = 1;
      for (const Axis &axis : into)
        size *= axis.size;
      const auto found = std::ranges::find(axes, size, step);
      if (size >= kTile || found == axes.end())
        return false;
      into.insert(into.begin(), *found);
      axes.erase(found);
      return true;
    };
    takeWhere(&Axis::to, across), takeWhere(&Axis::from, down);
    while (takeWhere(&Axis::to, across) || takeWhere(&Axis::from, down)) {
    }
    outer = std::move(axes);
  }
};

template <typename E> struct Transpose {
  Places across, down; ///< where the operand has the elements of a row, and the result those of a column
  Axes outer;

  explicit Transpose(const TileAxes &axes)
      : across(axes.across, &Axis::from), down(axes.down, &Axis::to), outer(axes.outer) {}

  Status operator()(const Launch &launch) const {
    const int64_t tall = down.size(), rows = ceilDivide(tall, kTile);
    int64_t count = rows;
    for (const Axis &axis : outer)
      count *= axis.size;
    launch.pool.parallelFor(count, [&](int64_t part) {
      int64_t rest = part / rows, from = 0, to = 0;
      for (size_t i = outer.size(); i-- > 0; rest /= outer[i].size) {
        from += rest % outer[i].size * outer[i].from;
        to += rest % outer[i].size * outer[i].to;
      }
      const int64_t first = part % rows * kTile;
      turn(launch.at<const E>(0) + from + first, launch.at<E>(1) + to, first, std::min(kTile, tall - first));
    });
    return {};
  }

private:
  void turn(const E *from, E *to, int64_t first, int64_t tall) const {
    TileLines<const E> columns;
    TileLines<E> lines;
    for (int64_t begin = 0; begin < across.size(); begin += kTile) {
      const int64_t wide = std::min(kTile, across.size() - begin);
      for (int64_t j = 0; j < wide; ++j)
        columns[static_cast<size_t>(j)] = from + across[begin + j];
      for (int64_t i = 0; i < tall; ++i)
        lines[static_cast<size_t>(i)] = to + down[first + i] + begin;
      transposeTile(columns, tall, wide, lines);
    }
  }
};

/// What is moved as one but computed with as none.
struct Quad {
  uint64_t words[2];
};

template <typename E> Run tiled(Axes axes, const Run &otherwise) {
  return Run([made = Transpose<E>(TileAxes(std::move(axes))), otherwise](const Launch &launch) {
    return launch.accumulates(1) ? otherwise(launch) : made(launch);
  });
}

} // namespace

Run byTiles(const Signature &call, const Run &otherwise) {
  Axes axes = axesOf(call);
  auto bytes = static_cast<int64_t>(byteSize(call.operands[0].type));
  if (axes.size() >= 2 && axes.back().from == 1) { // a few that stay side by side are moved as one
    const int64_t together = axes.back().size;
    bytes *= together;
    axes.pop_back();
    for (Axis &axis : axes)
      axis.from /= together, axis.to /= together;
  }
  if (axes.size() < 2)
    return otherwise;
  switch (bytes) {
  case 1:
    return tiled<uint8_t>(std::move(axes), otherwise);
  case 2:
    return tiled<uint16_t>(std::move(axes), otherwise);
  case 4:
    return tiled<uint32_t>(std::move(axes), otherwise);
  case 8:
    return tiled<uint64_t>(std::move(axes), otherwise);
  case sizeof(Quad):
    return tiled<Quad>(std::move(axes), otherwise);
  default:
    return otherwise;
  }
}

} // namespace mt::kernels::cpu
