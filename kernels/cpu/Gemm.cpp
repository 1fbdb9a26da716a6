#include "kernels/cpu/Gemm.h"

#include "kernels/Blocks.h"
#include "runtime/base/OutOfMemory.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>

/// What oneDNN's own tests call, of all its versions: for blocks of any size, which primitives would have to be made for.
extern "C" __attribute__((weak)) dnnl_status_t dnnl_gemm_bf16bf16f32(char, char, dnnl_dim_t, dnnl_dim_t, dnnl_dim_t, float,
                                                                     const mt::kernels::Bf16 *, dnnl_dim_t,
                                                                     const mt::kernels::Bf16 *, dnnl_dim_t, float, float *,
                                                                     dnnl_dim_t);

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kTile = 16;

/// out [rows, columns] = in^T, in [columns, rows] with row distance `stride`.
void transpose(const float *in, int64_t stride, int64_t rows, int64_t columns, float *out) {
  for (int64_t r = 0; r < rows; r += kTile)
    for (int64_t c = 0; c < columns; c += kTile)
      for (int64_t i = r; i < std::min(rows, r + kTile); ++i)
        for (int64_t j = c; j < std::min(columns, c + kTile); ++j)
          out[i * columns + j] = in[j * stride + i];
}

} // namespace

void holdToOneThread() {
  thread_local bool held = false;
  if (!held)
    omp_set_num_threads(1);
  held = true;
}

void fillRows(const float *from, int64_t step, bool adds, int64_t rows, int64_t columns, float *c, int64_t line) {
  for (int64_t i = 0; i < rows; ++i) {
    const float *row = from + i * step;
    float *into = c + i * line;
    if (adds)
      for (int64_t j = 0; j < columns; ++j)
        into[j] += row[j];
    else
      std::copy_n(row, columns, into);
  }
}

void multiply(const Gemm &gemm, float alpha, const float *a, const float *b, float beta, float *c) {
  holdToOneThread();
  dnnl_status_t status = dnnl_sgemm(gemm.transposeA ? 'T' : 'N', gemm.transposeB ? 'T' : 'N', gemm.m, gemm.n, gemm.k,
                                    alpha, a, gemm.lda, b, gemm.ldb, beta, c, gemm.ldc);
  if (status != dnnl_success)
    endForMemory(); // sizes were checked when the call was prepared: memory for packing is missing
}

bool hasBf16Units() {
  constexpr auto kLeast = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return dnnl_gemm_bf16bf16f32 && (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kLeast) == kLeast;
}

void multiply(const Gemm &gemm, float alpha, const Bf16 *a, const Bf16 *b, float beta, float *c) {
  holdToOneThread();
  dnnl_status_t status = dnnl_gemm_bf16bf16f32(gemm.transposeA ? 'T' : 'N', gemm.transposeB ? 'T' : 'N', gemm.m, gemm.n,
                                               gemm.k, alpha, a, gemm.lda, b, gemm.ldb, beta, c, gemm.ldc);
  if (status != dnnl_success)
    endForMemory();
}

uint64_t libraryScratch(int64_t rows, int64_t columns, int64_t depth) {
  constexpr int64_t kMost = 16 << 20, kDeepest = 512, kEdge = 128, kOther = 1 << 16;
  int64_t elements = (rows + columns + kEdge) * std::min(depth + kEdge, kDeepest);
  return static_cast<uint64_t>(std::min(kMost, 4 * elements + kOther));
}

namespace {

/// oneDNN packs both operands only of blocks large enough; smaller ones it reads in place, at a lower rate, and where
/// A is transposed at less than half of it.
bool isPacked(int64_t rows, int64_t columns) {
  return 1.0 / static_cast<double>(rows) + 1.0 / static_cast<double>(columns) < 0.0038;
}

/// Share of the highest rate that blocks of a size reach, within some percent; measured with AVX2 and AVX-512, and of
/// bf16 with AVX-512's units, which copy what they read across rows.
double blockRate(const Gemm &gemm, Units units, int64_t rows, int64_t columns) {
  const double perRow = 1.0 / static_cast<double>(rows), perColumn = 1.0 / static_cast<double>(columns);
  if (units == Units::bf16)
    return 1 / ((1 + 10 * perRow) * (1 + (gemm.transposeA ? 40 : 12) * perColumn));
  return (isPacked(rows, columns) ? 1 : 0.88) / (1 + 4 * (perRow + perColumn));
}

/// Share of the highest rate of `threads` threads, of which the last round leaves some idle.
double sharedRate(int64_t blocks, int64_t threads) {
  return static_cast<double>(blocks) / static_cast<double>(ceilDivide(blocks, threads) * threads);
}

} // namespace

