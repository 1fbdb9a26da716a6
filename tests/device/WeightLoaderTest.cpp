// Initial values: the generator against known answers and in any order, types that convert, and refusals that say
// where.
#include "runtime/host/WeightLoader.h"
#include "runtime/host/Convert.h"
#include "runtime/host/Generator.h"
#include "kernels/Quantized.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace mt::host {
namespace {

using kernels::DType;

TEST(Generator, MatchesThePublishedAnswersOfPhilox) {
  // Random123's kat_vectors for philox4x32 with 10 rounds.
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Generator, GivesTheSameElementsFromAnyPlace) {
  uint64_t key = generatorKey("h.0.attn.weight", 42);
  std::vector<float> whole(1000);
  generateNormal(key, 0, 1, 0.02, whole);
  for (uint64_t first : {1u, 2u, 333u, 998u}) {
    std::vector<float> part(std::min<uint64_t>(100, whole.size() - first));
    generateNormal(key, first, 1, 0.02, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<ptrdiff_t>(first)));
  }
  EXPECT_NE(generatorKey("h.0.attn.weight", 43), key);
  EXPECT_NE(generatorKey("h.1.attn.weight", 42), key);
}

TEST(Generator, GivesTheFormulasFloatsOnEveryInstructionSet) {
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t set = supported; set != 0; set &= set - 1) {
    hwy::SetSupportedTargetsForTest(set & -set);
    hwy::GetChosenTarget().DeInit();
    SCOPED_TRACE(hwy::TargetName(set & -set));
    const struct {
      uint64_t first;
      double mean, deviation;
    } cases[] = {{0, 0, 0.02},   {1, 0, 1},    {(uint64_t{1} << 33) - 1001, 1, 0.02}, {12345, -3e5, 1e-3}, {7, 0, 0},
                 {0, 0, -2e-30}, {3, 0, 1e-38}};
    for (const auto &each : cases)
      for (size_t count : {size_t{0}, size_t{1}, size_t{5}, size_t{200003}}) {
        const uint64_t key = generatorKey("w", each.first);
        std::vector<float> values(count);
        generateNormal(key, each.first, each.mean, each.deviation, values);
        for (size_t i = 0; i < count; ++i) {
          const auto expected = static_cast<float>(each.mean + each.deviation * normalElement(key, each.first + i));
          ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected))
              << each.first + i << ": " << values[i];
        }
      }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

TEST(Generator, IsUniform) {
  std::vector<float> values(1 << 16), part(100);
  const double deviation = 1 / std::sqrt(3.0 * 64); // as of an adapter's matrix for 64 inputs: within 1 / 8
  generateUniform(generatorKey("w", 1), 0, 0, deviation, values);
  generateUniform(generatorKey("w", 1), 1001, 0, deviation, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + 1001));
  std::array<int, 8> counts = {};
  for (float value : values) {
    ASSERT_LE(std::abs(value), 0.125f);
    ++counts[std::min<size_t>(7, static_cast<size_t>((value + 0.125f) * 32))];
  }
  for (int count : counts) // of 8,192 each, with a deviation of 85
    EXPECT_NEAR(count, 1 << 13, 5 * 85);
}

TEST(Generator, IsNormal) {
  std::vector<float> values(1 << 18);
  generateNormal(generatorKey("w", 1), 0, 3, 2, values);
  double count = static_cast<double>(values.size()), sum = 0, squares = 0, within = 0;
  for (float value : values) {
    sum += value;
    squares += (value - 3.0) * (value - 3.0);
    within += std::abs(value - 3) < 2;
  }
  EXPECT_NEAR(sum / count, 3, 0.02);
  EXPECT_NEAR(squares / count, 4, 0.05);
  EXPECT_NEAR(within / count, 0.6827, 0.005);
}

TEST(Convert, ReadsEveryStoredType) {
  const uint16_t halves[] = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0x7C00, 0x0000, 0x8400};
  float expected[] = {1, -2, 0x1p-24f, 65504, INFINITY, 0, -0x1p-14f}, values[7];
  toFloat(DType::f16, reinterpret_cast<const std::byte *>(halves), values);
  EXPECT_TRUE(std::equal(values, values + 7, expected));
  const uint16_t brains[] = {0x3F80, 0xC040};
  toFloat(DType::bf16, reinterpret_cast<const std::byte *>(brains), std::span(values, 2));
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -3);
  const double doubles[] = {0.1, -1e300};
  toFloat(DType::f64, reinterpret_cast<const std::byte *>(doubles), std::span(values, 2));
  EXPECT_EQ(values[0], 0.1f);
  EXPECT_EQ(values[1], -INFINITY);
}

