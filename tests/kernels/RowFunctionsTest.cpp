// Elementary functions of the CPU's rows against the C library's in 64 bits, over the numbers that there are.
#include "kernels/cpu/ElementwiseOps.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace mt::kernels::cpu {
namespace {

std::vector<float> rowOf(const char *function, const std::vector<float> &x) {
  std::vector<float> result(x.size());
  const float *in[] = {x.data()};
  float *out[] = {result.data()};
  rowFunction<float>(function)(in, out, static_cast<int64_t>(x.size()));
  return result;
}

/// Distance of floats next to a number.
double unitOf(double value) {
  const int exponent = std::max(std::ilogb(value), std::numeric_limits<float>::min_exponent - 1);
  return std::ldexp(1.0, exponent - (std::numeric_limits<float>::digits - 1));
}

TEST(RowFunctions, ExpIsWithinOneUnitInTheLastPlace) {
  std::vector<float> x;
  for (const uint32_t sign : {0U, 0x80000000U}) // from 1e-10 on to where nothing but zero and infinity comes
    for (uint32_t bits = 0x2edbe6ffU; bits < std::bit_cast<uint32_t>(110.0F); bits += 97)
      x.push_back(std::bit_cast<float>(bits | sign));
  const std::vector<float> result = rowOf("exp", x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    if (want > static_cast<double>(std::numeric_limits<float>::max())) {
      ASSERT_TRUE(std::isinf(result[i])) << x[i];
      continue;
    }
    worst = std::max(worst, std::abs(static_cast<double>(result[i]) - want) / unitOf(want));
  }
  EXPECT_LT(worst, 1);
}

TEST(RowFunctions, ExpOfNumbersAtTheEdges) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLeast = std::numeric_limits<float>::denorm_min();
  const std::vector<float> result = rowOf("exp", {0.0F, -0.0F, kLeast, kInfinity, -kInfinity, 1e30F, -1e30F, 88.72F,
                                                  88.722F, 88.723F, -103.9F, -104.0F, std::nanf("")});
  for (const size_t i : {0, 1, 2})
    EXPECT_EQ(result[i], 1);
  for (const size_t i : {3, 5, 9})
    EXPECT_EQ(result[i], kInfinity);
  for (const size_t i : {4, 6, 11})
    EXPECT_EQ(result[i], 0);
  for (const size_t i : {7, 8})
    EXPECT_TRUE(std::isfinite(result[i]) && result[i] > 3.3e38F);
  EXPECT_EQ(result[10], kLeast);
  EXPECT_TRUE(std::isnan(result[12]));
}

} // namespace
} // namespace mt::kernels::cpu
