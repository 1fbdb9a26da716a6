// Products of row-major matrices on the calling thread, and how a product is cut into blocks for many: by its shape
// alone, so that results do not depend on threads.
#ifndef MT_KERNELS_CPU_GEMM_H
#define MT_KERNELS_CPU_GEMM_H

#include "kernels/Bf16.h"
#include "kernels/Blocks.h"
#include "kernels/cpu/Bf16Units.h"
#include "kernels/cpu/ThreadPool.h"
#include "runtime/base/Status.h"

namespace mt::kernels::cpu {

/// C [m, n] = alpha * op(A) [m, k] * op(B) [k, n] + beta * C; op transposes what is stored the other way round. Leading
/// dimensions are the distances of stored rows, in elements.
struct Gemm {
  bool transposeA = false, transposeB = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
};

/// What each thread takes to multiply a block of so many rows and columns: oneDNN's copies of parts of both operands,
/// measured for its versions 2 and 3 on SSE 4.1, AVX2 and AVX-512.
uint64_t libraryScratch(int64_t rows, int64_t columns, int64_t depth);

/// Keeps oneDNN from starting a team of its own on the calling thread, and from preparing for one.
void holdToOneThread();

/// On the calling thread alone.
void multiply(const Gemm &gemm, float alpha, const float *a, const float *b, float beta, float *c);
/// How a product is cut: rows and columns of a block, and parts of the summed dimension, which are one but where
/// `depth` says otherwise. Blocks of the first part come first. On units (Bf16Units.h) sums do not depend on blocks,
/// which are then cut for a pool's size; else blocks are the same whatever the number of threads.
struct GemmBlocks {
  int64_t rows = 1, columns = 1, down = 1, across = 1;
  Chunks depth;
  bool sharesA = false, sharesB = false; ///< whether a pool lays a side out once for all blocks (SharedSide)
  /// Sizes of pools that blocks are cut for: machines have from two cores to more than a hundred. Where blocks are the
  /// same on all, each counts with a share in choosing them.
  struct Pool {
    int64_t threads;
    double share;
  };
  static constexpr Pool kPools[] = {{2, 0.45}, {8, 0.3}, {32, 0.15}, {128, 0.1}};
  /// Which of them stands for one of so many threads.
  static size_t poolFor(int64_t threads);
  /// Of a product that is computed `batches` times in one loop, for pools of any size.
  GemmBlocks(const Gemm &gemm, int64_t batches, Chunks depth);
  /// On units, for a pool of `threads`.
  GemmBlocks(const Gemm &gemm, Units units, int64_t batches, Chunks depth, int64_t threads);
  int64_t count() const { return down * across * depth.count; }
  /// What the sides that are shared take, and may at most: what a last cache of a machine for many threads holds.
  uint64_t sharedBytes(const Gemm &gemm) const;
  static constexpr uint64_t kMostShared = 64 << 20;

  /// Where a block lies: first row and column of its result, and of the summed dimension.
  struct Block {
    int64_t row, column, rows, columns, part, begin, depth;
  };
  Block at(const Gemm &gemm, int64_t block) const;
};

/// What each thread takes for blocks of a product.
Scratch blockScratch(const Gemm &gemm, const GemmBlocks &blocks);

/// One block of a product, or of one part of it. `bias`, if any, is a row of n added to every row of C; `addend` a
/// matrix that lies as C does.
void multiplyBlock(const Gemm &gemm, const GemmBlocks &blocks, int64_t block, float alpha, const float *a,
                   const float *b, float beta, float *c, const float *bias = nullptr, const float *addend = nullptr);
/// c [rows, columns] becomes, or if `adds` gains, a matrix whose rows are `step` apart (0: one row for all), as c's are
/// `line` apart.
void fillRows(const float *from, int64_t step, bool adds, int64_t rows, int64_t columns, float *c, int64_t line);

} // namespace mt::kernels::cpu
#endif
