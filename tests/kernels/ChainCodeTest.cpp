// Machine code of chains against the row functions: the same bits of every function, of numbers that are special too.
#include "kernels/Bf16.h"
#include "kernels/cpu/ChainSteps.h"
#include "kernels/cpu/ElementwiseOps.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

namespace mt::kernels::cpu {
namespace {

struct Function {
  const char *name;
  size_t operands, results = 1;
};
constexpr Function kFunctions[] = {{"add", 2},
                                   {"sub", 2},
                                   {"mul", 2},
                                   {"div", 2},
                                   {"maximum", 2},
                                   {"minimum", 2},
                                   {"compare.eq", 2},
                                   {"compare.ne", 2},
                                   {"compare.lt", 2},
                                   {"compare.le", 2},
                                   {"compare.gt", 2},
                                   {"compare.ge", 2},
                                   {"select", 3},
                                   {"neg", 1},
                                   {"abs", 1},
                                   {"sign", 1},
                                   {"sqrt", 1},
                                   {"rsqrt", 1},
                                   {"reciprocal", 1},
                                   {"floor", 1},
                                   {"ceil", 1},
                                   {"round", 1},
                                   {"is_nan", 1},
                                   {"relu", 1},
                                   {"activation_grad.relu", 2},
                                   {"exp", 1},
                                   {"erf", 1},
                                   {"sigmoid", 1},
                                   {"silu", 1},
                                   {"gelu.tanh", 1},
                                   {"gelu.erf", 1},
                                   {"gelu.sigmoid", 1},
                                   {"activation_grad.sigmoid", 2},
                                   {"activation_grad.silu", 2},
                                   {"activation_grad.gelu_tanh", 2},
                                   {"activation_grad.gelu_erf", 2},
                                   {"activation_grad.gelu_sigmoid", 2},
                                   {"gated_product.sigmoid", 2},
                                   {"gated_product.silu", 2},
                                   {"gated_product.gelu_tanh", 2},
                                   {"gated_product.gelu_erf", 2},
                                   {"gated_product.gelu_sigmoid", 2},
                                   {"gated_product_grad.sigmoid", 3, 2},
                                   {"gated_product_grad.silu", 3, 2},
                                   {"gated_product_grad.gelu_tanh", 3, 2},
                                   {"gated_product_grad.gelu_erf", 3, 2},
                                   {"gated_product_grad.gelu_sigmoid", 3, 2}};

uint32_t bitsOf(float value) { return std::bit_cast<uint32_t>(value); }

/// Numbers at the edges of their kinds, and within the reach of exponentials, of both signs.
std::vector<float> specials() {
  std::vector<float> values;
  for (uint32_t bits : {0x00000000U, 0x00000001U, 0x007fffffU, 0x00800000U, 0x3effffffU, 0x3f000000U, 0x3f800000U,
                        0x3f808000U, 0x3f818000U, 0x3fffffffU, 0x40200000U, 0x4b000000U, 0x4b000001U, 0x7f7f7fffU,
                        0x7f7f8000U, 0x7f7fffffU, 0x7f800000U, 0x7f800001U, 0x7fc00000U, 0x7fffffffU})
    for (uint32_t sign : {0U, 0x80000000U})
      values.push_back(std::bit_cast<float>(bits | sign));
  for (float value : {0.1F, 0.34657F, 0.9999F, 1.7F, 2.302F, 5.01F, 9.3F, 17.3F, 44.0F, 87.4F, 88.73F, 103.9F, 105.0F})
    for (float sign : {-1.0F, 1.0F})
      values.push_back(sign * value);
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

std::vector<std::vector<float>> byRows(const Function &function, const std::vector<std::vector<float>> &operands) {
  std::vector<std::vector<float>> results(function.results, std::vector<float>(operands[0].size()));
  std::vector<const float *> in;
  std::vector<float *> out;
  for (const std::vector<float> &each : operands)
    in.push_back(each.data());
  for (std::vector<float> &each : results)
    out.push_back(each.data());
  rowFunction<float>(function.name)(in.data(), out.data(), static_cast<int64_t>(operands[0].size()));
  return results;
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
      const std::vector<std::vector<float>> want = byRows(function, operands);
      Chain chain{std::vector<bool>(operands.size(), inBf16), {{function.name, {}, false}}, {}};
      for (size_t k = 0; k < operands.size(); ++k)
        chain.operations[0].operands.push_back(k);
      for (size_t r = 0; r < function.results; ++r) {
        const size_t value = operands.size() + r, rounded = operands.size() + function.results + r;
        chain.operations.push_back({"cast", {value}, true});
        chain.writes.insert(chain.writes.end(), {{value, false}, {rounded, true}, {rounded, false}});
      }
      const std::shared_ptr<const ChainCode> code = ChainCode::make(chain);
      ASSERT_TRUE(code) << function.name;
      for (const int64_t count : {1, 7, 15, 16, 17, 33, static_cast<int>(want[0].size())}) {
        std::vector<const void *> reads;
        for (size_t k = 0; k < operands.size(); ++k)
          reads.push_back(inBf16 ? static_cast<const void *>(halves[k].data()) : operands[k].data());
        const auto size = static_cast<size_t>(count);
        struct Written {
          std::vector<float> plain, rounded;
          std::vector<Bf16> stored;
        };
        const std::vector<float> untouched(size + kBehind, -5);
        std::vector<Written> written(function.results,
                                     {untouched, untouched, std::vector<Bf16>(size + kBehind, Bf16{0x1234})});
        std::vector<void *> writes;
        for (Written &one : written)
          writes.insert(writes.end(), {one.plain.data(), one.stored.data(), one.rounded.data()});
        code->run(reads.data(), writes.data(), count);
        for (size_t r = 0; r < function.results; ++r) {
          const Written &one = written[r];
          for (size_t i = 0; i < size; ++i) {
            const float near = widen(nearest(want[r][i]));
            ASSERT_TRUE(areSame(one.plain[i], want[r][i]))
                << function.name << " of number " << i << ": " << one.plain[i] << ", not " << want[r][i];
            ASSERT_TRUE(areSame(one.rounded[i], near) && areSame(widen(one.stored[i]), near))
                << function.name << " of number " << i << " in bf16";
          }
          for (size_t i = size; i < size + kBehind; ++i)
            ASSERT_TRUE(one.plain[i] == -5 && one.rounded[i] == -5 && one.stored[i].bits == 0x1234)
                << function.name << ": behind " << count;
        }
      }
    }
}

/// What two functions both compute is computed once: their code is shorter than that of two others.
TEST(ChainCode, HasWhatFunctionsShareOnce) {
  if (!ChainCode::knows("add"))
    GTEST_SKIP() << "machine code of chains is for processors with AVX-512";
  const auto steps = [](const char *first, const char *second) {
    return ChainSteps({{false, false}, {{first, {0, 1}, false}, {second, {0, 1}, false}}, {}}).steps.size();
  };
  const size_t one = ChainSteps({{false, false}, {{"gated_product.silu", {0, 1}, false}}, {}}).steps.size();
  EXPECT_EQ(steps("gated_product.silu", "gated_product.silu"), one);
  EXPECT_LT(steps("gated_product.silu", "activation_grad.silu"), one + 6);
  EXPECT_GT(steps("gated_product.silu", "gated_product.gelu_sigmoid"), one + 15);
}

/// Sums of many values that are all there at once take more registers than there are.
TEST(ChainCode, RefusesWhatTakesTooManyRegisters) {
  if (!ChainCode::knows("add"))
    GTEST_SKIP() << "machine code of chains is for processors with AVX-512";
  for (const size_t values : {10U, 30U}) {
    Chain chain{std::vector<bool>(values, false), {}, {}};
    for (size_t i = 0; i < values; ++i)
      chain.operations.push_back({"neg", {i}, false});
    for (size_t i = 0; i < values; ++i)
      chain.operations.push_back({"add", {2 * values + i - 1, values + i}, false});
    chain.writes = {{3 * values - 1, false}};
    EXPECT_EQ(ChainCode::make(chain) != nullptr, values == 10) << values;
  }
}

TEST(ChainCode, KnowsNoFunctionThatTakesMore) {
  for (const char *name : {"tanh", "log", "softplus", "pow", "gated_product_grad.softplus", ".mul_add", "nothing"})
    EXPECT_FALSE(ChainCode::knows(name)) << name;
}

} // namespace
} // namespace mt::kernels::cpu
