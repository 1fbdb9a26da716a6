// Products of row-major matrices that may be bf16, summed in f32, in fixed blocks. Where both sides are bf16 and the
// processor has units for that, they multiply (Bf16Product.h); else panels are widened to f32, which loses nothing, and
// go through the f32 product. Where all are f32 this is Gemm.h itself, or tiles multiply them, too, if they are to.
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

  Scratch scratch() const;

  /// What is multiplied, and from a batch to the next, in elements.
  struct Operands {
    Stored a, b;
    StoredResult c;
    Stored bias = {}, addend = {};
    float *sums = nullptr;
    int64_t stepA = 0, stepB = 0, stepC = 0;

    Operands at(int64_t batch) const;
  };
  /// All batches, over the pool.
  void multiplyOver(ThreadPool &pool, const Operands &of) const;

private:
  using Block = GemmBlocks::Block;
  struct SharedSides;
  Gemm gemm;
  std::vector<GemmBlocks> cuts; ///< one, or where units multiply one for each of GemmBlocks::kPools
  float alpha;
  Types types;
  int64_t batches;
  Units units;

  bool onUnits() const { return units != Units::floats; }
  bool cKeepsSums() const; ///< while they are not whole
  const GemmBlocks &cutFor(const ThreadPool &pool) const {
    return cuts[onUnits() ? GemmBlocks::poolFor(pool.threads()) : 0];
  }
  void multiplyBlock(const GemmBlocks &cut, int64_t block, const Operands &of, const SharedSides &shared) const;
  /// Adds the parts, in their order, to the results of all batches.
  void addParts(ThreadPool &pool, StoredResult c, const float *sums) const;
  void multiplyOnUnits(const GemmBlocks &cut, const Block &at, const Operands &of, const SharedSides &shared) const;
  void multiplyWidened(const Block &at, Stored a, Stored b, StoredResult c, Stored bias, Stored addend) const;
};

/// All blocks of a product that is not prepared, of which one side is f32, over the pool.
void multiplyOver(ThreadPool &pool, const Gemm &gemm, float alpha, Stored a, Stored b, StoredResult c);
/// What each thread takes for that.
Scratch scratchOver(const Gemm &gemm, DType a, DType b, DType c);

} // namespace mt::kernels::cpu
#endif
