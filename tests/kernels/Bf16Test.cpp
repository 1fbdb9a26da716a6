// Every kernel with bf16 operands, on its own or beside f32: against the f32 kernel on the same values, rounded. The
// head, which rounds on the way, against the products and losses that it is made of.
#include "kernels/cpu/Bf16Units.h"
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>

namespace mt::kernels::test {
namespace {

constexpr DType kNarrow = DType::bf16, kWide = DType::f32;
constexpr DType kBoth[] = {kNarrow, kWide};

/// `onCpu`, or what a GPU is allowed: its units for 16 bits sum products with fewer bits than 32, and its attention
/// rounds probabilities and their gradients to bf16 between two products.
double within(double onCpu, double onGpu) { return kBackend == Backend::cpu ? onCpu : onGpu; }
/// Of attention, which rounds so on a CPU with such units, too.
double withinAttention(double inFloats, double inUnits) {
  return kBackend == Backend::cpu && !cpu::hasBf16Units() ? inFloats : inUnits;
}

Tensor narrow(Dims dims, uint64_t seed, double scale = 1) { return random(std::move(dims), seed, scale, kNarrow); }
Output none() { return {DType::u8, {}}; }
Tensor as(Tensor tensor, DType type) {
  tensor.type = type;
  return tensor;
}
Attributes flags(bool left, bool right) { return {{"transposeLhs", int64_t{left}}, {"transposeRhs", int64_t{right}}}; }

TEST(Bf16, Matmul) {
  for (bool left : {false, true})
    for (bool right : {false, true})
      for (DType result : kBoth) {
        Tensor lhs = narrow(left ? Dims{3, 37, 29} : Dims{3, 29, 37}, 1);
        Tensor rhs = narrow(right ? Dims{3, 45, 37} : Dims{3, 37, 45}, 2);
        for (const Tensor &bias : {absent(), narrow({45}, 3), random({45}, 4)})
          expectNarrow({"matmul", flags(left, right), {lhs, rhs, bias}, {{result, {3, 29, 45}}}}, 1, within(1e-6, 1e-5));
        Tensor shared = narrow(right ? Dims{45, 37} : Dims{37, 45}, 5);
        expectNarrow({"matmul", flags(left, right), {lhs, shared, absent()}, {{result, {3, 29, 45}}}}, 1,
                     within(1e-6, 1e-5));
        Tensor tall = narrow(left ? Dims{2100, 300} : Dims{300, 2100}, 6); // several blocks and panels
        Tensor wide = narrow(right ? Dims{410, 2100} : Dims{2100, 410}, 7);
        for (const Tensor &bias : {absent(), random({410}, 8)})
          expectNarrow({"matmul", flags(left, right), {tall, wide, bias}, {{result, {300, 410}}}}, 1,
                       within(5e-5, 5e-4)); // 2,100 products in 32 bits, in one order and another
      }
}

/// A product's rows have the same bits however many there are - but for a few, which libraries multiply otherwise -
/// and so a micro-batch's have them; also those of units that the processor has for bf16.
TEST(Bf16, RowsDoNotDependOnHowManyThereAre) {
  if (kBackend != Backend::cpu)
    GTEST_SKIP() << "a GPU's library chooses its product by the number of rows";
  for (const auto &[depth, columns] : {std::pair<int64_t, int64_t>(768, 400), {1030, 96}, {37, 45}, {3072, 768}})
    for (bool right : {false, true})
      for (DType result : kBoth) {
        const Tensor all = narrow({517, depth}, 1), rhs = narrow(right ? Dims{columns, depth} : Dims{depth, columns}, 2);
        const Outcome whole = run({"matmul", flags(false, right), {all, rhs, absent()}, {{result, {517, columns}}}});
        for (int64_t rows : {16, 31, 128, 300}) {
          Tensor some = all;
          some.dims[0] = rows, some.values.resize(static_cast<size_t>(rows * depth));
          const Outcome part = run({"matmul", flags(false, right), {some, rhs, absent()}, {{result, {rows, columns}}}});
          for (size_t i = 0; i < part.outputs[0].size(); ++i)
            ASSERT_EQ(part.outputs[0][i], whole.outputs[0][i]) << rows << " rows of " << depth << ", element " << i;
        }
      }
}

/// The products are exact and the sums in 32 bits: against 64 bits.
TEST(Bf16, MatmulAgainst64Bits) {
  Tensor lhs = narrow({19, 1500}, 1), rhs = narrow({1500, 23}, 2);
  Values expected;
  for (size_t i = 0; i < 19; ++i)
    for (size_t j = 0; j < 23; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 1500; ++k)
        sum += lhs.values[i * 1500 + k] * rhs.values[k * 23 + j];
      expected.push_back(sum);
    }
  double tolerance = within(2e-5, 5e-4);
  Outcome outcome = run({"matmul", {}, {lhs, rhs, absent()}, {{kWide, {19, 23}}}});
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(outcome.outputs[0][i], expected[i], tolerance);
  outcome = run({"matmul", {}, {lhs, rhs, absent()}, {{kNarrow, {19, 23}}}});
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(outcome.outputs[0][i], expected[i], std::abs(expected[i]) * 0x1p-8 + tolerance);
}

struct AttentionCase {
  int64_t batch, queries, keys, heads, groups, width, valueWidth;
  Dims bias;
  bool masks;
  Attributes attributes;
  bool sink = false, places = false, segments = false;
};
const AttentionCase kAttention[] = {
    {2, 70, 300, 4, 2, 24, 17, {}, false, {{"scale", 0.25}, {"minDistance", int64_t{0}}, {"offset", int64_t{230}}}},
    {2, 65, 65, 3, 3, 8, 8, {2, 3, 65, 65}, true, {{"scale", 0.5}}},
    {1,
     300,
     600,
     2,
     1,
     8,
     8,
     {},
     false,
     {{"scale", 0.4}, {"minDistance", int64_t{0}}, {"offset", int64_t{300}}}}, // in stripes
    {2, 33, 40, 4, 2, 8, 8, {1, 4, 33, 40}, false, {{"scale", 0.5}, {"softCap", 3.0}}},
    {2, 33, 40, 4, 2, 8, 8, {1, 1, 1, 40}, false, {{"scale", 0.5}}},
    {2, 33, 40, 4, 2, 8, 8, {2, 1, 33, 40}, false, {{"scale", 0.5}}}};
/// With what most attention does not have.
const AttentionCase kOtherAttention[] = {
    {2, 40, 40, 4, 2, 16, 8, {}, false, {{"scale", 0.4}, {"minDistance", int64_t{0}}}, true}, // a GPU's by cuDNN's
                                                                                              // graph
    {1, 19, 24, 4, 2, 8, 8, {}, true, {{"scale", 0.4}, {"minDistance", int64_t{-9}}, {"dilation", int64_t{2}}}, true},
    {2, 19, 24, 4, 2, 8, 8, {1, 4, 1, 130}, true, {{"scale", 0.5}, {"softCap", 3.0}}, true, true},
    {2, 19, 24, 4, 2, 8, 8, {2, 1, 1, 130}, false, {{"scale", 0.5}}, false, true}};
/// Of several blocks of keys and of queries; a few threads have whole groups of the first, nine have stripes. Widths
/// that are no multiples of a panel, gaps in what is seen, scores that are scaled late, early and by less than zero.
const AttentionCase kLongAttention[] = {
    {1, 290, 560, 4, 4, 40, 72, {}, false, {{"scale", 0.2}, {"minDistance", int64_t{0}}, {"offset", int64_t{270}}}},
    {2, 300, 300, 4, 2, 32, 16, {}, true, {{"scale", -0.2}, {"minDistance", int64_t{-3}}, {"maxDistance", int64_t{50}}, {"prefix", int64_t{9}}}},
    {1, 140, 270, 2, 1, 16, 16, {}, false, {{"scale", 0.3}}, false, false, true},
    {1, 70, 70, 2, 2, 16, 16, {}, false, {{"scale", 0.3}, {"segmentBias", -2.0}}, true, false, true}};

/// Places in rows of five, as whole numbers of 32 bits, later by so many.
Tensor places(int64_t count, int64_t later) {
  Values values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(i / 5 * 9 + i % 5 + later));
  return tensor(DType::i32, {count}, values);
}

