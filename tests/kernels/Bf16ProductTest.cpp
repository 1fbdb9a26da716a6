// Products on the processor's units for bf16, and of f32 on tiles, against sums in 64 bits: shapes that divide by
// nothing, parts of the summed dimension, operands stored either way, apart, in pieces and not at lines of the cache,
// laid out on the way and before, and all that may become of the sums.
#include "kernels/cpu/Bf16Product.h"
#include "kernels/cpu/GemmStored.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

namespace mt::kernels::cpu {
namespace {

/// bf16 that begin with a line of the cache, or two elements behind it.
struct Matrix {
  std::vector<Bf16> held;
  size_t first;

  Matrix(int64_t elements, bool isAligned, std::mt19937 &random) : held(static_cast<size_t>(elements) + 64) {
    std::normal_distribution<float> values;
    for (Bf16 &value : held)
      value = nearest(values(random));
    const auto address = reinterpret_cast<uintptr_t>(held.data()) / sizeof(Bf16);
    first = (32 - address % 32) % 32 + (isAligned ? 0 : 2);
  }
  const Bf16 *data() const { return held.data() + first; }
  double at(int64_t i) const { return static_cast<double>(widen(held[first + static_cast<size_t>(i)])); }
};

/// C, as f32 or bf16.
struct Result {
  DType type;
  std::vector<float> wide;
  std::vector<Bf16> narrow;

  Result(DType type, int64_t elements, std::mt19937 &random) : type(type) {
    std::normal_distribution<float> values;
    for (int64_t i = 0; i < elements; ++i)
      narrow.push_back(nearest(values(random))), wide.push_back(widen(narrow.back()));
  }
  void *data() { return type == DType::f32 ? static_cast<void *>(wide.data()) : narrow.data(); }
  double at(size_t i) const { return static_cast<double>(type == DType::f32 ? wide[i] : widen(narrow[i])); }
};

struct Case {
  Gemm gemm;
  Bf16Result what;
  bool isAligned;
  Pieces a = {}, b = {}; ///< of stored rows
  /// Of sides that are laid out before blocks of so many rows and columns, of parts of the depth, are multiplied.
  bool sharesA = false, sharesB = false;
  int64_t rows = 0, columns = 0, parts = 1;
  int64_t beyond = 0; ///< by how much the deepest part is deeper
};

using Buffer = std::unique_ptr<std::byte, decltype(&std::free)>;
Buffer aligned(uint64_t bytes) {
  Buffer made(static_cast<std::byte *>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)), &std::free);
  std::fill_n(made.get(), bytes + 64, std::byte(0xff)); // NaN, all of them
  return made;
}

/// All blocks of the product, of sides that are shared or not.
void multiplyBlocks(const Case &c, const Bf16 *a, const Bf16 *b, const Bf16Result &what, std::byte *scratch) {
  const Gemm &g = c.gemm;
  const Chunks depth(g.k, c.parts, 64);
  const auto size = static_cast<int64_t>(byteSize(what.type));
  auto bytes = [&](int64_t across) { return static_cast<uint64_t>(Packed::elements(across, g.k)) * sizeof(Bf16); };
  const Buffer ofA = aligned(bytes(g.m)), ofB = aligned(bytes(g.n));
  std::optional<SharedSide> sharedA, sharedB;
  auto share = [&](std::optional<SharedSide> &side, const Buffer &to, int64_t across, bool inPairs, const Bf16 *from,
                   int64_t line, bool depthByDepth) {
    side.emplace(across, depth, inPairs, what.keepsSums(), reinterpret_cast<Bf16 *>(to.get()));
    for (int64_t chunk = side->chunks(); chunk-- > 0;)
      side->pack(chunk, from, line, depthByDepth);
    for (uint64_t i = bytes(across); i < bytes(across) + 64; ++i)
      ASSERT_EQ(to.get()[i], std::byte(0xff)) << "behind what is shared";
  };
  if (c.sharesA)
    share(sharedA, ofA, g.m, packsLeftInPairs(g.transposeA, bf16Units()), a, g.lda, g.transposeA);
  if (c.sharesB)
    share(sharedB, ofB, g.n, true, b, g.ldb, !g.transposeB);
  for (int64_t part = 0; part < depth.count; ++part)
    for (int64_t row = 0; row < g.m; row += c.rows)
      for (int64_t column = 0; column < g.n; column += c.columns) {
        Gemm block = g;
        const int64_t begin = depth.begin(part), place = row * g.ldc + column;
        block.m = std::min(c.rows, g.m - row), block.n = std::min(c.columns, g.n - column),
        block.k = depth.end(part) - begin;
        Bf16Result of = what;
        of.c = static_cast<std::byte *>(what.c) + place * size, of.adds = what.adds || part > 0;
        of.bias = what.bias ? static_cast<const std::byte *>(what.bias) +
                                  column * static_cast<int64_t>(byteSize(what.biasType))
                            : nullptr;
        of.addend = what.addend ? static_cast<const std::byte *>(what.addend) + place * size : nullptr;
        const Bf16Side left = sharedA ? Bf16Side(*sharedA, row, begin)
                                      : Bf16Side(a + (g.transposeA ? begin * g.lda + row : row * g.lda + begin)),
                       right = sharedB ? Bf16Side(*sharedB, column, begin)
                                       : Bf16Side(b + (g.transposeB ? column * g.ldb + begin : begin * g.ldb + column));
        multiplyByUnits(block, left, right, of, depth.end(0), scratch);
      }
}

