#include "kernels/cpu/Gemm.h"

#include "kernels/Blocks.h"
#include "kernels/cpu/Bf16Product.h"
#include "kernels/cpu/TransposeTile.h"
#include "runtime/base/OutOfMemory.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>

namespace mt::kernels::cpu {
namespace {

/// out [rows, columns] = in^T, in [columns, rows] with row distance `stride`.
void transpose(const float *in, int64_t stride, int64_t rows, int64_t columns, float *out) {
  TileLines<const float> from;
  TileLines<float> to;
  for (int64_t r = 0; r < rows; r += kTile)
    for (int64_t c = 0; c < columns; c += kTile) {
      const int64_t tall = std::min(kTile, rows - r), wide = std::min(kTile, columns - c);
      for (int64_t j = 0; j < wide; ++j)
        from[static_cast<size_t>(j)] = in + (c + j) * stride + r;
      for (int64_t i = 0; i < tall; ++i)
        to[static_cast<size_t>(i)] = out + (r + i) * columns + c;
      transposeTile(from, tall, wide, to);
    }
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

uint64_t libraryScratch(int64_t rows, int64_t columns, int64_t depth) {
  constexpr int64_t kMost = 16 << 20, kDeepest = 512, kEdge = 128, kOther = 1 << 16;
  int64_t elements = (rows + columns + kEdge) * std::min(depth + kEdge, kDeepest);
  return static_cast<uint64_t>(std::min(kMost, 4 * elements + kOther));
}

namespace {

/// Share of the highest rate that blocks of a size reach, within some percent; measured of floats with AVX2 and AVX-512,
/// and of bf16 with the units for it. What does not lie as it is read is copied first: the right operand for every row of
/// blocks, the left one for every column.
double blockRate(const Gemm &gemm, Units units, int64_t rows, int64_t columns) {
  const double perRow = 1.0 / static_cast<double>(rows), perColumn = 1.0 / static_cast<double>(columns);
  if (units == Units::tiles)
    return 1 / ((1 + 200 * perRow) * (1 + (liesForUnits(gemm, units) ? 20 : 300) * perColumn));
  if (units == Units::vectors)
    return 1 / ((1 + 15 * perRow) * (1 + (liesForUnits(gemm, units) ? 2 : 12) * perColumn));
  return 1 /
         ((1 + (gemm.transposeA || gemm.transposeB ? 20 : 2) * perRow) * (1 + (gemm.transposeA ? 30 : 8) * perColumn));
}

/// Share of the highest rate of `threads` threads, or of all pools, of which the last round leaves some idle.
double sharedRate(int64_t blocks, std::optional<int64_t> threads) {
  if (threads)
    return static_cast<double>(blocks) / static_cast<double>(ceilDivide(blocks, *threads) * *threads);
  double shared = 0;
  for (const GemmBlocks::Pool &pool : GemmBlocks::kPools)
    shared += pool.share * sharedRate(blocks, pool.threads);
  return shared;
}

} // namespace

size_t GemmBlocks::poolFor(int64_t threads) {
  size_t at = 0;
  while (at + 1 < std::size(kPools) && kPools[at].threads < threads)
    ++at;
  return at;
}

GemmBlocks::GemmBlocks(const Gemm &gemm, Units units, int64_t batches, Chunks depth, std::optional<int64_t> threads)
    : depth(depth) {
  const bool isNarrow = units != Units::floats;
  const int64_t fewestColumns = isNarrow ? 96 : 192, lines = isNarrow ? 32 : 8, lanes = isNarrow ? 32 : 16;
  constexpr int64_t kFewestRows = 64;
  double best = 0;
  for (int64_t i = 1; i == 1 || i * kFewestRows <= gemm.m; ++i)
    for (int64_t j = 1; j == 1 || j * fewestColumns <= gemm.n; ++j) {
      const Chunks tall(gemm.m, i, lines), wide(gemm.n, j, lanes);
      const double rate = blockRate(gemm, units, tall.size, wide.size) *
                          sharedRate(tall.count * wide.count * depth.count * batches, threads);
      if (rate <= best)
        continue;
      best = rate;
      rows = tall.size, columns = wide.size, down = tall.count, across = wide.count;
    }
}

GemmBlocks::Block GemmBlocks::at(const Gemm &gemm, int64_t block) const {
  const int64_t part = block / (down * across), row = block % down * rows, column = block / down % across * columns;
  return {row,
          column,
          std::min(rows, gemm.m - row),
          std::min(columns, gemm.n - column),
          part,
          depth.begin(part),
          depth.end(part) - depth.begin(part)};
}

/// Whether columns of A lie in one set of the first cache, as rows of 4 KiB do: reading them takes half as long again.
static bool mustTurn(const Gemm &gemm) {
  return gemm.transposeA && gemm.lda * static_cast<int64_t>(sizeof(float)) % 4096 == 0;
}

/// Of the summed dimension: what is turned round at a time.
constexpr int64_t kTurned = 384;

Scratch blockScratch(const Gemm &gemm, const GemmBlocks &blocks) {
  int64_t rows = std::min(blocks.rows, gemm.m), columns = std::min(blocks.columns, gemm.n);
  int64_t turned = mustTurn(gemm) ? rows * std::min(gemm.k, kTurned) : 0;
  return {.own = sizeof(float) * static_cast<uint64_t>(turned), .library = libraryScratch(rows, columns, gemm.k)};
}

/// A block whose A^T is turned round first, some of the summed dimension at a time.
static void multiplyTurned(Gemm gemm, float alpha, const float *a, const float *b, float beta, float *c) {
  const int64_t total = gemm.k, lda = gemm.lda;
  float *turned = ThreadPool::scratchOf<float>(gemm.m * std::min(total, kTurned));
  gemm.transposeA = false;
  for (int64_t k = 0; k < total; k += kTurned) {
    gemm.k = gemm.lda = std::min(kTurned, total - k);
    transpose(a + k * lda, lda, gemm.m, gemm.k, turned);
    multiply(gemm, alpha, turned, b + k * (gemm.transposeB ? 1 : gemm.ldb), k == 0 ? beta : 1, c);
  }
}

void multiplyBlock(const Gemm &whole, const GemmBlocks &blocks, int64_t block, float alpha, const float *a,
                   const float *b, float beta, float *c, const float *bias, const float *addend) {
  const GemmBlocks::Block at = blocks.at(whole, block);
  Gemm gemm = whole;
  gemm.m = at.rows, gemm.n = at.columns, gemm.k = at.depth;
  a += whole.transposeA ? at.begin * whole.lda + at.row : at.row * whole.lda + at.begin;
  b += whole.transposeB ? at.column * whole.ldb + at.begin : at.begin * whole.ldb + at.column;
  c += at.row * whole.ldc + at.column;
  if (addend) {
    fillRows(addend + at.row * whole.ldc + at.column, whole.ldc, beta != 0, gemm.m, gemm.n, c, gemm.ldc);
    beta = 1;
  }
  if (bias) {
    fillRows(bias + at.column, 0, beta != 0, gemm.m, gemm.n, c, gemm.ldc);
    beta = 1;
  }
  if (mustTurn(gemm))
    multiplyTurned(gemm, alpha, a, b, beta, c);
  else
    multiply(gemm, alpha, a, b, beta, c);
}

} // namespace mt::kernels::cpu