void expectNarrowAttention(std::span<const AttentionCase> cases) {
  for (const AttentionCase &c : cases)
    for (DType biasType : kBoth)
      for (DType dbiasType : {biasType, kWide}) {
        Tensor query = narrow({c.batch, c.queries, c.heads, c.width}, 1, 2),
               key = narrow({c.batch, c.keys, c.groups, c.width}, 2, 2),
               value = narrow({c.batch, c.keys, c.groups, c.valueWidth}, 3);
        Tensor bias = c.bias.empty() ? absent() : random(c.bias, 4, 1, biasType);
        Tensor mask = c.masks ? integers({c.batch, c.keys}, 0, 2, 5, DType::boolean) : absent();
        Tensor querySegment = c.segments ? integers({c.batch, c.queries}, 0, 2, 8) : absent(),
               keySegment = c.segments ? integers({c.batch, c.keys}, 0, 2, 9) : absent();
        Tensor queryPlace = c.places ? places(c.queries, 0) : absent(),
               keyPlace = c.places ? places(c.keys, 62) : absent(),
               sink = c.sink ? random({c.heads}, 7, 2, biasType) : absent();
        Dims result = {c.batch, c.queries, c.heads, c.valueWidth}, statistic = {c.batch, c.heads, c.queries};
        Call forward{"attention",
                     c.attributes,
                     {query, key, value, bias, mask, querySegment, keySegment, queryPlace, keyPlace, sink},
                     {{kNarrow, result}, {kWide, statistic}}};
        expectNarrow(forward, 1, withinAttention(1e-5, 0.01));
        std::vector<Values> saved = run(forward).outputs;
        expectNarrow({"attention_grad",
                      c.attributes,
                      {narrow(result, 6), query, key, value, bias, mask, querySegment, keySegment, queryPlace, keyPlace, sink,
                       tensor(kNarrow, result, saved[0]), tensor(kWide, statistic, saved[1])},
                      {{kNarrow, query.dims},
                       {kNarrow, key.dims},
                       {kNarrow, value.dims},
                       bias.present ? Output{dbiasType, c.bias} : none(),
                       sink.present ? Output{dbiasType, sink.dims} : none()}},
                     1, withinAttention(2e-5, 0.04));
      }
}

