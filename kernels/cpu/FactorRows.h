// Operands as what multiplies, T: floats, or bf16 on the processor's units for it, which takes operands as they are
// stored. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_FACTORROWS_H
#define MT_KERNELS_CPU_FACTORROWS_H

#include "kernels/Blocks.h"
#include "kernels/cpu/Bf16Product.h"
#include "kernels/cpu/FloatRows.h"

#include <algorithm>
#include <cstring>

namespace mt::kernels::cpu {

/// Whether both factors of a call, its first operands, are multiplied by such units.
inline bool takesUnits(const Signature &call) {
  return hasBf16Units() && call.operands[0].type == DType::bf16 && call.operands[1].type == DType::bf16;
}

/// Whether an operand is stored as what multiplies.
template <typename T> bool isFactor(const RowIn &operand) { return std::is_same_v<T, Bf16> || operand.native; }

/// Copies elements, of which there may be so few that a call would take longer.
template <typename T> void copyFew(const T *from, int64_t count, T *to) {
  constexpr int64_t kAtOnce = 16 / sizeof(T), kMany = 8 * kAtOnce;
  if (count < kAtOnce || count > kMany) {
    std::copy_n(from, count, to);
    return;
  }
  for (int64_t i = 0; i < count - kAtOnce; i += kAtOnce)
    std::memcpy(to + i, from + i, 16);
  std::memcpy(to + count - kAtOnce, from + count - kAtOnce, 16);
}

/// Every second of elements, in pairs, which are read at once.
inline void copyHalf(const Bf16 *from, int64_t count, Bf16 *to) {
  for (int64_t i = 0; i < count - 1; ++i) {
    uint32_t pair; // the first one below
    std::memcpy(&pair, from + 2 * i, sizeof pair);
    to[i].bits = static_cast<uint16_t>(pair);
  }
  if (count > 0)
    to[count - 1] = from[2 * (count - 1)];
}

/// Elements `step` apart, one after another in `out`.
template <typename T>
void bringFactor(const Launch &launch, const RowIn &operand, int64_t at, int64_t step, int64_t count, T *out) {
  if (isFactor<T>(operand) && step == 1)
    copyFew(launch.at<const T>(operand.operand) + at, count, out);
  else if constexpr (std::is_same_v<T, float>)
    operand.load(launch.operands[operand.operand], at, step, count, out);
  else if (step == 2)
    copyHalf(launch.at<const T>(operand.operand) + at, count, out);
  else
    for (int64_t i = 0; i < count; ++i)
      out[i] = launch.at<const T>(operand.operand)[at + i * step];
}

/// Floats of scratch for so many of T, so that what lies behind them is aligned.
template <typename T> int64_t factorFloats(int64_t elements) {
  return ceilDivide(elements * static_cast<int64_t>(sizeof(T)), int64_t{64}) * 16;
}

/// A matrix: the distance of its stored rows, and, of bf16 on units, how those lie.
template <typename T> struct Factor {
  const T *data;
  int64_t line;
  Pieces pieces = {};
};

/// The largest product of a call on one thread, and what it takes of the thread's scratch: first what it is packed in.
template <typename T> struct FactorProduct {
  int64_t m, n, k;

  int64_t packing() const { // floats
    return std::is_same_v<T, Bf16>
               ? factorFloats<std::byte>(static_cast<int64_t>(unitScratch(bf16Units(), m, n, k, true)))
               : 0;
  }
  /// With so many floats behind it.
  Scratch scratch(int64_t floats) const {
    return {.own = sizeof(float) * static_cast<uint64_t>(packing() + floats),
            .library = std::is_same_v<T, Bf16> ? 0 : libraryScratch(m, n, k)};
  }
  /// The thread's scratch behind it.
  float *behind(int64_t floats) const { return ThreadPool::scratchOf<float>(packing() + floats) + packing(); }

  /// C = op(A) op(B), or += it; the sides say their lines. `behind`: what behind() gave.
  void multiply(Gemm gemm, const Factor<T> &a, const Factor<T> &b, bool adds, float *c, float *behind) const {
    gemm.lda = a.line, gemm.ldb = b.line;
    if constexpr (std::is_same_v<T, Bf16>)
      multiplyByUnits(gemm, {a.data, a.pieces}, {b.data, b.pieces}, {.c = c, .adds = adds}, gemm.k,
                      reinterpret_cast<std::byte *>(behind - packing()));
    else
      cpu::multiply(gemm, 1, a.data, b.data, adds ? 1 : 0, c);
  }
};

} // namespace mt::kernels::cpu
#endif