TEST(Convert, SplitsMastersExactly) {
  std::vector<float> values = {
      1, -1, 0.1f, 1e-40f, 3.3895314e38f, 0, std::bit_cast<float>(0x3F808000u)};
  std::vector<kernels::Bf16> hi(values.size());
  std::vector<int16_t> lo(values.size());
  std::vector<float> joined(values.size());
  splitMaster(values, hi.data(), lo.data());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ((static_cast<uint32_t>(hi[i].bits) << 16) + static_cast<uint32_t>(static_cast<int32_t>(lo[i])),
              std::bit_cast<uint32_t>(values[i]));
  EXPECT_EQ(hi.back().bits, 0x3F81); // a half rounds up
  joinMaster(hi.data(), lo.data(), joined);
  EXPECT_EQ(joined, values);
}

/// Parameters over one block of memory.
class Weights : public testing::Test {
protected:
  plan::Plan plan;
  std::vector<std::byte> memory = std::vector<std::byte>(16 << 20, std::byte{0xFF});
  uint64_t used = 0, fingerprint = 0;

  plan::Parameter &add(const std::string &name, int64_t elements, std::vector<std::pair<std::string_view, DType>> parts) {
    plan::Parameter parameter{
        .name = name, .aliases = {}, .dims = {elements}, .trainable = true, .optimizer = {}, .parts = {}, .initial = {}};
    for (auto [role, type] : parts) {
      uint64_t bytes = static_cast<uint64_t>(elements) * kernels::byteSize(type);
      parameter.parts.push_back({std::string(role), type, {0, used, bytes}});
      used += (bytes + 63) / 64 * 64;
    }
    plan.parameters.push_back(parameter);
    return plan.parameters.back();
  }
  template <typename T> std::span<T> part(size_t parameter, size_t index) {
    plan::Span span = plan.parameters[parameter].parts[index].span;
    return {reinterpret_cast<T *>(memory.data() + span.offset), span.bytes / sizeof(T)};
  }
  Status load(int threads = 2) {
    Result<uint64_t> loaded = loadWeights(
        plan, [this](const plan::Span &span) { return std::span(memory).subspan(span.offset, span.bytes); }, threads);
    fingerprint = loaded ? *loaded : 0;
    return loaded.status();
  }
  template <typename T> std::string file(const std::string &name, const std::vector<T> &values, uint64_t skip = 0) {
    std::string path = testing::TempDir() + std::to_string(::getpid()) + name;
    std::ofstream stream(path, std::ios::binary);
    stream.write(std::string(skip, 'x').data(), static_cast<std::streamsize>(skip));
    stream.write(reinterpret_cast<const char *>(values.data()),
                 static_cast<std::streamsize>(values.size() * sizeof(T)));
    return path;
  }
};

TEST_F(Weights, GeneratesAndClearsMoments) {
  constexpr int64_t kElements = 1'000'001; // several chunks, the last one odd
  add("w", kElements,
      {{plan::kWeight, DType::f32}, {"first_moment", DType::f32}, {"second_moment", DType::f32}})
      .initial = {.path = "",
                  .offset = 0,
                  .length = 0,
                  .type = DType::f32,
                  .generator = "normal",
                  .seed = 9,
                  .deviation = 0.02,
                  .value = 0};
  add("gain", 10, {{plan::kWeight, DType::f32}}).initial.generator = "ones";
  add("bias", 10, {{plan::kWeight, DType::f32}}).initial.generator = "zeros";
  ASSERT_EQ(load(3).message(), "");
  std::vector<float> expected(kElements);
  generateNormal(generatorKey("w", 9), 0, 0, 0.02, expected);
  EXPECT_TRUE(std::ranges::equal(part<float>(0, 0), expected));
  EXPECT_TRUE(std::ranges::all_of(part<float>(0, 1), [](float value) { return value == 0; }));
  EXPECT_TRUE(std::ranges::all_of(part<float>(0, 2), [](float value) { return value == 0; }));
  EXPECT_EQ(part<float>(1, 0)[9], 1);
  EXPECT_EQ(part<float>(2, 0)[9], 0);
}

TEST_F(Weights, SplitsGeneratedMasters) {
  add("w", 1001, {{plan::kWeight, DType::bf16}, {plan::kRemainder, DType::i16}}).initial = {.path = "",
                                                                                                  .offset = 0,
                                                                                                  .length = 0,
                                                                                                  .type = DType::f32,
                                                                                                  .generator = "normal",
                                                                                                  .seed = 9,
                                                                                                  .deviation = 0.02,
                                                                                                  .value = 0};
  ASSERT_EQ(load().message(), "");
  std::vector<float> expected(1001);
  generateNormal(generatorKey("w", 9), 0, 0, 0.02, expected);
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ((static_cast<uint32_t>(part<uint16_t>(0, 0)[i]) << 16) +
                  static_cast<uint32_t>(static_cast<int32_t>(part<int16_t>(0, 1)[i])),
              std::bit_cast<uint32_t>(expected[i]));
}