void expectProduct(const Case &c, std::mt19937 &random) {
  const Gemm &g = c.gemm;
  auto lies = [](const Pieces &pieces, int64_t row, int64_t line, int64_t element) {
    return row * line + pieces.at(element);
  };
  const Matrix a(lies(c.a, g.transposeA ? g.k : g.m, g.lda, g.transposeA ? g.m : g.k), c.isAligned, random),
      b(lies(c.b, g.transposeB ? g.n : g.k, g.ldb, g.transposeB ? g.k : g.n), c.isAligned, random);
  Result result(c.what.type, g.m * g.ldc, random), bias(c.what.biasType, g.n, random),
      addend(c.what.type, g.m * g.ldc, random);
  const Result before = result;
  Bf16Result what = c.what;
  what.c = result.data(), what.bias = c.what.bias ? bias.data() : nullptr,
  what.addend = c.what.addend ? addend.data() : nullptr;
  const int64_t deepest = g.k + c.beyond;
  const auto bytes = unitScratch(bf16Units(), g.m, g.n, deepest, what.keepsSums());
  const Buffer scratch = aligned(bytes);
  if (c.sharesA || c.sharesB)
    multiplyBlocks(c, a.data(), b.data(), what, scratch.get());
  else
    multiplyByUnits(g, {a.data(), c.a}, {b.data(), c.b}, what, deepest, scratch.get());
  if (testing::Test::HasFatalFailure())
    return;
  for (size_t i = bytes; i < bytes + 64; ++i)
    ASSERT_EQ(scratch.get()[i], std::byte(0xff)) << "behind the scratch";
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.ldc; ++j) {
      const auto place = static_cast<size_t>(i * g.ldc + j);
      if (j >= g.n) {
        ASSERT_EQ(result.at(place), before.at(place)) << "beside C";
        continue;
      }
      double sum = 0;
      for (int64_t k = 0; k < g.k; ++k)
        sum += a.at(g.transposeA ? lies(c.a, k, g.lda, i) : lies(c.a, i, g.lda, k)) *
               b.at(g.transposeB ? lies(c.b, j, g.ldb, k) : lies(c.b, k, g.ldb, j));
      sum = sum * static_cast<double>(what.alpha) + (what.bias ? bias.at(static_cast<size_t>(j)) : 0) +
            (what.adds ? before.at(place) : 0) + (what.addend ? addend.at(place) : 0);
      const double rounded = what.type == DType::bf16 ? std::abs(sum) * 0x1p-8 : 0;
      ASSERT_NEAR(result.at(place), sum, rounded + 2e-5 * std::sqrt(static_cast<double>(g.k)) + 1e-6)
          << g.m << " x " << g.n << " x " << g.k << (g.transposeA ? ", A^T" : "") << (g.transposeB ? ", B^T" : "")
          << " at " << i << ", " << j;
    }
}

