#include "kernels/cpu/GemmStored.h"

#include "kernels/cpu/Bf16Product.h"
#include "kernels/cpu/Elements.h"
#include "kernels/cpu/Vector.h"

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kWidened = 1024; // of the summed dimension: what is widened at a time

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

/// What multiplies operands of such types.
Units unitsOf(const Gemm &gemm, const StoredProduct::Types &types) {
  if (types.a == DType::bf16 && types.b == DType::bf16)
    return bf16Units();
  return allF32(types.a, types.b, types.c) ? floatUnits(gemm.n, gemm.k) : Units::floats;
}

/// Floats that a block takes: panels of both operands, a row of bias, and sums that are not in place.
int64_t blockFloats(int64_t m, int64_t n, int64_t depth, bool inPlace) {
  return m * depth + depth * n + n + (inPlace ? 0 : m * n);
}

} // namespace

/// Sides that are laid out for all blocks of a cut.
struct StoredProduct::SharedSides {
  std::optional<SharedSide> a, b;

  SharedSides(const Gemm &gemm, const GemmBlocks &cut, bool cKeepsSums, ThreadPool &pool) {
    if (!cut.sharesA && !cut.sharesB)
      return;
    auto *to = reinterpret_cast<Bf16 *>(pool.sharedScratch(cut.sharedBytes(gemm)));
    if (cut.sharesA)
      a.emplace(gemm.m, cut.depth, packsLeftInPairs(gemm.transposeA, bf16Units()), cKeepsSums, to);
    if (cut.sharesB)
      b.emplace(gemm.n, cut.depth, true, cKeepsSums, to + (a ? Packed::elements(gemm.m, gemm.k) : 0));
  }

  void pack(const Gemm &gemm, const Operands &of, ThreadPool &pool) const {
    const int64_t ofA = a ? a->chunks() : 0, ofB = b ? b->chunks() : 0;
    pool.parallelFor(ofA + ofB, [&](int64_t chunk) {
      if (chunk < ofA)
        a->pack(chunk, static_cast<const Bf16 *>(of.a.data), gemm.lda, gemm.transposeA);
      else
        b->pack(chunk - ofA, static_cast<const Bf16 *>(of.b.data), gemm.ldb, !gemm.transposeB);
    });
  }
};

StoredProduct::Operands StoredProduct::Operands::at(int64_t batch) const {
  Operands of = *this;
  of.a = a.at(batch * stepA), of.b = b.at(batch * stepB), of.c = c.at(batch * stepC);
  of.addend = addend.data ? addend.at(batch * stepC) : addend;
  of.sums = sums + batch * stepC;
  return of;
}

StoredProduct::StoredProduct(const Gemm &gemm, float alpha, const Types &types, int64_t batches)
    : StoredProduct(gemm, alpha, types, batches, {gemm.k, 1}) {}

StoredProduct::StoredProduct(const Gemm &gemm, float alpha, const Types &types, int64_t batches, Chunks depth)
    : gemm(gemm), alpha(alpha), types(types), batches(batches), units(unitsOf(gemm, types)) {
  if (units == Units::floats) {
    cuts.emplace_back(gemm, batches, depth);
    return;
  }
  for (const GemmBlocks::Pool &pool : GemmBlocks::kPools)
    cuts.emplace_back(gemm, units, batches, depth, pool.threads);
}

bool StoredProduct::cKeepsSums() const { return Bf16Result{.c = nullptr, .type = types.c, .alpha = alpha}.keepsSums(); }

Scratch StoredProduct::scratch() const {
  if (onUnits()) {
    Scratch most;
    for (const GemmBlocks &cut : cuts)
      most = most.either({.own = unitScratch(units, std::min(cut.rows, gemm.m), std::min(cut.columns, gemm.n),
                                             cut.depth.end(0), cKeepsSums()),
                          .shared = cut.sharedBytes(gemm)});
    return most;
  }
  if (allF32(types.a, types.b, types.c))
    return blockScratch(gemm, cuts.front());
  const int64_t m = std::min(cuts.front().rows, gemm.m), n = std::min(cuts.front().columns, gemm.n),
                depth = std::min(kWidened, gemm.k);
  return {.own = sizeof(float) * static_cast<uint64_t>(blockFloats(m, n, depth, types.c == DType::f32)),
          .library = libraryScratch(m, n, depth)};
}

