#include "kernels/cpu/Gemm.h"

#include "kernels/Blocks.h"

#include <dnnl.h>
#include <omp.h>

#include <cstdlib>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kTile = 16;

/// oneDNN would start a team of its own on every thread that calls it.
void holdToOneThread() {
  thread_local bool held = false;
  if (!held)
    omp_set_num_threads(1);
  held = true;
}

/// out [rows, columns] = in^T, in [columns, rows] with row distance `stride`.
void transpose(const float *in, int64_t stride, int64_t rows, int64_t columns, float *out) {
  for (int64_t r = 0; r < rows; r += kTile)
    for (int64_t c = 0; c < columns; c += kTile)
      for (int64_t i = r; i < std::min(rows, r + kTile); ++i)
        for (int64_t j = c; j < std::min(columns, c + kTile); ++j)
          out[i * columns + j] = in[j * stride + i];
}

void fillRows(const float *bias, bool add, const Gemm &gemm, float *c) {
  for (int64_t i = 0; i < gemm.m; ++i)
    for (int64_t j = 0; j < gemm.n; ++j)
      c[i * gemm.ldc + j] = add ? c[i * gemm.ldc + j] + bias[j] : bias[j];
}

} // namespace

void multiply(const Gemm &gemm, float alpha, const float *a, const float *b, float beta, float *c) {
  holdToOneThread();
  dnnl_status_t status = dnnl_sgemm(gemm.transposeA ? 'T' : 'N', gemm.transposeB ? 'T' : 'N', gemm.m, gemm.n, gemm.k,
                                    alpha, a, gemm.lda, b, gemm.ldb, beta, c, gemm.ldc);
  if (status != dnnl_success)
    std::abort(); // sizes were checked when the call was prepared: memory for packing is missing
}

GemmBlocks::GemmBlocks(const Gemm &gemm) {
  constexpr int64_t kRows = 512, kColumns = 512;
  rows = Chunks(gemm.m, ceilDivide(gemm.m, kRows), 8).size;
  columns = Chunks(gemm.n, ceilDivide(gemm.n, kColumns), 16).size;
  down = ceilDivide(gemm.m, rows);
  across = ceilDivide(gemm.n, columns);
}

void multiplyBlock(const Gemm &whole, const GemmBlocks &blocks, int64_t block, float alpha, const float *a,
                   const float *b, float beta, float *c, const float *bias) {
  int64_t row = block % blocks.down * blocks.rows, column = block / blocks.down * blocks.columns;
  Gemm gemm = whole;
  gemm.m = std::min(blocks.rows, whole.m - row);
  gemm.n = std::min(blocks.columns, whole.n - column);
  a += whole.transposeA ? row : row * whole.lda;
  b += whole.transposeB ? column * whole.ldb : column;
  c += row * whole.ldc + column;
  if (bias) {
    fillRows(bias + column, beta != 0, gemm, c);
    beta = 1;
  }
  if (gemm.transposeA) { // oneDNN reads A^T at half the rate, so it gets the block the other way round
    float *turned = ThreadPool::scratchOf<float>(gemm.m * gemm.k);
    transpose(a, gemm.lda, gemm.m, gemm.k, turned);
    gemm.transposeA = false;
    gemm.lda = gemm.k;
    a = turned;
  }
  multiply(gemm, alpha, a, b, beta, c);
}

void multiplyOver(ThreadPool &pool, const Gemm &gemm, float alpha, const float *a, const float *b, float beta, float *c,
                  const float *bias) {
  GemmBlocks blocks(gemm);
  pool.parallelFor(blocks.count(), [&](int64_t block) {
    multiplyBlock(gemm, blocks, block, alpha, a, b, beta, c, bias);
  });
}

} // namespace mt::kernels::cpu
