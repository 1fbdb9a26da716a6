// Products of bf16 matrices on the processor's units for them, and on tiles of f32 ones, each number as the sum of
// three of bf16, on the calling thread alone: rows and columns are laid out as the units take them, whatever way they
// are stored: on the way, a cache's worth at a time, or before, for several threads. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_BF16PRODUCT_H
#define MT_KERNELS_CPU_BF16PRODUCT_H

#include "kernels/Catalogue.h"
#include "kernels/cpu/Bf16Panels.h"
#include "kernels/cpu/Bf16Units.h"
#include "kernels/cpu/Gemm.h"

#include <cstddef>

namespace mt::kernels::cpu {

/// Whether A is read where it lies. On tiles if it also begins with a line of the cache: of whole lines, and not all in
/// few of the sets of a cache. What does not is packed for every few columns of C.
bool liesForUnits(const Gemm &gemm, Units units);

/// C = alpha * sums + bias + addend, and, if it adds, what C holds: rounded once.
struct Bf16Result {
  void *c;
  DType type = DType::f32; ///< f32 or bf16
  bool adds = false;
  float alpha = 1;
  const void *bias = nullptr; ///< a row of n, if any
  DType biasType = DType::f32;
  const void *addend = nullptr; ///< of C's type, lying as C does, if any

  bool keepsSums() const { return type == DType::f32 && alpha == 1; } ///< while they are not whole
};

/// A side of a product, rows of A or columns of B, that is laid out once for all blocks of it, before they are
/// multiplied: for each step of the depth all strips, one step after another.
class SharedSide {
public:
  /// `across` by `depth`, whose parts, at multiples of 32, are summed apart; `to`, aligned to 64: Packed::elements().
  SharedSide(int64_t across, Chunks depth, bool inPairs, bool cKeepsSums, Bf16 *to);

  /// Pieces that are laid out one by one, in any order.
  int64_t chunks() const;
  /// From stored rows `line` apart.
  void pack(int64_t chunk, const Bf16 *data, int64_t line, bool depthByDepth) const;

  /// The strips from there on, a multiple of 32, of the step that begins there and is so deep.
  const Bf16 *at(int64_t row, int64_t begin, int64_t size) const {
    return to + begin * padded(across) + row * padded(size);
  }

private:
  int64_t across;
  Chunks depth;
  int64_t deep; ///< a step, but the last of a part
  bool inPairs;
  Bf16 *to;

  int64_t steps() const { return ceilDivide(depth.size, deep); }
};

/// A side of a product, and how its stored rows lie; or where it begins in one that is shared.
template <typename T> struct UnitSide {
  const T *data = nullptr;
  Pieces pieces = {};
  const SharedSide *shared = nullptr;
  int64_t across = 0, depth = 0; ///< multiples of 32

  UnitSide(const T *data, Pieces pieces = {}) : data(data), pieces(pieces) {}
  UnitSide(const SharedSide &shared, int64_t across, int64_t depth) : shared(&shared), across(across), depth(depth) {}
};
using Bf16Side = UnitSide<Bf16>;

/// Each element of C is summed in f32 in the order of k, by pairs, whatever m and n are; subnormal numbers count as
/// zero, as the units have it. Only where hasBf16Units(). `depth`: of the deepest part that is summed apart, which
/// decides how deep the steps are of all. `scratch`: unitScratch() bytes of that depth, aligned to 64.
void multiplyByUnits(const Gemm &gemm, const Bf16Side &a, const Bf16Side &b, const Bf16Result &result, int64_t depth,
                     std::byte *scratch);
/// The same of f32, where tiles are: a number is the sum of three of bf16, and of the nine products of those of two
/// numbers six are summed; those left out are at most some 2^-24 of the whole (G. Henry, P. T. P. Tang, A. Heinecke:
/// Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations, arXiv 1904.06376). Sums
/// of some hundred of the depth are added, which errs less than one sum of all. What is not finite, or overflows, makes
/// NaN or infinity; a number below 2^-109 has fewer bits, one below 2^-126 none. C is f32.
void multiplyByUnits(const Gemm &gemm, const float *a, const float *b, const Bf16Result &result, int64_t depth,
                     std::byte *scratch);
/// Does for every product of no more rows, columns and depth on such units.
uint64_t unitScratch(Units units, int64_t m, int64_t n, int64_t k, bool cKeepsSums);

} // namespace mt::kernels::cpu
#endif
