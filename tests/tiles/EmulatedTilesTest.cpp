// That the program it is in multiplies on emulated tiles, and what those find.
#include "tests/tiles/EmulatedTiles.h"
#include "kernels/cpu/Bf16Units.h"

#include <gtest/gtest.h>

namespace mt::test {
namespace {

using kernels::cpu::Units;

TEST(Tiles, AreWhatMultipliesHere) {
  if (!kernels::cpu::hasBf16Units())
    GTEST_SKIP() << "this processor has no AVX-512 BF16";
  EXPECT_EQ(kernels::cpu::bf16Units(), Units::tiles);
}

TEST(Tiles, EndTheProgramThatUsesThemUnset) {
  alignas(64) const char row[64] = {};
  EXPECT_DEATH(Tiles().load(0, row, 0), "used without a configuration");
  struct alignas(64) {
    uint8_t bytes[64] = {1};
  } shapes;
  EXPECT_DEATH(Tiles().configure(&shapes), "not whole");
}

/// 1 + 2^-24, four times: the sums of even and of odd products lose nothing that one after another would.
TEST(Tiles, SumEvenAndOddProductsApart) {
  if (!__builtin_cpu_supports("avx512f"))
    GTEST_SKIP() << "emulated tiles multiply with AVX-512";
  struct alignas(64) {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shapes;
  constexpr uint16_t kOne = 0x3f80, kSmall = 0x3380, kSubnormal = 0x0001; // 2^-24
  uint16_t left[16][32] = {}, right[16][32] = {};
  float sums[16][16];
  Tiles tiles;
  tiles.configure(&shapes);
  left[0][0] = kOne, left[0][1] = left[0][3] = left[1][0] = kOne, left[2][0] = kSubnormal;
  right[0][0] = kOne, right[0][1] = right[1][1] = kSmall;
  tiles.clear(0);
  tiles.load(1, left, 64);
  tiles.load(2, right, 64);
  tiles.multiply(0, 1, 2);
  tiles.store(0, sums, 64);
  EXPECT_EQ(sums[0][0], 1 + 0x1p-23F); // 1 + (2^-24 + 2^-24)
  EXPECT_EQ(sums[1][0], 1);
  EXPECT_EQ(sums[2][0], 0);
  EXPECT_EQ(sums[0][1], 0);
}

} // namespace
} // namespace mt::test