TEST(Bf16, AttentionAndGradient) { expectNarrowAttention(kAttention); }
TEST(Bf16, OtherAttentionAndGradient) { expectNarrowAttention(kOtherAttention); }
TEST(Bf16, LongAttentionAndGradient) {
  if (kBackend != Backend::cpu)
    GTEST_SKIP() << "blocks are the CPU's; a GPU has its own cases";
  expectNarrowAttention(kLongAttention);
}

TEST(Bf16, Norms) {
  Attributes epsilon = {{"epsilon", 1e-5}};
  Dims dims = {37, 130}, row = {130}, statistic = {37};
  for (DType x : kBoth)
    for (DType gain : kBoth)
      for (DType other : kBoth) {
        Tensor operand = as(narrow(dims, 1, 3), x), gains = as(narrow(row, 2), gain),
               biases = as(narrow(row, 3), other);
        expectNarrow(
            {"layer_norm", epsilon, {operand, gains, biases}, {{other, dims}, {kWide, statistic}, {kWide, statistic}}});
        expectNarrow({"rms_norm", epsilon, {operand, gains}, {{other, dims}, {kWide, statistic}}});
        Tensor gradient = as(narrow(dims, 4), other), mean = random(statistic, 5), rstd = random(statistic, 6);
        for (DType dgain : {gain, kWide}) {
          Output full{x, dims}, sums{dgain, row};
          expectNarrow({"layer_norm_grad", {}, {gradient, operand, mean, rstd, gains, absent()}, {full, sums, sums}}, 1,
                       1e-5);
          expectNarrow({"rms_norm_grad", {}, {gradient, operand, rstd, gains, absent()}, {full, sums}}, 1, 1e-5);
          const Tensor addend = random(operand.dims, 9, 1, operand.type);
          expectNarrow({"layer_norm_grad", {}, {gradient, operand, mean, rstd, gains, addend}, {full, sums, sums}}, 1,
                       1e-5);
          expectNarrow({"rms_norm_grad", {}, {gradient, operand, rstd, gains, addend}, {full, sums}}, 1, 1e-5);
        }
      }
}

TEST(Bf16, Softmax) {
  for (int64_t width : {300, 304}) { // the latter is in packs
    Tensor x = narrow({7, width}, 1, 9), gradient = narrow({7, width}, 2), y = narrow({7, width}, 3);
    for (DType result : kBoth) {
      expectNarrow({"softmax", {}, {x}, {{result, x.dims}}});
      expectNarrow({"log_softmax", {}, {x}, {{result, x.dims}}});
      for (DType type : kBoth)
        expectNarrow({"softmax_grad", {}, {as(gradient, type), y}, {{result, x.dims}}});
    }
  }
}

TEST(Bf16, Rotary) {
  Tensor x = narrow({2, 37, 3, 9}, 1);
  for (DType table : kBoth)
    for (int64_t inverse : {0, 1})
      expectNarrow({"rotary",
                    {{"inverse", inverse}},
                    {x, random({1, 37, 4}, 2, 1, table), random({1, 37, 4}, 3, 1, table)},
                    {{kNarrow, x.dims}}});
}