TEST(Bf16Product, MultipliesWhateverTheShape) {
  if (!hasBf16Units())
    GTEST_SKIP() << "this processor has no units for bf16";
  std::mt19937 random(1);
  auto upTo = [&](int64_t most) { return 1 + static_cast<int64_t>(random()) % most; };
  auto pick = [&](int64_t most) {
    const int64_t kinds[] = {upTo(40), 32 * upTo(most / 32), upTo(most)};
    return kinds[random() % 3];
  };
  auto apart = [&] { return random() % 3 == 0 ? upTo(70) : 0; };
  for (int i = 0; i < 200; ++i) {
    Case c{{random() % 2 == 0, random() % 2 == 0, pick(600), pick(700), pick(1000)}, {}, random() % 2 == 0};
    if (random() % 8 == 0)
      c.gemm.m = pick(96), c.gemm.n = pick(96), c.gemm.k = pick(7000);
    else if (random() % 8 == 0)
      c.gemm.m = pick(3000), c.gemm.n = pick(96), c.gemm.k = pick(2000);
    Gemm &g = c.gemm;
    g.lda = (g.transposeA ? g.m : g.k) + apart(), g.ldb = (g.transposeB ? g.k : g.n) + apart(), g.ldc = g.n + apart();
    for (auto [side, line, rows, mayBe] : {std::tuple(&c.a, &g.lda, g.transposeA ? g.k : g.m, !g.transposeA),
                                           std::tuple(&c.b, &g.ldb, g.transposeB ? g.n : g.k, true)})
      if (mayBe && random() % 3 == 0) { // rows of pieces, all rows of a piece before those of the next
        *line = pick(100);
        *side = {*line, rows * *line + apart(), upTo(2 * *line) - 1};
      }
    static constexpr float kAny = 0; // replaced by a row
    c.what = {.c = nullptr,
              .type = random() % 2 == 0 ? DType::f32 : DType::bf16,
              .adds = random() % 2 == 0,
              .alpha = random() % 2 == 0 ? 1.0f : 0.125f,
              .bias = random() % 3 == 0 ? &kAny : nullptr,
              .biasType = random() % 2 == 0 ? DType::f32 : DType::bf16,
              .addend = random() % 3 == 0 ? &kAny : nullptr};
    if (c.a.size == 0 && c.b.size == 0) {
      c.sharesA = random() % 2 == 0, c.sharesB = random() % 2 == 0;
      c.rows = 32 * upTo(ceilDivide(g.m, 32)), c.columns = 32 * upTo(ceilDivide(g.n, 32));
      if (c.what.keepsSums() && !c.what.bias && !c.what.addend)
        c.parts = upTo(ceilDivide(g.k, 64));
    }
    if (!c.sharesA && !c.sharesB && random() % 2 == 0)
      c.beyond = upTo(1000);
    expectProduct(c, random);
    if (HasFatalFailure())
      return;
  }
  expectProduct({{true, false, 256, 500, 3000, 256, 500, 500}, // one step, of what may be two
                 {.c = nullptr, .alpha = 0.125F},
                 true,
                 {},
                 {},
                 false,
                 false,
                 0,
                 0,
                 1,
                 100},
                random);
}

std::vector<float> floats(int64_t count, std::mt19937 &random) {
  std::normal_distribution<float> values;
  std::vector<float> made(static_cast<size_t>(count));
  std::ranges::generate(made, [&] { return values(random); });
  return made;
}

