#include "kernels/cpu/GemmStored.h"

#include "kernels/cpu/Elements.h"

#include <cstring>

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

StoredProduct::StoredProduct(const Gemm &gemm, float alpha, const Types &types)
    : gemm(gemm), cut(gemm), alpha(alpha), types(types) {
  if (types.a != DType::bf16 || types.b != DType::bf16 || alpha != 1 || !hasBf16Units())
    return;
  cut = GemmBlocks(gemm, Units::bf16);
  prepareUnits();
}

void StoredProduct::prepareUnits() {
  Prepared made;
  for (size_t lastRow : {0u, 1u})
    for (size_t lastColumn : {0u, 1u})
      for (size_t adds : {0u, 1u}) {
        const int64_t row = lastRow ? (cut.down - 1) * cut.rows : 0, column = lastColumn ? (cut.across - 1) * cut.columns : 0;
        Bf16Product::Shape shape{gemm, types.c, types.bias, adds == 1};
        shape.gemm.m = std::min(cut.rows, gemm.m - row), shape.gemm.n = std::min(cut.columns, gemm.n - column);
        if (!(made[lastRow][lastColumn][adds] = Bf16Product::make(shape)))
          return;
      }
  units = std::move(made);
}

/// Whether blocks may be widened, as they all are without units, and with them where a bf16 result gains both an addend
/// and a product: it is rounded once.
bool StoredProduct::canWiden() const { return !units[0][0][0] || (types.addend && types.c == DType::bf16); }

Scratch StoredProduct::scratch() const {
  if (allF32(types.a, types.b, types.c))
    return blockScratch(gemm, cut);
  Scratch most;
  for (const auto &row : units)
    for (const auto &column : row)
      for (const auto &unit : column)
        most.own = std::max(most.own, unit ? unit->scratch() : 0);
  if (!canWiden())
    return most;
  const int64_t m = std::min(cut.rows, gemm.m), n = std::min(cut.columns, gemm.n), depth = std::min(kPanel, gemm.k);
  return most.either({.own = sizeof(float) * static_cast<uint64_t>(blockFloats(m, n, depth, types.c == DType::f32)),
                      .library = libraryScratch(m, n, depth)});
}

StoredProduct::Part StoredProduct::partOf(int64_t block) const {
  const int64_t row = block % cut.down * cut.rows, column = block / cut.down * cut.columns;
  return {row, column, std::min(cut.rows, gemm.m - row), std::min(cut.columns, gemm.n - column)};
}

void StoredProduct::multiply(int64_t block, Stored a, Stored b, StoredResult c, Stored bias, Stored addend) const {
  const Part part = partOf(block);
  if (!multiplyByUnits(part, a, b, c, bias, addend))
    multiplyWidened(part, a, b, c, bias, addend);
}

bool StoredProduct::multiplyByUnits(const Part &part, Stored a, Stored b, StoredResult c, Stored bias, Stored addend) const {
  if (!units[0][0][0] || (addend.data && c.adds && c.type == DType::bf16))
    return false;
  a = a.at(gemm.transposeA ? part.row : part.row * gemm.lda);
  b = b.at(gemm.transposeB ? part.column * gemm.ldb : part.column);
  c = c.at(part.row * gemm.ldc + part.column);
  if (addend.data) {
    addend = addend.at(part.row * gemm.ldc + part.column);
    if (c.adds)
      fillRows(static_cast<const float *>(addend.data), gemm.ldc, true, part.rows, part.columns, static_cast<float *>(c.data),
               gemm.ldc);
    else
      for (int64_t i = 0; i < part.rows; ++i)
        std::memcpy(c.at(i * gemm.ldc).data, addend.at(i * gemm.ldc).data,
                    static_cast<size_t>(part.columns) * byteSize(c.type));
  }
  const auto &unit = units[part.row / cut.rows == cut.down - 1][part.column / cut.columns == cut.across - 1][addend.data || c.adds];
  unit->run(a.data, b.data, c.data, bias.data ? bias.at(part.column).data : nullptr, ThreadPool::scratch(unit->scratch()));
  return true;
}

void StoredProduct::multiplyWidened(const Part &part, Stored a, Stored b, StoredResult c, Stored bias, Stored addend) const {
  const auto &[row, column, m, n] = part;
  const int64_t depth = std::min(kPanel, gemm.k);
  const bool inPlace = c.type == DType::f32;
  c = c.at(row * gemm.ldc + column);
  float *left = ThreadPool::scratchOf<float>(blockFloats(m, n, depth, inPlace));
  float *right = left + m * depth, *biases = right + depth * n;
  float *sums = inPlace ? static_cast<float *>(c.data) : biases + n;
  const int64_t step = inPlace ? gemm.ldc : n;
  bool adds = inPlace && c.adds;
  if (addend.data) {
    addend = addend.at(row * gemm.ldc + column);
    if (inPlace)
      fillRows(static_cast<const float *>(addend.data), gemm.ldc, adds, m, n, sums, step);
    else
      widen(addend, gemm.ldc, m, n, sums);
    adds = true;
  }
  if (bias.data) {
    widen(bias.at(column), n, 1, n, biases);
    fillRows(biases, 0, adds, m, n, sums, step);
    adds = true;
  }
  for (int64_t k = 0; k < gemm.k; k += depth, adds = true) {
    const int64_t count = std::min(depth, gemm.k - k);
    if (gemm.transposeA)
      turn(a.at(k * gemm.lda + row), gemm.lda, m, count, left);
    else
      widen(a.at(row * gemm.lda + k), gemm.lda, m, count, left);
    if (gemm.transposeB)
      widen(b.at(column * gemm.ldb + k), gemm.ldb, n, count, right);
    else
      widen(b.at(k * gemm.ldb + column), gemm.ldb, count, n, right);
    const Gemm panel{false, gemm.transposeB, m, n, count, count, gemm.transposeB ? count : n, step};
    cpu::multiply(panel, alpha, left, right, adds ? 1 : 0, sums);
  }
  const StoreRow<float> store = storer<float>(c.type);
  for (int64_t i = 0; i < m && !inPlace; ++i)
    store(sums + i * n, c.data, i * gemm.ldc, n, c.adds);
}

void StoredProduct::multiplyOver(ThreadPool &pool, Stored a, Stored b, StoredResult c) const {
  if (allF32(types.a, types.b, types.c))
    return cpu::multiplyOver(pool, gemm, alpha, static_cast<const float *>(a.data), static_cast<const float *>(b.data),
                             c.adds ? 1 : 0, static_cast<float *>(c.data));
  pool.parallelFor(cut.count(), [&](int64_t block) { multiply(block, a, b, c); });
}

Scratch scratchOver(const Gemm &gemm, DType a, DType b, DType c) { return StoredProduct(gemm, 1, {a, b, c}).scratch(); }

void multiplyOver(ThreadPool &pool, const Gemm &gemm, float alpha, Stored a, Stored b, StoredResult c) {
  StoredProduct(gemm, alpha, {a.type, b.type, c.type}).multiplyOver(pool, a, b, c);
}

} // namespace mt::kernels::cpu
