#include "kernels/cpu/GemmStored.h"

#include "kernels/cpu/Elements.h"

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kPanel = 1024; // of the summed dimension: what is widened at a time

/// out [rows, columns] = in, whose rows are `stride` apart.
void widen(Stored in, int64_t stride, int64_t rows, int64_t columns, float *out) {
  LoadRow<float> load = loader<float>(in.type);
  for (int64_t i = 0; i < rows; ++i)
    load(in.data, i * stride, 1, columns, out + i * columns);
}

/// out [rows, columns] = in^T, in [columns, rows] with rows `stride` apart.
void turn(Stored in, int64_t stride, int64_t rows, int64_t columns, float *out) {
  constexpr int64_t kDown = 16, kAcross = 256;
  LoadRow<float> load = loader<float>(in.type);
  float tile[kDown][kAcross];
  for (int64_t column = 0; column < columns; column += kDown)
    for (int64_t row = 0; row < rows; row += kAcross) {
      int64_t down = std::min(kDown, columns - column), across = std::min(kAcross, rows - row);
      for (int64_t k = 0; k < down; ++k)
        load(in.data, (column + k) * stride + row, 1, across, tile[k]);
      for (int64_t i = 0; i < across; ++i)
        for (int64_t k = 0; k < down; ++k)
          out[(row + i) * columns + column + k] = tile[k][i];
    }
}

bool allF32(DType a, DType b, DType c) { return a == DType::f32 && b == DType::f32 && c == DType::f32; }

/// Floats that a block takes: panels of both operands, a row of bias, and sums that are not in place.
int64_t blockFloats(int64_t m, int64_t n, int64_t depth, bool inPlace) {
  return m * depth + depth * n + n + (inPlace ? 0 : m * n);
}

} // namespace

Scratch blockScratch(const Gemm &gemm, const GemmBlocks &blocks, DType c) {
  int64_t m = std::min(blocks.rows, gemm.m), n = std::min(blocks.columns, gemm.n), depth = std::min(kPanel, gemm.k);
  return {.own = sizeof(float) * static_cast<uint64_t>(blockFloats(m, n, depth, c == DType::f32)),
          .library = libraryScratch(m, n, depth)};
}

Scratch scratchOver(const Gemm &gemm, DType a, DType b, DType c) {
  GemmBlocks blocks(gemm);
  return allF32(a, b, c) ? blockScratch(gemm, blocks) : blockScratch(gemm, blocks, c);
}

void multiplyBlock(const Gemm &whole, const GemmBlocks &blocks, int64_t block, float alpha, Stored a, Stored b,
                   StoredResult c, Stored bias, Stored addend) {
  int64_t row = block % blocks.down * blocks.rows, column = block / blocks.down * blocks.columns;
  int64_t m = std::min(blocks.rows, whole.m - row), n = std::min(blocks.columns, whole.n - column);
  int64_t depth = std::min(kPanel, whole.k);
  bool inPlace = c.type == DType::f32;
  c = c.at(row * whole.ldc + column);
  float *left = ThreadPool::scratchOf<float>(blockFloats(m, n, depth, inPlace));
  float *right = left + m * depth, *biases = right + depth * n;
  float *sums = inPlace ? static_cast<float *>(c.data) : biases + n;
  int64_t step = inPlace ? whole.ldc : n;
  bool adds = inPlace && c.adds;
  if (addend.data) {
    addend = addend.at(row * whole.ldc + column);
    if (inPlace)
      fillRows(static_cast<const float *>(addend.data), whole.ldc, adds, m, n, sums, step);
    else
      widen(addend, whole.ldc, m, n, sums);
    adds = true;
  }
  if (bias.data) {
    widen(bias.at(column), n, 1, n, biases);
    fillRows(biases, 0, adds, m, n, sums, step);
    adds = true;
  }
  for (int64_t k = 0; k < whole.k; k += depth, adds = true) {
    int64_t count = std::min(depth, whole.k - k);
    if (whole.transposeA)
      turn(a.at(k * whole.lda + row), whole.lda, m, count, left);
    else
      widen(a.at(row * whole.lda + k), whole.lda, m, count, left);
    if (whole.transposeB)
      widen(b.at(column * whole.ldb + k), whole.ldb, n, count, right);
    else
      widen(b.at(k * whole.ldb + column), whole.ldb, count, n, right);
    Gemm panel{false, whole.transposeB, m, n, count, count, whole.transposeB ? count : n, step};
    multiply(panel, alpha, left, right, adds ? 1 : 0, sums);
  }
  StoreRow<float> store = storer<float>(c.type);
  for (int64_t i = 0; i < m && !inPlace; ++i)
    store(sums + i * n, c.data, i * whole.ldc, n, c.adds);
}

void multiplyOver(ThreadPool &pool, const Gemm &gemm, float alpha, Stored a, Stored b, StoredResult c) {
  if (allF32(a.type, b.type, c.type))
    return multiplyOver(pool, gemm, alpha, static_cast<const float *>(a.data), static_cast<const float *>(b.data),
                        c.adds ? 1 : 0, static_cast<float *>(c.data));
  GemmBlocks blocks(gemm);
  pool.parallelFor(blocks.count(), [&](int64_t block) { multiplyBlock(gemm, blocks, block, alpha, a, b, c, {}); });
}

} // namespace mt::kernels::cpu
