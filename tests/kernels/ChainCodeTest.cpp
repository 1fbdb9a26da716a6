// Machine code of chains against the row functions: the same bits of every function, of numbers that are special too.
#include "kernels/cpu/ChainCode.h"
#include "kernels/Bf16.h"
#include "kernels/cpu/ElementwiseOps.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

namespace mt::kernels::cpu {
namespace {

struct Function {
  const char *name;
  size_t operands;
};
constexpr Function kFunctions[] = {
    {"add", 2},        {"sub", 2},        {"mul", 2},        {"div", 2},        {"maximum", 2},
    {"minimum", 2},    {"compare.eq", 2}, {"compare.ne", 2}, {"compare.lt", 2}, {"compare.le", 2},
    {"compare.gt", 2}, {"compare.ge", 2}, {"select", 3},     {"neg", 1},        {"abs", 1},
    {"sign", 1},       {"sqrt", 1},       {"rsqrt", 1},      {"reciprocal", 1}, {"floor", 1},
    {"ceil", 1},       {"round", 1},      {"is_nan", 1},     {"relu", 1},       {"activation_grad.relu", 2}};

uint32_t bitsOf(float value) { return std::bit_cast<uint32_t>(value); }

/// Numbers at the edges of their kinds, of both signs.
std::vector<float> specials() {
  std::vector<float> values;
  for (uint32_t bits : {0x00000000U, 0x00000001U, 0x007fffffU, 0x00800000U, 0x3effffffU, 0x3f000000U, 0x3f800000U,
                        0x3f808000U, 0x3f818000U, 0x3fffffffU, 0x40200000U, 0x4b000000U, 0x4b000001U, 0x7f7f7fffU,
                        0x7f7f8000U, 0x7f7fffffU, 0x7f800000U, 0x7f800001U, 0x7fc00000U, 0x7fffffffU})
    for (uint32_t sign : {0U, 0x80000000U})
      values.push_back(std::bit_cast<float>(bits | sign));
  return values;
}

/// Every special number with every other, and with a third.
std::vector<std::vector<float>> operandsOf(size_t count) {
  const std::vector<float> all = specials();
  std::vector<std::vector<float>> operands(count);
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < all.size(); ++j)
      for (size_t k = 0; k < count; ++k)
        operands[k].push_back(all[(k == 0 ? i : k == 1 ? j : i + 3 * j) % all.size()]);
  return operands;
}

std::vector<float> byRows(const std::string &function, const std::vector<std::vector<float>> &operands) {
  if (function == "cast")
    return operands[0];
  std::vector<float> result(operands[0].size());
  std::vector<const float *> in;
  for (const std::vector<float> &each : operands)
    in.push_back(each.data());
  float *out[] = {result.data()};
  rowFunction<float>(function)(in.data(), out, static_cast<int64_t>(result.size()));
  return result;
}

bool areSame(float a, float b) { return bitsOf(a) == bitsOf(b) || (std::isnan(a) && std::isnan(b)); }

TEST(ChainCode, GivesTheBitsOfRowFunctions) {
  if (!ChainCode::knows("add"))
    GTEST_SKIP() << "machine code of chains is for processors with AVX-512";
  constexpr size_t kBehind = 16; // elements that nobody may touch
  for (const Function &function : kFunctions)
    for (const bool inBf16 : {false, true}) {
      std::vector<std::vector<float>> operands = operandsOf(function.operands);
      std::vector<std::vector<Bf16>> halves(operands.size());
      for (size_t k = 0; k < operands.size() && inBf16; ++k)
        for (float &value : operands[k]) {
          halves[k].push_back(nearest(value));
          value = widen(halves[k].back());
        }
      const std::vector<float> want = byRows(function.name, operands);
      Chain chain{std::vector<bool>(operands.size(), inBf16),
                  {{function.name, {}, false}, {"cast", {operands.size()}, true}},
                  {}};
      for (size_t k = 0; k < operands.size(); ++k)
        chain.operations[0].operands.push_back(k);
      chain.writes = {{operands.size(), false}, {operands.size() + 1, true}, {operands.size() + 1, false}};
      const std::shared_ptr<const ChainCode> code = ChainCode::make(chain);
      ASSERT_TRUE(code) << function.name;
      for (const int64_t count : {1, 7, 15, 16, 17, 33, static_cast<int>(want.size())}) {
        std::vector<const void *> reads;
        for (size_t k = 0; k < operands.size(); ++k)
          reads.push_back(inBf16 ? static_cast<const void *>(halves[k].data()) : operands[k].data());
        const auto size = static_cast<size_t>(count);
        std::vector<float> plain(size + kBehind, -5), rounded(size + kBehind, -5);
        std::vector<Bf16> stored(size + kBehind, Bf16{0x1234});
        void *writes[] = {plain.data(), stored.data(), rounded.data()};
        code->run(reads.data(), writes, count);
        for (size_t i = 0; i < size; ++i) {
          const float near = widen(nearest(want[i]));
          ASSERT_TRUE(areSame(plain[i], want[i]))
              << function.name << " of number " << i << ": " << plain[i] << ", not " << want[i];
          ASSERT_TRUE(areSame(rounded[i], near) && areSame(widen(stored[i]), near))
              << function.name << " of number " << i << " in bf16";
        }
        for (size_t i = size; i < size + kBehind; ++i)
          ASSERT_TRUE(plain[i] == -5 && rounded[i] == -5 && stored[i].bits == 0x1234)
              << function.name << ": behind " << count;
      }
    }
}

/// Sums of many values that are all there at once take more registers than there are.
TEST(ChainCode, RefusesWhatTakesTooManyRegisters) {
  if (!ChainCode::knows("add"))
    GTEST_SKIP() << "machine code of chains is for processors with AVX-512";
  for (const size_t values : {10U, 30U}) {
    Chain chain{{false}, {}, {}};
    for (size_t i = 0; i < values; ++i)
      chain.operations.push_back({"neg", {0}, false});
    for (size_t i = 0; i < values; ++i)
      chain.operations.push_back({"add", {values + i, 1 + i}, false});
    chain.writes = {{2 * values, false}};
    EXPECT_EQ(ChainCode::make(chain) != nullptr, values == 10) << values;
  }
}

TEST(ChainCode, KnowsNoFunctionThatTakesMore) {
  for (const char *name : {"exp", "gelu.erf", "pow", "gated_product_grad.silu", "nothing"})
    EXPECT_FALSE(ChainCode::knows(name)) << name;
}

} // namespace
} // namespace mt::kernels::cpu
