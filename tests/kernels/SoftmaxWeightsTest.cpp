// The CPU's softmax takes what is less than 2^-100 of the largest for zero, and no more than that.
#include "kernels/AttentionOperands.h"
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace mt::kernels::test {
namespace {

constexpr int64_t kWidth = 40;
constexpr double kGone = -71, kKept = -68; // e^-69.3 is 2^-100

/// A row of such scores, and of one that outweighs them.
Tensor rowOf(double score) {
  Values x(kWidth, score);
  x[3] = 0;
  return tensor(DType::f32, {1, kWidth}, x);
}

std::vector<Values> resultsOf(const Call &call) {
  const Outcome outcome = run(call);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  return outcome.outputs;
}

/// That of the scores.
void expectWeights(const Values &row, double weight) {
  for (size_t i = 4; i < row.size(); ++i)
    EXPECT_NEAR(row[i], weight, 1e-6 * weight) << i;
}

TEST(SoftmaxWeights, OfProbabilities) {
  for (const double score : {kGone, kKept}) {
    const Values y = resultsOf({"softmax", {}, {rowOf(score)}, {{DType::f32, {1, kWidth}}}})[0];
    EXPECT_EQ(y[3], 1);
    expectWeights(y, score == kGone ? 0 : std::exp(score));
  }
}

TEST(SoftmaxWeights, OfTheLossesGradient) {
  for (const double score : {kGone, kKept}) {
    const std::vector<Values> results =
        resultsOf({"cross_entropy_grad",
                   {},
                   {rowOf(score), tensor(DType::i64, {1}, {3}), scalars({{Scalars::kInverseValid, 1}})},
                   {{DType::f32, {}}, {DType::f32, {1, kWidth}}}});
    expectWeights(results[1], score == kGone ? 0 : std::exp(score));
  }
}

TEST(SoftmaxWeights, OfAttention) {
  for (const double score : {kGone, kKept}) {
    const Dims dims{1, 2, 1, 32};
    Values query(64), key(64), value(64);
    query[0] = query[32] = 1, key[0] = -score; // the second key's score is 0
    std::fill(value.begin() + 32, value.end(), 1e30);
    std::vector<Tensor> in{tensor(DType::f32, dims, query), tensor(DType::f32, dims, key),
                           tensor(DType::f32, dims, value)};
    in.resize(AttentionOperands(false).output, absent());
    const Values out = resultsOf({"attention", {{"scale", 1.0}}, in, {{DType::f32, dims}, {DType::f32, {1, 1, 2}}}})[0];
    for (const double value : out)
      EXPECT_NEAR(value, score == kGone ? 0 : 1e30 * std::exp(score), 1e-6);
  }
}

} // namespace
} // namespace mt::kernels::test
