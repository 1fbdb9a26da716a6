// Products on the processor's units for bf16 against sums in 64 bits: shapes that divide by nothing, parts of the
// summed dimension, operands stored either way, apart, in pieces and not at lines of the cache, and all that may become
// of the sums.
#include "kernels/cpu/Bf16Product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
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

/// How stored rows of a side lie, and at which of their elements it begins.
struct Lying {
  Pieces pieces = {};
  int64_t begins = 0;
  int64_t at(int64_t row, int64_t line, int64_t element) const { return row * line + pieces.at(begins + element); }
};

struct Case {
  Gemm gemm;
  Bf16Result what;
  bool isAligned;
  Lying a = {}, b = {};
};

void expectProduct(const Case &c, std::mt19937 &random) {
  const Gemm &g = c.gemm;
  const Matrix a(c.a.at(g.transposeA ? g.k : g.m, g.lda, g.transposeA ? g.m : g.k), c.isAligned, random),
      b(c.b.at(g.transposeB ? g.n : g.k, g.ldb, g.transposeB ? g.k : g.n), c.isAligned, random);
  Result result(c.what.type, g.m * g.ldc, random), bias(c.what.biasType, g.n, random),
      addend(c.what.type, g.m * g.ldc, random);
  const Result before = result;
  Bf16Result what = c.what;
  what.c = result.data(), what.bias = c.what.bias ? bias.data() : nullptr,
  what.addend = c.what.addend ? addend.data() : nullptr;
  const auto bytes = bf16Scratch(g.m, g.n, g.k, what.keepsSums());
  std::unique_ptr<std::byte, decltype(&std::free)> scratch(
      static_cast<std::byte *>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)), &std::free);
  std::fill_n(scratch.get(), bytes + 64, std::byte(0xff)); // NaN, all of them
  multiplyByUnits(g, {a.data(), c.a.pieces, c.a.begins}, {b.data(), c.b.pieces, c.b.begins}, what, scratch.get());
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
        sum += a.at(g.transposeA ? c.a.at(k, g.lda, i) : c.a.at(i, g.lda, k)) *
               b.at(g.transposeB ? c.b.at(j, g.ldb, k) : c.b.at(k, g.ldb, j));
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
      c.gemm.m = pick(96), c.gemm.n = pick(96), c.gemm.k = pick(4000);
    Gemm &g = c.gemm;
    g.lda = (g.transposeA ? g.m : g.k) + apart(), g.ldb = (g.transposeB ? g.k : g.n) + apart(), g.ldc = g.n + apart();
    for (auto [side, line, rows, mayBe] : {std::tuple(&c.a, &g.lda, g.transposeA ? g.k : g.m, !g.transposeA),
                                           std::tuple(&c.b, &g.ldb, g.transposeB ? g.n : g.k, true)})
      if (mayBe && random() % 3 == 0) { // rows of pieces, all rows of a piece before those of the next
        *line = pick(100);
        side->pieces = {*line, rows * *line + apart()};
        side->begins = upTo(2 * *line) - 1;
      }
    static constexpr float kAny = 0; // replaced by a row
    c.what = {.c = nullptr,
              .type = random() % 2 == 0 ? DType::f32 : DType::bf16,
              .adds = random() % 2 == 0,
              .alpha = random() % 2 == 0 ? 1.0f : 0.125f,
              .bias = random() % 3 == 0 ? &kAny : nullptr,
              .biasType = random() % 2 == 0 ? DType::f32 : DType::bf16,
              .addend = random() % 3 == 0 ? &kAny : nullptr};
    expectProduct(c, random);
    if (HasFatalFailure())
      return;
  }
}

} // namespace
} // namespace mt::kernels::cpu
