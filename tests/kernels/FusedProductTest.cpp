// Products fused with what stands beside them: against the formulas in 64 bits, and in bf16 against f32.
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mt::kernels::test {
namespace {

double gelu(double x) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
double slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

struct Sides {
  bool left, right; ///< transposed
  Tensor lhs, rhs;
  Attributes attributes() const { return {{"transposeLhs", int64_t{left}}, {"transposeRhs", int64_t{right}}}; }
};

/// The product of [37, 29] by [29, 40], in every layout.
std::vector<Sides> layouts(DType type) {
  std::vector<Sides> all;
  for (bool left : {false, true})
    for (bool right : {false, true})
      all.push_back({left, right, random(left ? Dims{29, 37} : Dims{37, 29}, 1, 1, type),
                     random(right ? Dims{40, 29} : Dims{29, 40}, 2, 1, type)});
  return all;
}

Values product(const Sides &sides, const Tensor &bias) {
  Values made;
  for (size_t m = 0; m < 37; ++m)
    for (size_t n = 0; n < 40; ++n) {
      double sum = bias.present ? bias.values[n] : 0;
      for (size_t k = 0; k < 29; ++k)
        sum += sides.lhs.values[sides.left ? k * 37 + m : m * 29 + k] *
               sides.rhs.values[sides.right ? n * 29 + k : k * 40 + n];
      made.push_back(sum);
    }
  return made;
}

Values each(Values values, double (*function)(double)) {
  for (double &value : values)
    value = function(value);
  return values;
}

const Dims kResult = {37, 40};

TEST(FusedProduct, Add) {
  for (const Sides &sides : layouts(DType::f32))
    for (const Tensor &bias : {absent(), random({40}, 3)}) {
      Tensor addend = random(kResult, 4);
      Values sum = product(sides, bias);
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] += addend.values[i];
      expectResults({"matmul_add", sides.attributes(), {sides.lhs, sides.rhs, addend, bias}, {{DType::f32, kResult}}},
                    {sum}, 1e-5);
    }
  for (DType result : {DType::bf16, DType::f32})
    for (const Sides &sides : layouts(DType::bf16)) {
      Tensor addend = random(kResult, 4, 1, result), bias = random({40}, 3, 1, result);
      Values sum = product(sides, bias);
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] += addend.values[i];
      Call call{"matmul_add", sides.attributes(), {sides.lhs, sides.rhs, addend, bias}, {{result, kResult}}};
      if (result == DType::f32)
        expectResults(call, {sum}, 1e-5);
      else
        expectNarrow(call, 2, 2e-2); // where it adds to what is there a sum of two may be rounded before the third
    }
}

TEST(FusedProduct, AddOfABatch) {
  for (const Dims &rhs : {Dims{7, 8}, Dims{2, 3, 7, 8}}) {
    Tensor lhs = random({2, 3, 5, 7}, 1), right = random(rhs, 2), addend = random({2, 3, 5, 8}, 3);
    Values sum = run({"matmul", {}, {lhs, right, absent()}, {{DType::f32, {2, 3, 5, 8}}}}).outputs[0];
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] += addend.values[i];
    expectResults({"matmul_add", {}, {lhs, right, addend, absent()}, {{DType::f32, {2, 3, 5, 8}}}}, {sum}, 1e-5);
  }
}

TEST(FusedProduct, Gelu) {
  for (const Sides &sides : layouts(DType::f32))
    for (const Tensor &bias : {absent(), random({40}, 3)}) {
      Values input = product(sides, bias);
      expectResults({"matmul_gelu",
                     sides.attributes(),
                     {sides.lhs, sides.rhs, bias},
                     {{DType::f32, kResult}, {DType::f32, kResult}}},
                    {each(input, gelu), input}, 2e-5);
    }
  for (const Sides &sides : layouts(DType::bf16)) // the product may be rounded before gelu is taken of it
    expectNarrow({"matmul_gelu",
                  sides.attributes(),
                  {sides.lhs, sides.rhs, random({40}, 3, 1, DType::bf16)},
                  {{DType::bf16, kResult}, {DType::bf16, kResult}}},
                 3, 2e-3);
}

TEST(FusedProduct, GeluOfABatch) {
  Tensor lhs = random({2, 3, 5, 7}, 1), rhs = random({7, 8}, 2);
  Call call{"matmul_gelu", {}, {lhs, rhs, absent()}, {{DType::f32, {2, 3, 5, 8}}, {DType::f32, {2, 3, 5, 8}}}};
  Values input = run({"matmul", {}, {lhs, rhs, absent()}, {{DType::f32, {2, 3, 5, 8}}}}).outputs[0];
  expectResults(call, {each(input, gelu), input}, 2e-5);
}

TEST(FusedProduct, GeluGradient) {
  for (const Sides &sides : layouts(DType::f32)) {
    Tensor input = random(kResult, 3, 3);
    Values expected = product(sides, absent());
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] *= slope(input.values[i]);
    expectResults({"matmul_gelu_grad", sides.attributes(), {sides.lhs, sides.rhs, input}, {{DType::f32, kResult}}},
                  {expected}, 2e-5);
  }
  for (const Sides &sides : layouts(DType::bf16))
    expectNarrow({"matmul_gelu_grad",
                  sides.attributes(),
                  {sides.lhs, sides.rhs, random(kResult, 3, 3, DType::bf16)},
                  {{DType::bf16, kResult}}},
                 3, 2e-3);
}

TEST(FusedProduct, Sums) {
  for (DType type : {DType::f32, DType::bf16})
    for (const Sides &sides : layouts(type))
      for (bool left : {false, true}) {
        if (left ? !sides.left : sides.right)
          continue;
        Attributes attributes = sides.attributes();
        attributes["sumsOfLhs"] = int64_t{left};
        const Tensor &summed = left ? sides.lhs : sides.rhs;
        size_t width = left ? 37 : 40;
        Values sums(width, 0);
        for (size_t i = 0; i < summed.values.size(); ++i)
          sums[i % width] += summed.values[i];
        expectResults({"matmul_sums",
                       attributes,
                       {sides.lhs, sides.rhs},
                       {{DType::f32, kResult}, {DType::f32, {static_cast<int64_t>(width)}}}},
                      {product(sides, absent()), sums}, 2e-5);
      }
}

TEST(FusedProduct, Refusals) {
  Sides sides = layouts(DType::f32)[0];
  auto problem = [&](const char *kernel, Attributes attributes, std::vector<Tensor> inputs,
                     std::vector<Output> outputs) {
    return check(Call{kernel, std::move(attributes), std::move(inputs), std::move(outputs)}.signature());
  };
  Output result{DType::f32, kResult};
  EXPECT_EQ(problem("matmul_sums", {{"sumsOfLhs", int64_t{1}}}, {sides.lhs, sides.rhs}, {result, {DType::f32, {37}}}),
            "matmul_sums: sums are over the first dimension of what is summed, which must be the product's summed one");
  EXPECT_NE(problem("matmul_gelu", {}, {sides.lhs, sides.rhs, absent()}, {result, {DType::f32, {40, 37}}}), "");
  EXPECT_NE(problem("matmul_add", {}, {sides.lhs, sides.rhs, random({40}, 1), absent()}, {result}), "");
  EXPECT_NE(problem("matmul_add", {}, {sides.lhs, sides.rhs, random(kResult, 1, 1, DType::bf16), absent()}, {result}),
            "");
  EXPECT_NE(problem("matmul_gelu_grad", {}, {sides.lhs, sides.rhs, random({37, 41}, 1)}, {result}), "");
}

} // namespace
} // namespace mt::kernels::test
