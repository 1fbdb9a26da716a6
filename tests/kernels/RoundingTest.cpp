// Floats rounded to bf16 by vectors, and by the processor's unit where it has one, against nearest() of each.
#include "kernels/cpu/RoundingUnit.h"
#include "kernels/cpu/Vector.h"

#include <gtest/gtest.h>

#include <vector>

namespace mt::kernels::cpu {
namespace {

uint32_t bitsOf(float value) { return std::bit_cast<uint32_t>(value); }

/// Every upper half, with lower halves on both sides of the middle: subnormal numbers, infinities and NaN among them.
std::vector<float> allKinds() {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 1 << 16; ++upper)
    for (uint32_t lower : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  return values;
}

using Narrow = void (*)(const float *, int64_t, Bf16 *);
using Round = void (*)(const float *, int64_t, float *);

void expectNearest(const std::vector<float> &values, int64_t each, Narrow narrow, Round round) {
  std::vector<Bf16> halves(values.size());
  std::vector<float> rounded = values;
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(each)) {
    const int64_t count = std::min(each, static_cast<int64_t>(values.size() - i));
    narrow(&values[i], count, &halves[i]);
    round(&rounded[i], count, &rounded[i]);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(halves[i].bits, nearest(values[i]).bits) << std::hex << bitsOf(values[i]);
    ASSERT_EQ(bitsOf(rounded[i]), bitsOf(widen(halves[i]))) << std::hex << bitsOf(values[i]);
  }
}

TEST(Rounding, IsTheNearest) {
  const Narrow narrow = [](const float *from, int64_t count, Bf16 *to) { vec::narrow(from, count, false, to); };
  for (int64_t each : {1, 15, 16, 17, 100000})
    expectNearest(allKinds(), each, narrow, vec::roundToBf16);
}

TEST(Rounding, ByTheUnitIsTheNearest) {
  if (!roundsByUnit())
    GTEST_SKIP() << "the processor has no unit that rounds to bf16";
  for (int64_t each : {1, 15, 16, 17, 100000})
    expectNearest(allKinds(), each, narrowByUnit, roundByUnit);
}

TEST(Rounding, OfWhatIsAddedToWhatIsThere) {
  const std::vector<float> values = allKinds();
  for (int64_t each : {7, 16, 333}) {
    std::vector<Bf16> sums(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      sums[i] = nearest(values[values.size() - 1 - i] / 3);
    const std::vector<Bf16> before = sums;
    for (size_t i = 0; i < values.size(); i += static_cast<size_t>(each))
      vec::narrow(&values[i], std::min(each, static_cast<int64_t>(values.size() - i)), true, &sums[i]);
    for (size_t i = 0; i < values.size(); ++i) {
      const float sum = widen(before[i]) + values[i];
      if (sum == sum) // which of two NaN comes of a sum is the compiler's choice
        ASSERT_EQ(sums[i].bits, nearest(sum).bits) << std::hex << bitsOf(values[i]);
      else
        ASSERT_NE(widen(sums[i]), widen(sums[i]));
    }
  }
}

TEST(Rounding, InThePlaceOfTheFloats) {
  std::vector<float> values = allKinds();
  const std::vector<float> before = values;
  auto *halves = reinterpret_cast<Bf16 *>(values.data());
  vec::narrow(values.data(), static_cast<int64_t>(values.size()), false, halves);
  for (size_t i = 0; i < before.size(); ++i)
    ASSERT_EQ(halves[i].bits, nearest(before[i]).bits) << i;
}

} // namespace
} // namespace mt::kernels::cpu
