// Products of row-major matrices that may be bf16, summed in f32. Panels are widened to f32, which loses nothing, and
// go through the f32 product on the same fixed blocks. Where all are f32 this is multiplyOver of Gemm.h itself.
#ifndef MT_KERNELS_CPU_GEMMSTORED_H
#define MT_KERNELS_CPU_GEMMSTORED_H

#include "kernels/Catalogue.h"
#include "kernels/cpu/Gemm.h"

namespace mt::kernels::cpu {

/// A matrix to read, f32 or bf16; null data: none.
struct Stored {
  const void *data = nullptr;
  DType type = DType::f32;

  /// From `elements` further on.
  Stored at(int64_t elements) const {
    return {static_cast<const std::byte *>(data) + elements * static_cast<int64_t>(byteSize(type)), type};
  }
};

/// A matrix to write: rounded once from f32, replacing or adding to what is there.
struct StoredResult {
  void *data = nullptr;
  DType type = DType::f32;
  bool adds = false;

  StoredResult at(int64_t elements) const {
    return {static_cast<std::byte *>(data) + elements * static_cast<int64_t>(byteSize(type)), type, adds};
  }
};

/// One block of C = alpha * op(A) * op(B) + bias + addend: `bias` a row of n, `addend` of C's type, lying as C does.
void multiplyBlock(const Gemm &gemm, const GemmBlocks &blocks, int64_t block, float alpha, Stored a, Stored b,
                   StoredResult c, Stored bias, Stored addend = {});

/// What each thread takes for blocks of a product whose result is of this type.
Scratch blockScratch(const Gemm &gemm, const GemmBlocks &blocks, DType c);
/// What each thread takes for all blocks over the pool.
Scratch scratchOver(const Gemm &gemm, DType a, DType b, DType c);

/// All blocks over the pool, without a bias.
void multiplyOver(ThreadPool &pool, const Gemm &gemm, float alpha, Stored a, Stored b, StoredResult c);

} // namespace mt::kernels::cpu
#endif