TEST(Bf16, Indexing) {
  Tensor ids = integers({700}, 0, 5, 1); // many to a row: sums that bf16 could not hold
  Attributes axis = {{"axis", int64_t{1}}};
  expectNarrow({"embedding", {}, {narrow({5, 70}, 2), ids}, {{kNarrow, {700, 70}}}});
  expectNarrow({"gather", axis, {narrow({3, 5, 7}, 2), ids}, {{kNarrow, {3, 700, 7}}}});
  for (DType result : kBoth) {
    expectNarrow({"embedding_grad", {}, {ids, narrow({700, 70}, 3)}, {{result, {5, 70}}}}, 1, 1e-5);
    expectNarrow({"gather_grad", axis, {ids, narrow({3, 700, 7}, 4)}, {{result, {3, 5, 7}}}}, 1, 1e-5);
  }
}

TEST(Bf16, Reductions) {
  Tensor x = narrow({5, 600, 3}, 1);
  for (const char *kind : {"sum", "mean", "max"})
    for (int64_t reduced : {0, 1, 2})
      for (DType result : kBoth) {
        if (result == kWide && std::string(kind) == "max")
          continue;
        Dims dims = x.dims;
        dims.erase(dims.begin() + reduced);
        expectNarrow({"reduce",
                      {{"kind", std::string(kind)}, {"axes", std::vector<int64_t>{reduced}}, {"keepDims", int64_t{0}}},
                      {x},
                      {{result, dims}}});
      }
  expectNarrow({"cumsum", {{"axis", int64_t{1}}}, {x}, {{kNarrow, x.dims}}}, 1, 1e-5);
}

TEST(Bf16, Elementwise) {
  Tensor a = narrow({3, 1500}, 1, 4), b = narrow({1500}, 2, 4), full = narrow({3, 1500}, 3);
  for (const char *name : {"add", "sub", "mul", "div", "maximum", "minimum", "pow", "mod"})
    expectNarrow({name, {}, {a, b}, {{kNarrow, a.dims}}});
  for (const char *name :
       {"neg", "abs", "sign", "exp",  "log",   "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid", "softplus",
        "erf", "sin", "cos",  "atan", "floor", "ceil", "round", "relu",       "silu", "gelu"})
    expectNarrow({name, {}, {a}, {{kNarrow, a.dims}}});
  expectNarrow({"select", {}, {integers({1500}, 0, 2, 5, DType::boolean), a, b}, {{kNarrow, a.dims}}});
  expectNarrow({"compare", {{"predicate", std::string("lt")}}, {a, b}, {{DType::boolean, a.dims}}});
  for (const char *form : {"erf", "tanh", "sigmoid"})
    expectNarrow({"gelu", {{"form", std::string(form)}}, {a}, {{kNarrow, a.dims}}});
  for (const char *name : {"relu", "silu", "gelu_erf", "gelu_tanh", "gelu_sigmoid", "sigmoid"}) {
    Attributes activation = {{"activation", std::string(name)}};
    Output result{kNarrow, a.dims};
    expectNarrow({"activation_grad", activation, {a, full}, {result}});
    expectNarrow({"gated_product", activation, {a, full}, {result}});
    expectNarrow({"gated_product_grad", activation, {a, full, narrow(a.dims, 4)}, {result, result}});
  }
}

TEST(Bf16, Structure) {
  Tensor x = narrow({5, 600}, 1, 1000);
  expectNarrow({"copy", {}, {x}, {{kNarrow, {3000}}}});
  expectNarrow({"cast", {}, {x}, {{kWide, x.dims}}});
  expectNarrow({"cast", {}, {random(x.dims, 2, 1000)}, {{kNarrow, x.dims}}});
  expectNarrow({"transpose", {{"permutation", std::vector<int64_t>{1, 0}}}, {x}, {{kNarrow, {600, 5}}}});
  expectNarrow({"broadcast", {}, {narrow({1, 600}, 2)}, {{kNarrow, {4, 600}}}});
  expectNarrow({"concat", {{"axis", int64_t{0}}}, {x, narrow({2, 600}, 2)}, {{kNarrow, {7, 600}}}});
  expectNarrow({"slice",
                {{"starts", std::vector<int64_t>{1, 10}},
                 {"sizes", std::vector<int64_t>{2, 50}},
                 {"strides", std::vector<int64_t>{2, 3}}},
                {x},
                {{kNarrow, {2, 50}}}});
  expectNarrow({"pad",
                {{"low", std::vector<int64_t>{1, 0}},
                 {"high", std::vector<int64_t>{0, 2}},
                 {"interior", std::vector<int64_t>{0, 1}}},
                {x},
                {{kNarrow, {6, 1201}}}});
}