/// Frozen weights in bf16 are rounded to the nearest, stored bf16 is taken as it is.
TEST_F(Weights, RoundsWhatIsFrozen) {
  std::vector<float> stored = {1, std::bit_cast<float>(0x3F808000u), std::bit_cast<float>(0x3F818000u), -INFINITY};
  std::vector<uint16_t> brains = {0x3F80, 0xFFFF, 0x7F80, 0x0001};
  for (const char *name : {"rounded", "taken", "made"}) {
    plan::Parameter &parameter = add(name, 4, {{plan::kWeight, DType::bf16}});
    parameter.trainable = false;
  }
  plan.parameters[0].initial = {.path = file("floats.bin", stored),
                                .offset = 0,
                                .length = 16,
                                .type = DType::f32,
                                .generator = "",
                                .seed = 0,
                                .deviation = 0,
                                .value = 0};
  plan.parameters[1].initial = plan.parameters[0].initial;
  plan.parameters[1].initial.path = file("brains.bin", brains);
  plan.parameters[1].initial.type = DType::bf16;
  plan.parameters[1].initial.length = 8;
  plan.parameters[2].initial.generator = "constant";
  plan.parameters[2].initial.value = static_cast<double>(std::bit_cast<float>(0x3F808000u));
  ASSERT_EQ(load().message(), "");
  const std::vector<uint16_t> rounded = {0x3F80, 0x3F80, 0x3F82, 0xFF80};
  EXPECT_TRUE(std::ranges::equal(part<uint16_t>(0, 0), rounded));
  EXPECT_TRUE(std::ranges::equal(part<uint16_t>(1, 0), brains));
  EXPECT_EQ(part<uint16_t>(2, 0)[3], 0x3F80);
}

/// What tells apart nodes that draw random numbers.
TEST_F(Weights, MakesWholeNumbers) {
  plan::Parameter &parameter = add("number", 3, {{plan::kWeight, DType::i64}});
  parameter.trainable = false;
  parameter.initial.generator = "constant";
  parameter.initial.value = 12345678901;
  ASSERT_EQ(load().message(), "");
  EXPECT_TRUE(std::ranges::equal(part<int64_t>(0, 0), std::vector<int64_t>(3, 12345678901)));
  plan.parameters[0].initial.value = 1e30;
  EXPECT_EQ(load().message(), "parameter \"number\": a weight of type i64 cannot be made from generator constant; compile the "
                              "model again with this version of mtc");
}

TEST_F(Weights, FingerprintIsOfWhatIsFrozen) {
  std::vector<float> stored = {1, 2, 3, 4};
  for (const char *name : {"trained", "frozen", "made"})
    add(name, 4, {{plan::kWeight, DType::f32}}).trainable = std::string_view(name) == "trained";
  for (size_t i : {size_t(0), size_t(1)})
    plan.parameters[i].initial = {.path = "", .offset = 0, .length = 16, .type = DType::f32, .generator = "", .seed = 0, .deviation = 0, .value = 0};
  auto fingerprintWith = [&](const std::vector<float> &trained, const std::vector<float> &frozen, double made) {
    plan.parameters[0].initial.path = file("trained.bin", trained);
    plan.parameters[1].initial.path = file("frozen.bin", frozen);
    plan.parameters[2].initial.generator = "constant";
    plan.parameters[2].initial.value = made;
    EXPECT_EQ(load().message(), "");
    return fingerprint;
  };
  uint64_t whole = fingerprintWith(stored, stored, 1);
  EXPECT_NE(whole, 0u);
  EXPECT_EQ(fingerprintWith({4, 3, 2, 1}, stored, 1), whole);
  EXPECT_NE(fingerprintWith(stored, {1, 2, 3, 5}, 1), whole);
  EXPECT_NE(fingerprintWith(stored, stored, 2), whole);
  EXPECT_EQ(fingerprintWith(stored, stored, 1), whole);
  plan.parameters[1].parts[0].type = DType::bf16; // as another plan might keep it
  plan.parameters[1].parts[0].span.bytes = 8;
  EXPECT_EQ(fingerprintWith(stored, stored, 1), whole);
  plan.parameters.resize(1);
  EXPECT_EQ(load().message(), "");
  EXPECT_EQ(fingerprint, 0u);
}

