// Products of bf16 matrices on the processor's units for them, on the calling thread alone: rows and columns are laid out
// as the units take them on the way, a cache's worth at a time, whatever way they are stored. Private to kernels/cpu.
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

/// A side of a product, and how its stored rows lie.
struct Bf16Side {
  const Bf16 *data;
  Pieces pieces;
  int64_t begins; ///< the element of stored rows at which it does

  Bf16Side(const Bf16 *data, Pieces pieces = {}, int64_t begins = 0) : data(data), pieces(pieces), begins(begins) {}
};

/// Each element of C is summed in f32 in the order of k, by pairs, whatever m and n are; subnormal numbers count as zero,
/// as the units have it. Only where hasBf16Units(). `scratch`: bf16Scratch() bytes, aligned to 64.
void multiplyByUnits(const Gemm &gemm, const Bf16Side &a, const Bf16Side &b, const Bf16Result &result,
                     std::byte *scratch);
/// Does for every product of no more rows, columns and depth.
uint64_t bf16Scratch(int64_t m, int64_t n, int64_t k, bool cKeepsSums);

} // namespace mt::kernels::cpu
#endif
