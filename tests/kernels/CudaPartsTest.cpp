// Calls that do not go through one graph of cuDNN's. Attention whose gradient would need room for more pairs of queries
// and keys than a graph is given: it goes by heads of a group, or by blocks of queries, and what keys and values get
// from them is summed. Convolutions of operands that lie where a graph does not take them.
#include "kernels/DeviceScratch.h"
#include "tests/kernels/CudaHarness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

namespace mt::kernels::test {
namespace {

constexpr DType kNarrow = DType::bf16, kWide = DType::f32;

struct PartsCase {
  const char *name;
  int64_t batch, queries, keys, heads, groups;
  Attributes attributes;
  int64_t headsOfPart, parts; ///< of a group; of the queries
};

TEST(CudaParts, GradientsOfAttentionAreThoseOfTheWhole) {
  const PartsCase cases[] = {
      {"heads of a group",
       1,
       8064,
       8320,
       4,
       2,
       {{"minDistance", int64_t{0}}, {"maxDistance", int64_t{300}}, {"offset", int64_t{256}}},
       1,
       1},
      {"a window", 2, 12000, 12000, 2, 1, {{"minDistance", int64_t{0}}, {"maxDistance", int64_t{127}}}, 1, 2},
      {"both sides",
       1,
       24000,
       24032,
       2,
       2,
       {{"minDistance", int64_t{-90}}, {"maxDistance", int64_t{77}}, {"offset", int64_t{32}}},
       1,
       3},
      {"causal", 1, 12000, 12000, 1, 1, {{"minDistance", int64_t{0}}}, 1, 2}};
  for (const PartsCase &c : cases) {
    SCOPED_TRACE(c.name);
    const int64_t width = 8;
    Attributes attributes = c.attributes;
    attributes["scale"] = 0.35;
    const Dims result{c.batch, c.queries, c.heads, width}, keys{c.batch, c.keys, c.groups, width},
        statistic{c.batch, c.heads, c.queries};
    const Tensor query = random(result, 1, 1, kNarrow), key = random(keys, 2, 1, kNarrow),
                 value = random(keys, 3, 1, kNarrow);
    const Call forward{"attention",
                       attributes,
                       {query, key, value, absent(), absent(), absent(), absent(), absent(), absent(), absent()},
                       {{kNarrow, result}, {kWide, statistic}}};
    const std::vector<Values> saved = expectAsOnCpu(forward, 0x1p-6);
    ASSERT_EQ(saved.size(), 2U);
    const Call backward{"attention_grad",
                        attributes,
                        {random(result, 4, 1, kNarrow), query, key, value, absent(), absent(), absent(), absent(),
                         absent(), absent(), absent(), tensor(kNarrow, result, saved[0]),
                         tensor(kWide, statistic, saved[1])},
                        {{kNarrow, result}, {kNarrow, keys}, {kNarrow, keys}, {DType::u8, {}}, {DType::u8, {}}}};
    const FusedAttention cut = FusedAttention::of(backward.signature());
    EXPECT_EQ(cut.refusal, "");
    EXPECT_TRUE(cut.sums());
    EXPECT_EQ(cut.heads, c.headsOfPart);
    EXPECT_EQ((c.queries + cut.queries - 1) / cut.queries, c.parts);
    expectAsOnCpu(backward, 0x1p-5);
  }
}

/// The gradient of a kernel tells which way was taken: a graph rounds it to its operands' type.
bool isRounded(const Values &values) {
  return std::ranges::all_of(
      values, [](double value) { return (std::bit_cast<uint32_t>(static_cast<float>(value)) & 0xFFFF) == 0; });
}

TEST(CudaParts, ConvolutionsOfDisplacedOperandsAreExact) {
  const Dims image{2, 3, 7, 9}, kernel{5, 3, 3, 3}, result{2, 5, 7, 9}, ones{1, 1};
  const Attributes attributes{{"strides", ones}, {"dilations", ones}, {"low", ones}, {"high", ones}};
  const Tensor x = random(image, 1, 1, kNarrow), w = random(kernel, 2, 1, kNarrow), b = random({5}, 3, 1, kNarrow),
               dy = random(result, 4, 1, kNarrow);
  const Call gradient{"conv_weight_grad", attributes, {dy, x}, {{kWide, kernel}}};
  EXPECT_TRUE(isRounded(expectAsOnCpu(gradient, 0x1p-8)[0]));
  for (uint64_t bytes : {4, 8}) {
    Displaced displaced(bytes);
    EXPECT_FALSE(isRounded(expectAsOnCpu(gradient, 1e-5)[0]));
    expectAsOnCpu({"conv", attributes, {x, w, b}, {{kNarrow, result}}}, 0x1p-8);
    expectAsOnCpu({"conv_data_grad", attributes, {dy, w}, {{kNarrow, image}}}, 0x1p-8);
  }
}

} // namespace
} // namespace mt::kernels::test