TEST_F(Weights, RefusesMastersThatDoNotSplit) {
  add("w", 4, {{plan::kWeight, DType::bf16}, {plan::kRemainder, DType::i16}}).initial = {
      .path = "",
      .offset = 0,
      .length = 0,
      .type = DType::f32,
      .generator = "constant",
      .seed = 0,
      .deviation = 0,
      .value = 3.4e38};
  EXPECT_EQ(load().message(), "parameter \"w\": generator constant: element 0 is 3.4e+38: a trainable weight must be "
                              "finite in bf16 too; export the model again");
}

TEST_F(Weights, ReadsFilesAtOffsets) {
  std::vector<double> stored(500'000);
  std::iota(stored.begin(), stored.end(), 0.5);
  add("w", 500'000, {{plan::kWeight, DType::f32}}).initial = {.path = file("doubles.bin", stored, 13),
                                                                 .offset = 13,
                                                                 .length = stored.size() * 8,
                                                                 .type = DType::f64,
                                                                 .generator = "",
                                                                 .seed = 0,
                                                                 .deviation = 0,
                                                                 .value = 0};
  plan::Parameter &mask = add("mask", 4, {{plan::kWeight, DType::i64}});
  mask.trainable = false;
  mask.initial = {.path = file("ints.bin", std::vector<int64_t>{1, -1, 5, 7}),
                  .offset = 0,
                  .length = 32,
                  .type = DType::i64,
                  .generator = "",
                  .seed = 0,
                  .deviation = 0,
                  .value = 0};
  ASSERT_EQ(load().message(), "");
  EXPECT_EQ(part<float>(0, 0)[0], 0.5f);
  EXPECT_EQ(part<float>(0, 0)[499'999], 499999.5f);
  EXPECT_EQ(part<int64_t>(1, 0)[3], 7);
}

TEST_F(Weights, NamesWhatIsNotFinite) {
  std::vector<float> stored(1'200'000, 1);
  stored[1'100'001] = NAN;
  stored[1'199'999] = INFINITY;
  std::string path = file("nan.bin", stored);
  plan::Parameter &parameter = add("h.3.mlp.weight", 1'200'000, {{plan::kWeight, DType::f32}});
  parameter.initial = {.path = path,
                       .offset = 0,
                       .length = stored.size() * 4,
                       .type = DType::f32,
                       .generator = "",
                       .seed = 0,
                       .deviation = 0,
                       .value = 0};
  EXPECT_EQ(load().message(),
            "parameter \"h.3.mlp.weight\": " + path +
                ": element 1100001 is nan: a trainable weight must be finite; export the model again");
  plan.parameters[0].trainable = false; // masks may hold -inf
  EXPECT_EQ(load().message(), "");
}

/// Codes and scales of rows whose last blocks are short, one of zeros among them, of any number of columns.
TEST_F(Weights, PacksRows) {
  for (const auto &[rows, columns] : {std::pair(3, 70), std::pair(5, 7), std::pair(4001, 131), std::pair(1, 600'001)}) {
    plan = {}, used = 0;
    std::ranges::fill(memory, std::byte{0xFF});
    std::vector<float> values(static_cast<size_t>(rows * columns));
    generateNormal(generatorKey("w", 1), 0, 0, 0.02, values);
    std::fill_n(values.begin(), std::min(columns, 64), 0.0f);
    const int64_t blocks = (columns + 63) / 64;
    add("w", (rows * columns + 1) / 2, {{plan::kWeight, DType::u8}}).trainable = false;
    add("w.scales", rows * blocks, {{plan::kWeight, DType::bf16}}).trainable = false;
    for (size_t p : {size_t(0), size_t(1)}) {
      plan::Initial &initial = plan.parameters[p].initial;
      initial.path = file("packed.bin", values);
      initial.length = values.size() * sizeof(float);
      initial.packing = {{rows, columns}, 64, p == 0 ? "" : "w"};
    }
    ASSERT_EQ(load(3).message(), "");
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = i / static_cast<size_t>(columns), block = i % static_cast<size_t>(columns) / 64;
      const uint16_t stored = part<uint16_t>(1, 0)[row * static_cast<size_t>(blocks) + block];
      const float scale = std::bit_cast<float>(static_cast<uint32_t>(stored) << 16);
      const auto level = [&](int code) { return static_cast<float>(kernels::kNormalFloat4[static_cast<size_t>(code)]) * scale; };
      int nearest = 0;
      for (int code = 1; code < 16; ++code)
        if (std::abs(level(code) - values[i]) < std::abs(level(nearest) - values[i]))
          nearest = code;
      const int code = part<uint8_t>(0, 0)[i / 2] >> (i % 2 * 4) & 15;
      // Of two that are equally near, to what 32 bits tell, either.
      ASSERT_LE(std::abs(level(code) - values[i]), std::abs(level(nearest) - values[i]) + 1e-6f * scale)
          << i << " of [" << rows << ", " << columns << "]: " << values[i] << " as " << code << ", not " << nearest;
      ASSERT_GE(std::abs(level(i % 2 == 0 ? 0 : 15)), 0.99f * std::abs(values[i])) << "the scale is too small";
    }
  }
}

/// What a generator makes is packed as a file of the same numbers is, and the fingerprint does not tell how it is kept.
TEST_F(Weights, PacksWhatIsMade) {
  constexpr int64_t kRows = 1000, kColumns = 640;
  for (const char *name : {"w", "v"}) {
    add(name, kRows * kColumns / 2, {{plan::kWeight, DType::u8}}).trainable = false;
    add(std::string(name) + ".scales", kRows * kColumns / 64, {{plan::kWeight, DType::bf16}}).trainable = false;
  }
  std::vector<float> values(kRows * kColumns);
  generateNormal(generatorKey("w", 4), 0, 0, 0.02, values);
  for (size_t p = 0; p < 4; ++p) {
    plan::Initial &initial = plan.parameters[p].initial;
    if (p < 2)
      initial.generator = "normal", initial.seed = 4, initial.deviation = 0.02;
    else
      initial.path = file("made.bin", values), initial.length = values.size() * sizeof(float);
    initial.packing = {{kRows, kColumns}, 64, p == 1 ? "w" : p == 3 ? "v" : ""};
  }
  ASSERT_EQ(load().message(), "");
  EXPECT_TRUE(std::ranges::equal(part<uint8_t>(0, 0), part<uint8_t>(2, 0)));
  EXPECT_TRUE(std::ranges::equal(part<uint16_t>(1, 0), part<uint16_t>(3, 0)));
  const uint64_t packed = fingerprint;
  const plan::Initial made = plan.parameters[0].initial, stored = plan.parameters[2].initial;
  plan = {}, used = 0;
  for (const auto &[name, initial] : {std::pair("w", made), std::pair("v", stored)}) {
    plan::Parameter &whole = add(name, kRows * kColumns, {{plan::kWeight, DType::bf16}});
    whole.trainable = false, whole.dims = {kRows, kColumns}, whole.initial = initial, whole.initial.packing = {};
  }
  ASSERT_EQ(load().message(), "");
  EXPECT_EQ(fingerprint, packed);
}

TEST_F(Weights, PacksWhatIsFiniteAlone) {
  std::vector<float> values(128, 1);
  values[65] = NAN;
  plan::Parameter &parameter = add("w", 64, {{plan::kWeight, DType::u8}});
  parameter.trainable = false;
  parameter.initial.path = file("nan.bin", values), parameter.initial.length = 512;
  parameter.initial.packing = {{2, 64}, 64, ""};
  EXPECT_EQ(load().message(), "parameter \"w\": element 65 is nan: a weight that is packed must be finite; compile it again "
                              "without --base-bits");
}

TEST_F(Weights, NamesFilesThatAreMissingOrShort) {
  plan::Parameter &parameter = add("w", 100, {{plan::kWeight, DType::f32}});
  parameter.initial = {.path = testing::TempDir() + "gone.bin",
                       .offset = 0,
                       .length = 400,
                       .type = DType::f32,
                       .generator = "",
                       .seed = 0,
                       .deviation = 0,
                       .value = 0};
  EXPECT_NE(
      load().message().find("parameter \"w\": " + testing::TempDir() + "gone.bin: cannot be opened: No such file"),
      std::string::npos);
  parameter.initial.path = file("short.bin", std::vector<float>(99));
  EXPECT_NE(load().message().find("short.bin: has 396 bytes, its 400 bytes at offset 0 are not all there"),
            std::string::npos)
      << load().message();
  parameter.initial.offset = UINT64_MAX - 10;
  EXPECT_NE(load().message().find("the file is truncated"), std::string::npos);
  parameter.initial = {.path = file("ints.bin", std::vector<int32_t>(100)),
                       .offset = 0,
                       .length = 400,
                       .type = DType::i32,
                       .generator = "",
                       .seed = 0,
                       .deviation = 0,
                       .value = 0};
  EXPECT_NE(load().message().find("a weight of type f32 cannot be made from i32 in "), std::string::npos);
}

} // namespace
} // namespace mt::host