Tensor labelsOf(int64_t rows, int64_t classes) {
  Tensor labels = integers({rows}, 0, classes, 9);
  for (size_t i = 0; i < labels.values.size(); i += 3)
    labels.values[i] = -100;
  return labels;
}

Tensor stepScalars() { return scalars({{Scalars::kInverseValid, 0.125}}); }

TEST(Bf16, Losses) {
  Tensor logits = narrow({17, 300}, 1, 5), labels = labelsOf(17, 300);
  expectNarrow({"cross_entropy", {}, {logits, labels, stepScalars()}, {{kWide, {}}}});
  expectNarrow({"cross_entropy_grad", {}, {logits, labels, stepScalars()}, {{kWide, {}}, {kNarrow, logits.dims}}}, 1,
               1e-7);
  expectNarrow(
      {"squared_error_grad", {}, {logits, narrow({17, 300}, 2), stepScalars()}, {{kWide, {}}, {kNarrow, logits.dims}}});
}

Tensor outputOf(const Call &call, size_t result) {
  return tensor(call.outputs[result].type, call.outputs[result].dims, run(call).outputs[result]);
}

/// Against products in f32 of dlogits that cross_entropy_grad has rounded to bf16.
TEST(Bf16, Head) {
  Tensor hidden = narrow({37, 48}, 1, 2), labels = labelsOf(37, 301);
  for (bool transposed : {false, true})
    for (DType type : kBoth)
      for (int64_t chunk : {0, 10}) {
        Tensor weight = narrow(transposed ? Dims{48, 301} : Dims{301, 48}, 2), bias = random({301}, 3, 1, type);
        Attributes attributes = {{"transposed", int64_t{transposed}}, {"chunk", chunk}};
        std::vector<Tensor> inputs = {hidden, weight, bias, labels, stepScalars()};
        expectNarrow({"linear_cross_entropy", attributes, inputs, {{kWide, {}}}});
        Call head{"linear_cross_entropy_grad",
                  attributes,
                  inputs,
                  {{kWide, {}}, {kNarrow, hidden.dims}, {type, weight.dims}, {type, {301}}}};
        Outcome got = run(head), again = run(head, 4);
        ASSERT_TRUE(got.status.ok()) << got.status.message();
        EXPECT_EQ(got.outputs, again.outputs);
        Tensor logits =
            outputOf({"matmul", flags(false, !transposed), {hidden, weight, bias}, {{kWide, {37, 301}}}}, 0);
        Call loss{"cross_entropy_grad", {}, {logits, labels, stepScalars()}, {{kWide, {}}, {kWide, {37, 301}}}};
        Tensor back = outputOf({"cast", {}, {outputOf(loss, 1)}, {{kNarrow, {37, 301}}}}, 0);
        std::vector<Values> expected = {
            run(loss).outputs[0],
            outputOf({"matmul", flags(false, transposed), {back, weight, absent()}, {{kWide, hidden.dims}}}, 0).values,
            outputOf(
                {"matmul",
                 flags(true, false),
                 transposed ? std::vector<Tensor>{hidden, back, absent()} : std::vector<Tensor>{back, hidden, absent()},
                 {{kWide, weight.dims}}},
                0)
                .values,
            outputOf({"reduce",
                      {{"kind", std::string("sum")}, {"axes", std::vector<int64_t>{0}}, {"keepDims", int64_t{0}}},
                      {back},
                      {{kWide, {301}}}},
                     0)
                .values};
        // A dlogit at the middle of two bf16 values may fall to either side: some of those differ by an ulp.
        for (size_t i = 0; i < 4; ++i)
          for (size_t j = 0; j < expected[i].size(); ++j)
            ASSERT_NEAR(got.outputs[i][j], expected[i][j], std::abs(expected[i][j]) * 0x1p-8 + within(2e-4, 1e-3)) << i << " " << j;
        Outcome sums = run(head, 2, 15, 0, {{1}, Values(37 * 48, 1), Values(301 * 48, 1), Values(301, 1)});
        for (size_t i = 0; i < 4; ++i)
          for (size_t j = 0; j < expected[i].size(); ++j)
            ASSERT_NEAR(sums.outputs[i][j], 1 + expected[i][j], (1 + std::abs(expected[i][j])) * 0x1p-8 + within(4e-4, 2e-3));
      }
}

} // namespace
} // namespace mt::kernels::test
