// Products of row-major matrices that may be bf16, summed in f32, in fixed blocks. Where both sides are bf16 and the
// processor has units for that, they multiply (Bf16Product.h); else panels are widened to f32, which loses nothing, and go
// through the f32 product. Where all are f32 this is Gemm.h itself.
#ifndef MT_KERNELS_CPU_GEMMSTORED_H
#define MT_KERNELS_CPU_GEMMSTORED_H

#include "kernels/Catalogue.h"
#include "kernels/cpu/Gemm.h"

#include <optional>
#include <vector>

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

/// C = alpha * op(A) * op(B) + bias + addend: `bias` a row of n, `addend` of C's type, lying as C does.
class StoredProduct {
public:
  struct Types {
    DType a, b, c;
    std::optional<DType> bias = {};
    bool addend = false;
  };
  /// `batches`: how often it is computed in one loop.
  StoredProduct(const Gemm &gemm, float alpha, const Types &types, int64_t batches = 1);
  /// Its summed dimension in parts, that wait in `sums` to be added: f32 [depth.count - 1, batches, m, n]. Of an f32
  /// result without bias or addend, whose rows follow one another.
  StoredProduct(const Gemm &gemm, float alpha, const Types &types, int64_t batches, Chunks depth);

  int64_t blocks(const ThreadPool &pool) const { return cutFor(pool).count(); }
  /// What each thread takes.
  Scratch scratch() const;
  /// One block of those for a pool, on the calling thread. `sums`: those of its batch.
  void multiply(const ThreadPool &pool, int64_t block, Stored a, Stored b, StoredResult c, Stored bias = {},
                Stored addend = {}, float *sums = nullptr) const;
  /// Adds the parts, in their order, to the results of all batches, over the pool.
  void addParts(ThreadPool &pool, StoredResult c, const float *sums) const;
  /// All blocks over the pool, without bias or addend, of one batch.
  void multiplyOver(ThreadPool &pool, Stored a, Stored b, StoredResult c, float *sums = nullptr) const;

private:
  using Block = GemmBlocks::Block;
  Gemm gemm;
  std::vector<GemmBlocks> cuts; ///< one, or where units multiply one for each of GemmBlocks::kPools
  float alpha;
  Types types;
  int64_t batches;

  bool onUnits() const { return cuts.size() > 1; }
  const GemmBlocks &cutFor(const ThreadPool &pool) const {
    return cuts[onUnits() ? GemmBlocks::poolFor(pool.threads()) : 0];
  }
  void multiplyOnUnits(const Block &at, Stored a, Stored b, StoredResult c, Stored bias, Stored addend) const;
  void multiplyWidened(const Block &at, Stored a, Stored b, StoredResult c, Stored bias, Stored addend) const;
};

/// All blocks of a product that is not prepared, of which one side is f32, over the pool.
void multiplyOver(ThreadPool &pool, const Gemm &gemm, float alpha, Stored a, Stored b, StoredResult c);
/// What each thread takes for that.
Scratch scratchOver(const Gemm &gemm, DType a, DType b, DType c);

} // namespace mt::kernels::cpu
#endif
