// The CPU's losses take weights below 2^-100.5 of the largest for zero, and no others; softmax by itself none, since a
// logarithm may follow.
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mt::kernels::test {
namespace {

constexpr double kGone = -71, kKept = -68; // e^-69.66 is 2^-100.5

/// A row of such scores, and of one that outweighs them.
Tensor rowOf(int64_t width, double score) {
  Values x(static_cast<size_t>(width), score);
  x[0] = 0;
  return tensor(DType::f32, {1, width}, x);
}

/// That of the scores, within a unit of the smallest subnormal number.
void expectWeights(const Call &call, size_t result, double weight) {
  const Outcome outcome = run(call);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  const Values &row = outcome.outputs[result];
  for (size_t i = 1; i < row.size(); ++i)
    ASSERT_NEAR(row[i], weight, 1e-6 * weight + 1.5e-45) << i;
}

TEST(SoftmaxWeights, BeforeALogarithmAreAllKept) {
  for (const int64_t width : {40, 300, 512})
    for (const double score : {kKept, kGone, -90.0}) // of which the last is subnormal
      expectWeights({"softmax", {}, {rowOf(width, score)}, {{DType::f32, {1, width}}}}, 0, std::exp(score));
}

TEST(SoftmaxWeights, OfLossesThatDoNotCountAreZero) {
  for (const int64_t width : {40, 300, 512})
    for (const double score : {kKept, kGone})
      expectWeights({"cross_entropy_grad",
                     {},
                     {rowOf(width, score), tensor(DType::i64, {1}, {0}), scalars({{Scalars::kInverseValid, 1}})},
                     {{DType::f32, {}}, {DType::f32, {1, width}}}},
                    1, score == kGone ? 0 : std::exp(score));
}

} // namespace
} // namespace mt::kernels::test