/// Of f32 on tiles sums are as good as those of f32: what they are off by is compared with the root of the products'
/// squares.
TEST(Bf16Product, MultipliesFloatsAsSumsOfThree) {
  if (bf16Units() != Units::tiles)
    GTEST_SKIP() << "this processor has no tiles";
  std::mt19937 random(4);
  auto upTo = [&](int64_t most) { return 1 + static_cast<int64_t>(random()) % most; };
  for (int i = 0; i < 100; ++i) {
    Gemm g{random() % 2 == 0, random() % 2 == 0, upTo(i % 5 == 0 ? 2000 : 100), upTo(i % 5 == 1 ? 600 : 100),
           upTo(i % 5 == 2 ? 3000 : 500)};
    auto apart = [&] { return random() % 3 == 0 ? upTo(70) : 0; };
    g.lda = (g.transposeA ? g.m : g.k) + apart(), g.ldb = (g.transposeB ? g.k : g.n) + apart(), g.ldc = g.n + apart();
    const std::vector<float> a = floats((g.transposeA ? g.k : g.m) * g.lda, random),
                             b = floats((g.transposeB ? g.n : g.k) * g.ldb, random), bias = floats(g.n, random),
                             addend = floats(g.m * g.ldc, random), before = floats(g.m * g.ldc, random);
    std::vector<float> c = before;
    const Bf16Result what{.c = c.data(),
                          .adds = random() % 2 == 0,
                          .alpha = random() % 2 == 0 ? 1.0F : 0.125F,
                          .bias = random() % 3 == 0 ? bias.data() : nullptr,
                          .addend = random() % 3 == 0 ? addend.data() : nullptr};
    const uint64_t bytes = unitScratch(Units::splitTiles, g.m, g.n, g.k, what.keepsSums());
    const Buffer scratch = aligned(bytes);
    multiplyByUnits(g, a.data(), b.data(), what, g.k, scratch.get());
    for (size_t at = bytes; at < bytes + 64; ++at)
      ASSERT_EQ(scratch.get()[at], std::byte(0xff)) << "behind the scratch";
    for (int64_t row = 0; row < g.m; ++row)
      for (int64_t column = 0; column < g.ldc; ++column) {
        const auto place = static_cast<size_t>(row * g.ldc + column);
        if (column >= g.n) {
          ASSERT_EQ(c[place], before[place]) << "beside C";
          continue;
        }
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < g.k; ++k) {
          const double product =
              static_cast<double>(a[static_cast<size_t>(g.transposeA ? k * g.lda + row : row * g.lda + k)]) *
              static_cast<double>(b[static_cast<size_t>(g.transposeB ? column * g.ldb + k : k * g.ldb + column)]);
          sum += product, squares += product * product;
        }
        sum = sum * static_cast<double>(what.alpha) +
              (what.bias ? static_cast<double>(bias[static_cast<size_t>(column)]) : 0) +
              (what.adds ? static_cast<double>(before[place]) : 0) +
              (what.addend ? static_cast<double>(addend[place]) : 0);
        ASSERT_NEAR(c[place], sum, 1.2e-6 * std::sqrt(squares) + 3e-7 * std::abs(sum) + 6e-7)
            << g.m << " x " << g.n << " x " << g.k << " at " << row << ", " << column;
      }
  }
}

/// The ends of what f32 has: what bf16 would round to infinity stays finite, each of 24 bits counts, and NaN is one.
TEST(Bf16Product, TakesAllThatFloatsHave) {
  if (bf16Units() != Units::tiles)
    GTEST_SKIP() << "this processor has no tiles";
  constexpr int64_t kSize = 32;
  constexpr float kMost = std::numeric_limits<float>::max(), kEach = 0x1.fffffep0F,
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const Gemm g{false, false, kSize, kSize, kSize, kSize, kSize, kSize};
  std::vector<float> a(kSize * kSize), one(kSize * kSize), c(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i)
    one[i * kSize + i] = 1;
  const std::vector<float> kinds = {kMost, -kMost, kEach, -kEach, 0x1.fe8p127F, 0x1.000002p-100F, 0.1F, -0.0F};
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = kinds[i % kinds.size()];
  const Buffer scratch = aligned(unitScratch(Units::splitTiles, kSize, kSize, kSize, true));
  multiplyByUnits(g, a.data(), one.data(), {.c = c.data()}, kSize, scratch.get());
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(c[i], a[i]) << "at " << i;
  multiplyByUnits(g, one.data(), a.data(), {.c = c.data()}, kSize, scratch.get());
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(c[i], a[i]) << "at " << i;
  a[5] = kNan;
  multiplyByUnits(g, a.data(), one.data(), {.c = c.data()}, kSize, scratch.get());
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(std::isnan(c[i]), i < kSize) << "at " << i;
}

/// Pools of other sizes cut other blocks of f32, too, and on tiles a row has the same bits however many others there
/// are.
TEST(Bf16Product, OfFloatsIsTheSameOnEveryPool) {
  std::mt19937 random(5);
  for (const auto &[gemm, parts] : {std::pair(Gemm{false, true, 510, 777, 640, 640, 640, 777}, 1),
                                    std::pair(Gemm{true, false, 333, 500, 2400, 340, 500, 500}, 3)}) {
    const Chunks depth = parts > 1 ? Chunks(gemm.k, parts, 64) : Chunks(gemm.k, 1);
    const std::vector<float> a = floats((gemm.transposeA ? gemm.k : gemm.m) * gemm.lda, random),
                             b = floats((gemm.transposeB ? gemm.n : gemm.k) * gemm.ldb, random);
    std::vector<float> sums(static_cast<size_t>(gemm.m * gemm.n * (depth.count - 1)));
    multiplyFloatsOnTiles(true);
    const StoredProduct product(gemm, 1, {DType::f32, DType::f32, DType::f32}, 1, depth);
    multiplyFloatsOnTiles(false);
    auto multiply = [&](ThreadPool &pool) {
      std::vector<float> c(static_cast<size_t>(gemm.m * gemm.ldc), 1);
      product.multiplyOver(pool, {.a = {a.data()}, .b = {b.data()}, .c = {c.data()}, .sums = sums.data()});
      return c;
    };
    ThreadPool alone(1), four(4);
    const std::vector<float> first = multiply(alone);
    EXPECT_EQ(multiply(four), first);
    if (!gemm.transposeA && bf16Units() == Units::tiles) { // the library's sgemm does not promise it
      Gemm few = gemm;
      few.m = 5;
      std::vector<float> c(static_cast<size_t>(few.m * few.ldc), 1);
      multiplyFloatsOnTiles(true);
      StoredProduct(few, 1, {DType::f32, DType::f32, DType::f32})
          .multiplyOver(alone, {.a = {a.data()}, .b = {b.data()}, .c = {c.data()}});
      multiplyFloatsOnTiles(false);
      for (size_t i = 0; i < c.size(); ++i)
        ASSERT_EQ(c[i], first[i]) << "of five rows, at " << i;
    }
    for (const int threads : {2, 7, 32, 100}) {
      std::vector<std::vector<double>> loops;
      alone.record(&loops, threads);
      EXPECT_EQ(multiply(alone), first) << threads << " threads";
    }
  }
}