/// Machines have from two cores to more than a hundred, and blocks are the same on all: of pools of such sizes the share
/// with which each counts in choosing them. Small blocks cost floats more.
struct Pools {
  int64_t threads;
  double ofFloats, ofUnits;
};
constexpr Pools kPools[] = {{2, 0.55, 0.35}, {8, 0.3, 0.3}, {32, 0.1, 0.2}, {128, 0.05, 0.15}};

GemmBlocks::GemmBlocks(const Gemm &gemm, Units units) {
  const bool isNarrow = units == Units::bf16;
  const int64_t fewestRows = isNarrow ? 64 : 128, fewestColumns = isNarrow ? 96 : 192;
  constexpr int64_t kLanes = 16;
  double best = 0;
  for (int64_t i = 1; i == 1 || i * fewestRows <= gemm.m; ++i)
    for (int64_t j = 1; j == 1 || j * fewestColumns <= gemm.n; ++j) {
      int64_t tall = Chunks(gemm.m, i, 8).size, wide = Chunks(gemm.n, j, kLanes).size;
      int64_t count = ceilDivide(gemm.m, tall) * ceilDivide(gemm.n, wide);
      double shared = 0;
      for (const Pools &pools : kPools)
        shared += (isNarrow ? pools.ofUnits : pools.ofFloats) * sharedRate(count, pools.threads);
      const double rate = blockRate(gemm, units, tall, wide) * shared;
      if (rate <= best)
        continue;
      best = rate;
      *this = {tall, wide, ceilDivide(gemm.m, tall), ceilDivide(gemm.n, wide)};
    }
}

/// Of the summed dimension: what is turned round at a time.
constexpr int64_t kPanel = 1024;

Scratch blockScratch(const Gemm &gemm, const GemmBlocks &blocks) {
  int64_t rows = std::min(blocks.rows, gemm.m), columns = std::min(blocks.columns, gemm.n);
  // The last blocks may be smaller, and then not packed.
  int64_t turned = gemm.transposeA ? rows * std::min(gemm.k, kPanel) : 0;
  return {.own = sizeof(float) * static_cast<uint64_t>(turned), .library = libraryScratch(rows, columns, gemm.k)};
}

/// A block whose A^T is turned round first, some of the summed dimension at a time.
static void multiplyTurned(Gemm gemm, float alpha, const float *a, const float *b, float beta, float *c) {
  const int64_t total = gemm.k, lda = gemm.lda;
  float *turned = ThreadPool::scratchOf<float>(gemm.m * std::min(total, kPanel));
  gemm.transposeA = false;
  for (int64_t k = 0; k < total; k += kPanel) {
    gemm.k = gemm.lda = std::min(kPanel, total - k);
    transpose(a + k * lda, lda, gemm.m, gemm.k, turned);
    multiply(gemm, alpha, turned, b + k * (gemm.transposeB ? 1 : gemm.ldb), k == 0 ? beta : 1, c);
  }
}

void multiplyBlock(const Gemm &whole, const GemmBlocks &blocks, int64_t block, float alpha, const float *a,
                   const float *b, float beta, float *c, const float *bias, const float *addend) {
  int64_t row = block % blocks.down * blocks.rows, column = block / blocks.down * blocks.columns;
  Gemm gemm = whole;
  gemm.m = std::min(blocks.rows, whole.m - row);
  gemm.n = std::min(blocks.columns, whole.n - column);
  a += whole.transposeA ? row : row * whole.lda;
  b += whole.transposeB ? column * whole.ldb : column;
  c += row * whole.ldc + column;
  if (addend) {
    fillRows(addend + row * whole.ldc + column, whole.ldc, beta != 0, gemm.m, gemm.n, c, gemm.ldc);
    beta = 1;
  }
  if (bias) {
    fillRows(bias + column, 0, beta != 0, gemm.m, gemm.n, c, gemm.ldc);
    beta = 1;
  }
  if (gemm.transposeA && !isPacked(gemm.m, gemm.n))
    multiplyTurned(gemm, alpha, a, b, beta, c);
  else
    multiply(gemm, alpha, a, b, beta, c);
}

void multiplyOver(ThreadPool &pool, const Gemm &gemm, float alpha, const float *a, const float *b, float beta, float *c,
                  const float *bias) {
  GemmBlocks blocks(gemm);
  pool.parallelFor(blocks.count(),
                   [&](int64_t block) { multiplyBlock(gemm, blocks, block, alpha, a, b, beta, c, bias); });
}

} // namespace mt::kernels::cpu
