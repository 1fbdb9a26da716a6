#include "kernels/cpu/Gemm.h"

#include "kernels/Blocks.h"
#include "kernels/cpu/Bf16Product.h"
#include "kernels/cpu/TransposeTile.h"
#include "runtime/base/OutOfMemory.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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

/// Share of the highest rate that blocks of floats of a size reach, within some percent; measured with AVX2 and
/// AVX-512.
double blockRate(const Gemm &gemm, int64_t rows, int64_t columns) {
  const double perRow = 1.0 / static_cast<double>(rows), perColumn = 1.0 / static_cast<double>(columns);
  return 1 /
         ((1 + (gemm.transposeA || gemm.transposeB ? 20 : 2) * perRow) * (1 + (gemm.transposeA ? 30 : 8) * perColumn));
}

/// Share of the highest rate of all pools, of which the last round leaves some threads idle.
double sharedRate(int64_t blocks) {
  double shared = 0;
  for (const GemmBlocks::Pool &pool : GemmBlocks::kPools)
    shared +=
        pool.share * static_cast<double>(blocks) / static_cast<double>(ceilDivide(blocks, pool.threads) * pool.threads);
  return shared;
}

/// What a column of B and a row of A take beside what units multiply, in the rows, and columns, that they would
/// multiply in that time; within some percent, measured.
struct UnitCosts {
  double ofB, ofA; ///< laid out for a block
  double lying;    ///< of A, read where it lies
  double shared;   ///< of either, laid out before; 0: not worth it
  double wake;     ///< what a thread multiplies until others have begun
  static UnitCosts of(Units units) {
    if (units == Units::splitTiles)
      return {70, 70, 70, 0, 0};
    return units == Units::tiles ? UnitCosts{100, 150, 20, 20, 5e6} : UnitCosts{15, 12, 2, 0, 0};
  }
};

} // namespace

size_t GemmBlocks::poolFor(int64_t threads) {
  size_t at = 0;
  while (at + 1 < std::size(kPools) && kPools[at].threads < threads)
    ++at;
  return at;
}

/// Calls visit(rows, columns) for all cuts of a product into blocks of so many rows and columns at least.
template <typename Visit>
static void eachCut(const Gemm &gemm, int64_t fewestColumns, int64_t lines, int64_t lanes, Visit visit) {
  constexpr int64_t kFewestRows = 64;
  for (int64_t i = 1; i == 1 || i * kFewestRows <= gemm.m; ++i)
    for (int64_t j = 1; j == 1 || j * fewestColumns <= gemm.n; ++j)
      visit(Chunks(gemm.m, i, lines), Chunks(gemm.n, j, lanes));
}

GemmBlocks::GemmBlocks(const Gemm &gemm, int64_t batches, Chunks depth) : depth(depth) {
  double best = 0;
  eachCut(gemm, 192, 8, 16, [&](const Chunks &tall, const Chunks &wide) {
    const double rate =
        blockRate(gemm, tall.size, wide.size) * sharedRate(tall.count * wide.count * depth.count * batches);
    if (rate <= best)
      return;
    best = rate;
    rows = tall.size, columns = wide.size, down = tall.count, across = wide.count;
  });
}

/// Of sides that are laid out whole.
static uint64_t bytesOf(const Gemm &gemm, bool ofA, bool ofB) {
  return sizeof(Bf16) * static_cast<uint64_t>((ofA ? Packed::elements(gemm.m, gemm.k) : 0) +
                                              (ofB ? Packed::elements(gemm.n, gemm.k) : 0));
}

GemmBlocks::GemmBlocks(const Gemm &gemm, Units units, int64_t batches, Chunks depth, int64_t threads) : depth(depth) {
  const UnitCosts costs = UnitCosts::of(units);
  const bool lies = liesForUnits(gemm, units),
             mayShare = costs.shared > 0 && threads > Scratch::kSharers && batches == 1;
  const auto pool = static_cast<double>(threads), m = static_cast<double>(gemm.m), n = static_cast<double>(gemm.n),
             k = static_cast<double>(gemm.k);
  double best = std::numeric_limits<double>::infinity();
  for (const auto &[ofA, ofB] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
    const bool shares = ofA || ofB;
    if ((shares && !mayShare) || (ofA && lies) || bytesOf(gemm, ofA, ofB) > kMostShared)
      continue;
    const double before = shares ? costs.wake + k / pool * ((ofA ? costs.ofA * m : 0) + (ofB ? costs.ofB * n : 0)) : 0,
                 row = ofA    ? costs.shared
                       : lies ? costs.lying
                              : costs.ofA,
                 column = ofB ? costs.shared : costs.ofB;
    const auto takes = [&](double rows, double columns) { return (rows + column) * (columns + row); };
    eachCut(gemm, 96, 32, 32, [&](const Chunks &tall, const Chunks &wide) {
      const double blocks = static_cast<double>(tall.count * wide.count * depth.count * batches),
                   mean = takes(m / static_cast<double>(tall.count), n / static_cast<double>(wide.count)) * k /
                          static_cast<double>(depth.count),
                   last = takes(static_cast<double>(tall.size), static_cast<double>(wide.size)) *
                          static_cast<double>(depth.size);
      const double all = before + (std::ceil(blocks / pool) - 1) * mean + last;
      if (all >= best)
        return;
      best = all;
      rows = tall.size, columns = wide.size, down = tall.count, across = wide.count;
      sharesA = ofA, sharesB = ofB;
    });
  }
}

uint64_t GemmBlocks::sharedBytes(const Gemm &gemm) const { return bytesOf(gemm, sharesA, sharesB); }

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