/// Pools of other sizes cut other blocks, and lay sides out for all of them: no bit depends on it.
TEST(Bf16Product, IsTheSameOnEveryPool) {
  if (!hasBf16Units())
    GTEST_SKIP() << "this processor has no units for bf16";
  struct Shape {
    Gemm gemm;
    int64_t parts = 1;
    DType type = DType::f32;
  };
  std::mt19937 random(2);
  bool shares = false;
  for (const auto &[gemm, parts, type] :
       {Shape{{false, true, 510, 777, 640, 640, 640, 777}},
        Shape{{true, false, 333, 500, 2400, 340, 500, 500}, 3}, // parts of several steps, the last of fewer
        Shape{{false, false, 200, 400, 3600, 3600, 400, 400}, 1, DType::bf16}}) {
    const Chunks depth = parts > 1 ? Chunks(gemm.k, parts, 64) : Chunks(gemm.k, 1);
    const Matrix a((gemm.transposeA ? gemm.k : gemm.m) * gemm.lda, true, random),
        b((gemm.transposeB ? gemm.n : gemm.k) * gemm.ldb, true, random);
    Result addend(type, gemm.m * gemm.ldc, random), bias(DType::f32, gemm.n, random);
    const bool adds = type == DType::bf16;
    const StoredProduct product(
        gemm, 1, {DType::bf16, DType::bf16, type, adds ? std::optional(DType::f32) : std::nullopt, adds}, 1, depth);
    std::vector<float> sums(static_cast<size_t>(gemm.m * gemm.n * (depth.count - 1)));
    auto multiply = [&](ThreadPool &pool) {
      std::mt19937 begin(3);
      Result c(type, gemm.m * gemm.ldc, begin);
      product.multiplyOver(pool, {.a = {a.data(), DType::bf16},
                                  .b = {b.data(), DType::bf16},
                                  .c = {c.data(), type},
                                  .bias = {adds ? bias.data() : nullptr},
                                  .addend = {adds ? addend.data() : nullptr, type},
                                  .sums = sums.data()});
      return c;
    };
    ThreadPool alone(1), four(4);
    const Result first = multiply(alone);
    auto expectSame = [&](const Result &other, int threads) {
      for (size_t i = 0; i < static_cast<size_t>(gemm.m * gemm.ldc); ++i)
        ASSERT_EQ(other.at(i), first.at(i)) << threads << " threads, at " << i;
    };
    expectSame(multiply(four), 4);
    bool isShared = false;
    for (const int threads : {2, 7, 32, 100}) {
      std::vector<std::vector<double>> loops;
      alone.record(&loops, threads);
      expectSame(multiply(alone), threads);
      const GemmBlocks cut(gemm, bf16Units(), 1, depth, GemmBlocks::kPools[GemmBlocks::poolFor(threads)].threads);
      EXPECT_TRUE(threads > Scratch::kSharers || (!cut.sharesA && !cut.sharesB));
      isShared |= cut.sharesA || cut.sharesB;
    }
    shares |= isShared;
    EXPECT_EQ(product.scratch().shared > 0, isShared);
    EXPECT_LE(product.scratch().shared, GemmBlocks::kMostShared);
  }
  EXPECT_EQ(shares, bf16Units() == Units::tiles);
}

} // namespace
} // namespace mt::kernels::cpu
