// Products of bf16 panels that a thread lays out once and multiplies often, out of its caches, on the processor's units
// for them: where hasBf16Units(). All extents are multiples of kPanel, and zeros fill what there is to one. Private to
// kernels/cpu.
#ifndef MT_KERNELS_CPU_BF16PANELS_H
#define MT_KERNELS_CPU_BF16PANELS_H

#include "kernels/Bf16.h"
#include "kernels/Blocks.h"
#include "kernels/cpu/Bf16Units.h"

#include <algorithm>

namespace mt::kernels::cpu {

constexpr int64_t kPanel = 32;
constexpr int64_t padded(int64_t count) { return ceilDivide(count, kPanel) * kPanel; }

/// Where the elements of a stored row lie: one after another, or those of each `size` are, from a multiple of `jump`
/// on, as places of one channel of some images.
struct Pieces {
  int64_t size = 0, jump = 0; ///< size 0: one after another
  int64_t first = 0;          ///< the element that is read as the first

  int64_t at(int64_t element) const {
    element += first;
    return size == 0 ? element : element / size * jump + element % size;
  }
  /// How many from there on, of so many, lie one after another.
  int64_t together(int64_t element, int64_t most) const {
    return size == 0 ? most : std::min(most, size - (first + element) % size);
  }
  Pieces from(int64_t element) const { return {size, jump, first + element}; }
};

/// Whether a left side is packed in pairs: for vectors, rows that are stored by depth need not be turned.
constexpr bool packsLeftInPairs(bool depthByDepth, Units units) { return depthByDepth && units == Units::vectors; }

/// What a side of a product is packed from: `across` rows of A, or columns of B, by `depth` of the summed dimension.
template <typename T> struct PanelOf {
  const T *data;
  int64_t line;      ///< from a stored row to the next
  bool depthByDepth; ///< whether rows are stored of equal depth
  int64_t across, depth;
  Pieces pieces = {}; ///< of stored rows

  const T *at(int64_t row, int64_t depthOf) const {
    return data + (depthByDepth ? depthOf : row) * line + pieces.at(depthByDepth ? row : depthOf);
  }
};
using Panel = PanelOf<Bf16>;

/// A side in strips of 16 rows of A, or columns of B: of each, 32 of the depth after another.
struct Packed {
  Bf16 *data;
  int64_t depth; ///< that it is laid out for
  bool inPairs;  ///< words are of two of the depth, 16 across one after another; else rows of the strip are

  static constexpr int64_t kStrip = 16;
  static constexpr int64_t elements(int64_t across, int64_t depth) { return padded(across) * padded(depth); }
  /// From there on: multiples of 16 and of kPanel.
  Packed at(int64_t across, int64_t begin) const { return {data + across * depth + begin * kStrip, depth, inPairs}; }
};

/// Rows of A, `line` elements apart.
struct LeftRows {
  const Bf16 *data;
  int64_t line;
  LeftRows at(int64_t row) const { return {data + row * line, line}; }
};

/// The units, while a thread multiplies: tiles are set up for it. One at a time.
class PanelUnits {
public:
  PanelUnits();
  ~PanelUnits();
  PanelUnits(const PanelUnits &) = delete;
  PanelUnits &operator=(const PanelUnits &) = delete;

  /// `to`, aligned to 64: Packed::elements(panel.across, panel.depth).
  Packed packLeft(const Panel &panel, Bf16 *to) const;
  Packed packRight(const Panel &panel, Bf16 *to) const;

  /// C [rows, columns] = A B, or += it, in f32, rows `line` apart.
  void multiply(int64_t rows, int64_t columns, int64_t depth, LeftRows a, Packed b, bool adds, float *c, int64_t line) const;
  void multiply(int64_t rows, int64_t columns, int64_t depth, Packed a, Packed b, bool adds, float *c, int64_t line) const;

private:
  const Units units = bf16Units();
};

/// Rows of bf16 and zeros: [padded(rows), padded(columns)], from rows `line` apart.
LeftRows copyRows(const Bf16 *from, int64_t line, int64_t rows, int64_t columns, Bf16 *to);

/// kPanel rows of f32, `line` apart, rounded to nearest (subnormal numbers to zero): to rows `toLine` apart, which may be in
/// place.
void roundRows(const float *from, int64_t line, int64_t columns, Bf16 *to, int64_t toLine);
/// The same as the right side of a product, whose summed dimension they are from `begin` on; and zeros in such a place.
void pairRows(const float *from, int64_t line, int64_t columns, Packed pairs, int64_t begin);
void clearPairs(Packed pairs, int64_t begin, int64_t column, int64_t columns);

/// to[column][row] += scale * from[row][column], of rows `line` and `toLine` apart.
void addTurned(const float *from, int64_t line, int64_t rows, int64_t columns, float scale, float *to, int64_t toLine);

} // namespace mt::kernels::cpu
#endif
