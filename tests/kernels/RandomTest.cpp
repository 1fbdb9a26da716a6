// dropout and random: against the definition in double, wherever rows lie; and that the numbers look random.
#include "kernels/Random.h"
#include "tests/kernels/DrawReference.h"
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace mt::kernels::test {
namespace {

constexpr double kSeed = 4503599627370497.0; // of more than 32 bits

Tensor drawScalars(double draw, double seed = kSeed) {
  return scalars({{Scalars::kSeed, seed}, {Scalars::kDraw, draw}});
}
Tensor nodeOf(double number) { return tensor(DType::i64, {}, {number}); }

/// Known answers of the reference implementation, Random123: kat_vectors.
TEST(Random, KnownAnswers) {
  using Four = std::array<uint32_t, 4>;
  const std::tuple<Four, std::array<uint32_t, 2>, Four> answers[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const auto &[counter, key, answer] : answers) {
    EXPECT_EQ(philoxReference(counter, key), answer);
    const Words words = philoxOf({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
    EXPECT_EQ((Four{words.at[0], words.at[1], words.at[2], words.at[3]}), answer);
  }
}

/// Where the rows of a batch lie in the elements, and which rows they are.
struct Place {
  Dims dims;
  int64_t outer;
  Values rows; ///< empty: none are given

  int64_t elements() const { return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()); }
  uint64_t number(int64_t at) const {
    if (rows.empty())
      return static_cast<uint64_t>(at);
    const int64_t count = static_cast<int64_t>(rows.size()), inner = elements() / outer / count;
    const int64_t row = at / inner % count, part = at / inner / count;
    return (static_cast<uint64_t>(rows[static_cast<size_t>(row)]) * static_cast<uint64_t>(outer) +
            static_cast<uint64_t>(part)) *
               static_cast<uint64_t>(inner) +
           static_cast<uint64_t>(at % inner);
  }
  Tensor numbers() const {
    return rows.empty() ? absent() : tensor(DType::i64, {static_cast<int64_t>(rows.size())}, rows);
  }
  template <typename Element> Values each(Element element) const {
    Values made;
    for (int64_t at = 0; at < elements(); ++at)
      made.push_back(element(number(at)));
    return made;
  }
};

const Place kPlaces[] = {{{7}, 1, {}},
                         {{5, 1003}, 1, {}},
                         {{3, 5, 7}, 1, {4, 5, 6}},
                         {{3, 5, 7}, 1, {9, 2, 3}},
                         {{2, 3, 5}, 2, {7, 8, 9}},
                         {{6, 2, 3}, 1, {1, 0, 2}}, // two places a row
                         {{4, 1}, 1, {0, 1, 2, 3}},
                         {{4}, 1, {3, 1, 4, 1e9}},
                         {{2, 1500}, 1, {1e12, 3}},
                         {{3, 2, 700}, 3, {5, 6}},
                         {{16, 1024}, 1, {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}}};

TEST(Random, Dropout) {
  for (const Place &place : kPlaces)
    for (double ratio : {0.1, 0.5, 0.0, 1.0})
      for (double draw : {1.0, 123456.0, -1.0}) {
        const DrawReference reference{kSeed, draw, 3};
        const Tensor x = random(place.dims, 5);
        size_t at = 0;
        const Values expected = place.each(
            [&](uint64_t number) { return reference.dropped(number, std::min(ratio, 1.0), x.values[at++]); });
        expectResults({"dropout",
                       {{"ratio", ratio}, {"outer", place.outer}},
                       {x, place.numbers(), drawScalars(draw), nodeOf(3)},
                       {{DType::f32, place.dims}}},
                      {expected}, 3e-7);
      }
}

TEST(Random, Numbers) {
  for (const Place &place : kPlaces)
    for (double draw : {7.0, -2.0}) {
      const DrawReference reference{kSeed, draw, 12};
      auto expect = [&](const char *kind, const Values &expected, double tolerance) {
        expectResults({"random",
                       {{"kind", std::string(kind)}, {"ratio", 0.3}, {"outer", place.outer}},
                       {place.numbers(), drawScalars(draw), nodeOf(12)},
                       {{DType::f32, place.dims}}},
                      {expected}, tolerance);
      };
      expect("uniform", place.each([&](uint64_t number) { return reference.uniform(number); }), 0);
      expect("normal", place.each([&](uint64_t number) { return reference.normal(number); }), 1e-6);
      expect("keep", place.each([&](uint64_t number) { return reference.keeps(number, 0.3); }), 0);
    }
}

/// The same bits from every instruction set, and from a GPU: those of the formulas, compiled for the plainest processor.
TEST(Random, BitsOfNormalNumbers) {
  const int64_t count = 5000;
  const Outcome outcome = run({"random", {{"kind", std::string("normal")}}, {absent(), drawScalars(3), nodeOf(8)}, {{DType::f32, {count}}}});
  const Tensor step = drawScalars(3);
  const Draw draw = Draw::of(step.values.data(), 8);
  for (int64_t i = 0; i < count; i += 4) {
    const Words words = draw.words(static_cast<uint64_t>(i / 4));
    float values[4];
    normalsOf(words.at[0], words.at[1], values[0], values[1]);
    normalsOf(words.at[2], words.at[3], values[2], values[3]);
    for (int64_t k = 0; k < 4; ++k)
      ASSERT_EQ(outcome.outputs[0][static_cast<size_t>(i + k)], static_cast<double>(values[k])) << i + k;
  }
}

TEST(Random, NarrowTypes) {
  for (const Place &place : kPlaces) {
    Tensor x = random(place.dims, 5, 1, DType::bf16);
    expectNarrow({"dropout",
                  {{"ratio", 0.1}, {"outer", place.outer}},
                  {x, place.numbers(), drawScalars(4), nodeOf(3)},
                  {{DType::bf16, place.dims}}});
  }
}

Values drawn(const std::string &kind, int64_t count, double seed, double draw, double node) {
  return run({"random", {{"kind", kind}}, {absent(), drawScalars(draw, seed), nodeOf(node)}, {{DType::f32, {count}}}})
      .outputs[0];
}

double meanOf(const Values &values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
double momentOf(const Values &values, double mean, int power) {
  double sum = 0;
  for (double value : values)
    sum += std::pow(value - mean, power);
  return sum / static_cast<double>(values.size());
}
/// Of values, and of the others `lag` further on.
double correlation(const Values &a, const Values &b, size_t lag) {
  double sum = 0, meanA = meanOf(a), meanB = meanOf(b);
  for (size_t i = 0; i + lag < a.size(); ++i)
    sum += (a[i] - meanA) * (b[i + lag] - meanB);
  return sum / static_cast<double>(a.size()) / std::sqrt(momentOf(a, meanA, 2) * momentOf(b, meanB, 2));
}

constexpr int64_t kMany = 1 << 16;
constexpr double kSpread = 4.5 / 256; ///< deviations of a mean of so many independent values of deviation 1

TEST(Random, MomentsAreThoseOfTheDistribution) {
  const Values uniform = drawn("uniform", kMany, 1, 1, 0), normal = drawn("normal", kMany, 1, 1, 0);
  EXPECT_NEAR(meanOf(uniform), 0.5, kSpread * std::sqrt(1 / 12.0));
  EXPECT_NEAR(momentOf(uniform, 0.5, 2), 1 / 12.0, kSpread * std::sqrt(1 / 180.0));
  EXPECT_NEAR(meanOf(normal), 0, kSpread);
  EXPECT_NEAR(momentOf(normal, 0, 2), 1, kSpread * std::sqrt(2.0));
  EXPECT_NEAR(momentOf(normal, 0, 3), 0, kSpread * std::sqrt(15.0));
  EXPECT_NEAR(momentOf(normal, 0, 4), 3, kSpread * std::sqrt(96.0));
}

/// So many are kept as should be, and what is kept makes up for what is not.
TEST(Random, DropoutKeepsTheMean) {
  for (double ratio : {0.1, 0.5, 0.9}) {
    const Tensor ones = tensor(DType::f32, {kMany}, Values(kMany, 1.0));
    const Values kept =
        run({"dropout", {{"ratio", ratio}}, {ones, absent(), drawScalars(5), nodeOf(1)}, {{DType::f32, {kMany}}}})
            .outputs[0];
    const double variance = ratio / (1 - ratio);
    EXPECT_NEAR(meanOf(kept), 1, kSpread * std::sqrt(variance));
    EXPECT_NEAR(momentOf(kept, 1, 2), variance, 0.05 * variance);
  }
}

TEST(Random, NeighboursAreIndependent) {
  for (const std::string kind : {"uniform", "normal"}) {
    const Values one = drawn(kind, kMany, 1, 1, 0);
    for (size_t lag : {1, 2, 3, 4, 5, 64, 1024})
      EXPECT_NEAR(correlation(one, one, lag), 0, kSpread) << kind << " " << lag;
    const Values otherSeed = drawn(kind, kMany, 2, 1, 0), nextDraw = drawn(kind, kMany, 1, 2, 0),
                 otherNode = drawn(kind, kMany, 1, 1, 1), evaluation = drawn(kind, kMany, 1, -1, 0);
    for (const Values &other : {otherSeed, nextDraw, otherNode, evaluation})
      for (size_t lag : {0, 1, 2, 3, 4})
        EXPECT_NEAR(correlation(one, other, lag), 0, kSpread) << kind << " " << lag;
  }
}

} // namespace
} // namespace mt::kernels::test
