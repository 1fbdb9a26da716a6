#include "runtime/base/Sizes.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

TEST(Sizes, ParsesUnits) {
  EXPECT_EQ(*parseSize("0"), 0u);
  EXPECT_EQ(*parseSize("4096"), 4096u);
  EXPECT_EQ(*parseSize("17B"), 17u);
  EXPECT_EQ(*parseSize("3 KiB"), 3072u);
  EXPECT_EQ(*parseSize("1.5GiB"), 1610612736u);
  EXPECT_EQ(*parseSize("1536GiB"), 1536ull << 30);
  EXPECT_EQ(*parseSize("2TiB"), 2ull << 40);
  EXPECT_EQ(*parseSize("5KB"), 5000u);
  EXPECT_EQ(*parseSize("80GB"), 80'000'000'000u);
  EXPECT_EQ(*parseSize("1TB"), 1'000'000'000'000u);
  EXPECT_EQ(*parseSize("12mib"), 12u << 20);
  EXPECT_EQ(*parseSize("9007199254740993"), 9007199254740993u); // not a double
}

TEST(Sizes, RefusesWhatIsNoSize) {
  for (const char *text : {"", "GiB", "-1", "-1GiB", "1 GiB x", "1 G", "1e", "inf", "nan", "0x10", "1,5GiB"}) {
    const auto size = parseSize(text);
    EXPECT_FALSE(size.ok()) << text;
    EXPECT_NE(size.status().message().find("is not a size"), std::string::npos) << size.status().message();
  }
  EXPECT_NE(parseSize("99999999TiB").status().message().find("check the unit"), std::string::npos);
}

TEST(Sizes, FormatsForPeople) {
  EXPECT_EQ(formatSize(0), "0 B");
  EXPECT_EQ(formatSize(1023), "1023 B");
  EXPECT_EQ(formatSize(1024), "1.00 KiB");
  EXPECT_EQ(formatSize(432328704), "412.3 MiB");
  EXPECT_EQ(formatSize(1524713390), "1.42 GiB");
  EXPECT_EQ(formatSize((1ull << 30) - 1), "1.00 GiB");
  EXPECT_EQ(formatSize(1536ull << 30), "1.50 TiB");
  EXPECT_EQ(formatExactSize(432328704), "412.3 MiB (432,328,704 bytes)");
  EXPECT_EQ(formatExactSize(12), "12 B");
  EXPECT_EQ(formatCount(124.4e6), "124.4 M");
  EXPECT_EQ(formatCount(17), "17");
  EXPECT_EQ(formatCount(119.26e9), "119.3 G");
  EXPECT_EQ(formatFlops(8.25e12), "8.25 Tflop");
  EXPECT_EQ(formatFlops(0), "0 flop");
  EXPECT_EQ(formatBandwidth(55e9), "55.0 GB/s");
}

TEST(Sizes, FormatsSeconds) {
  EXPECT_EQ(formatSeconds(0), "0 s");
  EXPECT_EQ(formatSeconds(1.9), "1.90 s");
  EXPECT_EQ(formatSeconds(45.24), "45.2 s");
  EXPECT_EQ(formatSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(formatSeconds(0.00045), "450.0 us");
  EXPECT_EQ(formatSeconds(125), "2 min 5 s");
  EXPECT_EQ(formatSeconds(7500), "2 h 5 min");
  EXPECT_EQ(formatSeconds(0x1p80), "335812727670730326016 h 16 min"); // more than integers hold
}

} // namespace
} // namespace mt