void StoredProduct::multiplyBlock(const GemmBlocks &cut, int64_t block, const Operands &whole,
                                  const SharedSides &shared) const {
  const Block at = cut.at(gemm, block);
  Operands of = whole;
  if (at.part > 0)
    of.c = {whole.sums + (at.part - 1) * batches * gemm.m * gemm.n, DType::f32, false};
  if (onUnits())
    return multiplyOnUnits(cut, at, of, shared);
  if (allF32(types.a, types.b, types.c))
    return cpu::multiplyBlock(gemm, cut, block, alpha, static_cast<const float *>(of.a.data),
                              static_cast<const float *>(of.b.data), of.c.adds ? 1 : 0, static_cast<float *>(of.c.data),
                              static_cast<const float *>(of.bias.data), static_cast<const float *>(of.addend.data));
  of.a = of.a.at(gemm.transposeA ? at.begin * gemm.lda : at.begin);
  of.b = of.b.at(gemm.transposeB ? at.begin : at.begin * gemm.ldb);
  multiplyWidened(at, of.a, of.b, of.c, of.bias, of.addend);
}

void StoredProduct::multiplyOnUnits(const GemmBlocks &cut, const Block &at, const Operands &of,
                                    const SharedSides &shared) const {
  Gemm part = gemm;
  part.m = at.rows, part.n = at.columns, part.k = at.depth;
  const int64_t place = at.row * gemm.ldc + at.column;
  const Bf16Result result{.c = of.c.at(place).data,
                          .type = of.c.type,
                          .adds = of.c.adds,
                          .alpha = alpha,
                          .bias = of.bias.data ? of.bias.at(at.column).data : nullptr,
                          .biasType = of.bias.type,
                          .addend = of.addend.data ? of.addend.at(place).data : nullptr};
  const int64_t depth = cut.depth.end(0); // the first part is as deep as any
  std::byte *scratch = ThreadPool::scratch(unitScratch(units, part.m, part.n, depth, result.keepsSums()));
  const Stored a = of.a.at(gemm.transposeA ? at.begin * gemm.lda + at.row : at.row * gemm.lda + at.begin),
               b = of.b.at(gemm.transposeB ? at.column * gemm.ldb + at.begin : at.begin * gemm.ldb + at.column);
  if (units == Units::splitTiles)
    return multiplyByUnits(part, static_cast<const float *>(a.data), static_cast<const float *>(b.data), result, depth,
                           scratch);
  const auto side = [&](const std::optional<SharedSide> &laidOut, const Stored &stored, int64_t across) {
    return laidOut ? Bf16Side(*laidOut, across, at.begin) : Bf16Side(static_cast<const Bf16 *>(stored.data));
  };
  multiplyByUnits(part, side(shared.a, a, at.row), side(shared.b, b, at.column), result, depth, scratch);
}

void StoredProduct::multiplyWidened(const Block &at, Stored a, Stored b, StoredResult c, Stored bias,
                                    Stored addend) const {
  const int64_t row = at.row, column = at.column, m = at.rows, n = at.columns, depth = std::min(kWidened, at.depth);
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
  for (int64_t k = 0; k < at.depth; k += depth, adds = true) {
    const int64_t count = std::min(depth, at.depth - k);
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

void StoredProduct::addParts(ThreadPool &pool, StoredResult c, const float *sums) const {
  constexpr int64_t kElements = 4096; // of a loop's chunk
  const int64_t elements = batches * gemm.m * gemm.n;
  if (cuts.front().depth.count > 1)
    pool.parallelFor(ceilDivide(elements, kElements), [&](int64_t chunk) {
      const int64_t begin = chunk * kElements, count = std::min(kElements, elements - begin);
      for (int64_t part = 1; part < cuts.front().depth.count; ++part)
        vec::add(sums + (part - 1) * elements + begin, static_cast<float *>(c.data) + begin, count);
    });
}

void StoredProduct::multiplyOver(ThreadPool &pool, const Operands &of) const {
  const GemmBlocks &cut = cutFor(pool);
  const SharedSides shared(gemm, cut, cKeepsSums(), pool);
  shared.pack(gemm, of, pool);
  pool.parallelFor(batches * cut.count(),
                   [&](int64_t chunk) { multiplyBlock(cut, chunk % cut.count(), of.at(chunk / cut.count()), shared); });
  addParts(pool, of.c, of.sums);
}

Scratch scratchOver(const Gemm &gemm, DType a, DType b, DType c) { return StoredProduct(gemm, 1, {a, b, c}).scratch(); }

void multiplyOver(ThreadPool &pool, const Gemm &gemm, float alpha, Stored a, Stored b, StoredResult c) {
  StoredProduct(gemm, alpha, {a.type, b.type, c.type}).multiplyOver(pool, {.a = a, .b = b, .c = c});
}

} // namespace mt::kernels::cpu
