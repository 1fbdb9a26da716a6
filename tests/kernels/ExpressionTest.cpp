// Fused elementwise calls against the same calls one after another: the same bits, of any types, with broadcast inputs,
// constants, several results and results that are added.
#include "kernels/Coverage.h"
#include "kernels/Expression.h"
#include "tests/kernels/Harness.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <set>

namespace mt::kernels::test {
namespace {

/// Equal bits; a NaN equals another.
void expectEqual(const Values &got, const Values &want, const std::string &where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE((std::isnan(got[i]) && std::isnan(want[i])) || std::bit_cast<uint64_t>(got[i]) == std::bit_cast<uint64_t>(want[i]))
        << where << ": element " << i << " is " << got[i] << ", alone " << want[i];
}

/// The values of an expression, one call after another; `start` of results that are added to.
struct Alone {
  Dims domain;
  std::vector<Tensor> values;

  Tensor repeated(const Tensor &input) const {
    return tensor(input.type, domain, run({"broadcast", {}, {input}, {{input.type, domain}}}).outputs[0]);
  }

  Call callOf(const Instruction &one) const {
    std::vector<DType> types;
    for (const Tensor &value : values)
      types.push_back(value.type);
    const Signature single = kernels::callOf(one, types);
    Call call{one.kernel, single.attributes, {}, std::vector<Output>(one.results(), {one.type, domain})};
    for (size_t operand : one.operands)
      call.inputs.push_back(values[operand]);
    return call;
  }

  void compute(const Instruction &one) {
    if (one.kernel == kConstant) {
      const Output whole{one.type, domain};
      values.push_back(tensor(one.type, domain, run({"constant", {{"value", one.constant}}, {}, {whole}}).outputs[0]));
      return;
    }
    const Outcome outcome = run(callOf(one));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    for (const Values &result : outcome.outputs)
      values.push_back(tensor(one.type, domain, result));
  }
};

void expectSameBits(const Expression &expression, const std::vector<Tensor> &inputs, const Dims &domain) {
  const std::string text = print(expression);
  SCOPED_TRACE(text);
  Alone alone{domain, {}};
  for (const Tensor &input : inputs)
    alone.values.push_back(alone.repeated(input));
  std::vector<std::pair<const Instruction *, size_t>> makers(inputs.size());
  for (const Instruction &one : expression.instructions) {
    for (size_t k = 0; k < one.results(); ++k)
      makers.emplace_back(&one, k);
    alone.compute(one);
  }
  Call fused{"elementwise", {{"expression", text}}, inputs, {}};
  for (size_t result : expression.results)
    fused.outputs.push_back({alone.values[result].type, domain});
  if (!missingCode(fused.signature(), kBackend).empty())
    return; // then nothing fuses them for it
  for (int threads : {1, 3}) {
    const Outcome outcome = run(fused, threads);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_TRUE(outcome.guardsIntact);
    for (size_t i = 0; i < expression.results.size(); ++i)
      expectEqual(outcome.outputs[i], alone.values[expression.results[i]].values, fmt::format("result {}", i));
  }
  std::vector<Values> start;
  uint64_t adds = 0;
  for (size_t i = 0; i < expression.results.size(); ++i) {
    start.push_back(random(domain, 99 + i, 2, fused.outputs[i].type).values);
    if (fused.outputs[i].type != DType::boolean && find(makers[expression.results[i]].first->kernel)->accumulates)
      adds |= uint64_t{1} << i;
  }
  const Outcome added = run(fused, 2, adds, 0, start);
  ASSERT_TRUE(added.status.ok()) << added.status.message();
  for (size_t i = 0; i < expression.results.size(); ++i) {
    if (!(adds >> i & 1))
      continue;
    const auto &[maker, place] = makers[expression.results[i]];
    std::vector<Values> from(maker->results(), start[i]);
    const Outcome single = run(alone.callOf(*maker), 2, uint64_t{1} << place, 0, from);
    expectEqual(added.outputs[i], single.outputs[place], fmt::format("result {}, added", i));
  }
}

/// Values of an expression, the last `count` of its results summed, against the expression and `reduce` of each.
void expectSameSums(const Expression &expression, size_t count, const std::string &kind,
                    const std::vector<int64_t> &axes, const std::vector<Tensor> &inputs, const Dims &domain) {
  const std::string text = print(expression);
  SCOPED_TRACE(fmt::format("{}, {} {} over [{}]", text, kind, count, fmt::join(axes, ", ")));
  Dims kept;
  for (int64_t i = 0; i < std::ssize(domain); ++i)
    if (!std::ranges::binary_search(axes, i))
      kept.push_back(domain[static_cast<size_t>(i)]);
  Call summed{"elementwise_sums",
              {{"expression", text}, {"sums", static_cast<int64_t>(count)}, {"kind", kind}, {"axes", axes}},
              inputs,
              {}};
  std::vector<DType> types;
  for (const Tensor &input : inputs)
    types.push_back(input.type);
  for (const Instruction &one : expression.instructions)
    types.insert(types.end(), one.results(), one.type);
  const size_t first = expression.results.size() - count;
  for (size_t i = 0; i < expression.results.size(); ++i)
    summed.outputs.push_back(i < first ? Output{types[expression.results[i]], domain} : Output{DType::f32, kept});
  if (!missingCode(summed.signature(), kBackend).empty())
    return; // then nothing sums them for it
  std::vector<Values> want, start, added;
  for (const Output &output : summed.outputs)
    start.push_back(random(output.dims, 7 + start.size(), 2, output.type).values);
  for (size_t i = 0; i < expression.results.size(); ++i) {
    const DType type = types[expression.results[i]];
    Expression one = expression;
    one.results = {expression.results[i]};
    const Call alone{"elementwise", {{"expression", print(one)}}, inputs, {{type, domain}}};
    const Outcome value = run(alone, 2);
    ASSERT_TRUE(value.status.ok()) << value.status.message();
    if (i < first) {
      want.push_back(value.outputs[0]);
      added.push_back(value.outputs[0]);
      continue;
    }
    const Attributes attributes = {{"axes", axes}, {"kind", kind}, {"keepDims", int64_t{0}}};
    const Call reduce{"reduce", attributes, {tensor(type, domain, value.outputs[0])}, {{DType::f32, kept}}};
    const Outcome sum = run(reduce, 2);
    ASSERT_TRUE(sum.status.ok()) << sum.status.message();
    want.push_back(sum.outputs[0]);
    added.push_back(run(reduce, 2, 1, 0, {start[i]}).outputs[0]);
  }
  for (int threads : {1, 3})
    for (uint64_t unused : {uint64_t{0}, uint64_t{1} << (expression.results.size() - 1)}) {
      if (unused == 1)
        continue;
      const Outcome outcome = run(summed, threads, 0, unused);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
      EXPECT_TRUE(outcome.guardsIntact);
      for (size_t i = 0; i < want.size(); ++i)
        if (!(unused >> i & 1))
          expectEqual(outcome.outputs[i], want[i], fmt::format("result {}", i));
    }
  const uint64_t adds = ((uint64_t{1} << count) - 1) << first;
  const Outcome outcome = run(summed, 2, adds, 0, start);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  for (size_t i = 0; i < want.size(); ++i)
    expectEqual(outcome.outputs[i], added[i], fmt::format("result {}, added", i));
}

Expression expressionOf(std::string_view text) {
  Expression expression;
  EXPECT_EQ(parse(text, expression), "");
  EXPECT_EQ(print(expression), text);
  return expression;
}

constexpr DType kReals[] = {DType::f32, DType::bf16, DType::f16};

TEST(Expression, SameBitsAsOneAfterAnother) {
  for (DType type : kReals) {
    const std::string t(name(type));
    auto with = [&](std::string text) {
      for (size_t at; (at = text.find('$')) != text.npos;)
        text.replace(at, 1, t);
      return expressionOf(text);
    };
    const Dims domain = {3, 7, 353}, row = {353}, column = {3, 1, 1};
    expectSameBits(with("mul 0 1:$, tanh 3:$, add 4 2:$ -> 5"), {random(domain, 1, 2, type), random(row, 2, 1, type), random(column, 3, 1, type)}, domain);
    expectSameBits(with("constant 0.1:$, mul 0 1:$, gelu.tanh 2:$, activation_grad.silu 0 3:$, gelu 3:$ -> 2 3 4 5"), {random(domain, 4, 3, type)}, domain);
    expectSameBits(with("compare.lt 0 1:bool, select 2 0 1:$, not 2:bool, select 4 1 0:$, sub 5 3:$ -> 2 6 4"),
                   {random(domain, 5, 1, type), random({}, 6, 1, type)}, domain);
    expectSameBits(with("gated_product_grad.gelu_erf 0 1 2:$, add 3 4:$, pow 5 5:$ -> 4 5 6"),
                   {random(domain, 7, 1, type), random(domain, 8, 1, type), random(domain, 9, 1, type)}, domain);
    expectSameBits(with("cast 0:f32, mul 2 2:f32, cast 3:$, cast 3:bool, and 5 1:bool -> 4 6 3"),
                   {random(domain, 10, 2, type), integers(row, 0, 2, 11, DType::boolean)}, domain);
    const std::vector<Tensor> wide = {random(domain, 12, 2, type), random(row, 13, 2), random(domain, 14, 1)};
    expectSameBits(with("cast 0:f32, mul 3 1:f32, cast 4:$, cast 2:$, add 5 6:$, relu 7:$ -> 8"), wide, domain);
    expectSameBits(with("cast 0:f32, sub 3 2:f32, cast 4:$, sin 1:f32, cast 6:$, mul 5 7:$, neg 8:$ -> 5 7 9"), wide,
                   domain);
    expectSameBits(with("add 1 2:f32, cast 3:$, gated_product.silu 4 0:$, cast 3:$ -> 5 4 6"), wide,
                   domain); // cast twice
  }
}

TEST(Expression, SameBitsOfWholeNumbersAndOf64Bits) {
  const Dims domain = {5, 411};
  expectSameBits(expressionOf("constant 3:i64, mod 0 2:i64, cast 3:i32, mul 4 1:i32, cast 5:f32, compare.eq 3 2:bool -> 5 6 7"),
                 {integers(domain, -50, 50, 1), integers({411}, -9, 9, 2, DType::i32)}, domain);
  expectSameBits(expressionOf("constant -128:i8, cast 0:i8, maximum 1 2:i8, compare.gt 2 1:bool -> 3 4"),
                 {integers(domain, -50, 50, 1)}, domain);
  expectSameBits(expressionOf("cast 0:f64, exp 1:f64, cast 2:f32, cast 2:i8 -> 2 3 4"), {random(domain, 3, 3)}, domain);
}

TEST(Expression, SumsAreThoseOfReduce) {
  const Dims domain = {3, 5, 7, 131};
  for (DType type : {DType::f32, DType::bf16}) {
    const std::string t(name(type));
    const std::vector<Tensor> inputs = {random(domain, 1, 2, type), random({5, 1, 1}, 2, 1, type),
                                        random(domain, 3, 1, type)};
    const std::vector<Tensor> row = {random(domain, 4, 2, type), random({131}, 5, 1, type)};
    for (const std::vector<int64_t> &axes :
         std::vector<std::vector<int64_t>>{{0}, {3}, {0, 2, 3}, {1, 2}, {0, 1, 2}, {0, 1, 2, 3}, {1, 3}})
      for (const char *kind : {"sum", "mean"}) {
        expectSameSums(expressionOf(fmt::format("mul 0 1:{0}, sub 3 2:{0}, exp 4:{0}, add 4 5:{0} -> 3 4 3", t)), 1,
                       kind, axes, inputs, domain);
        expectSameSums(
            expressionOf(fmt::format(
                "cast 0:f32, mul 3 3:f32, activation_grad.relu 2 0:{0}, cast 1:f32, mul 3 6:f32 -> 5 5 4 7", t)),
            3, kind, axes, inputs, domain);
        expectSameSums(expressionOf(fmt::format("mul 0 1:{0}, erf 2:{0}, sin 3:{0} -> 4 2", t)), 2, kind, axes, row,
                       domain);
      }
  }
}

/// Few results of many elements: parts of them are summed apart. Elements of sums may be one alone, and runs as long as
/// blocks.
TEST(Expression, SumsOfEveryShape) {
  const Expression expression = expressionOf("cast 0:f32, mul 1 1:f32, neg 1:f32 -> 3 2 1");
  const std::vector<std::pair<Dims, std::vector<int64_t>>> cases = {{{4, 2, 40, 1040}, {0, 2, 3}},
                                                                    {{400'000}, {0}},
                                                                    {{700, 300}, {0}},
                                                                    {{700, 300}, {1}},
                                                                    {{2, 150'000}, {1}},
                                                                    {{150'000, 2}, {0}},
                                                                    {{1}, {0}},
                                                                    {{5, 1}, {1}},
                                                                    {{1, 5}, {0}},
                                                                    {{3, 1, 384}, {0, 2}},
                                                                    {{2, 3, 768}, {0}},
                                                                    {{6, 385}, {1}},
                                                                    {{1, 3, 1, 1}, {0, 2, 3}},
                                                                    {{9, 31}, {1}},
                                                                    {{2, 1500, 4}, {0, 2}},
                                                                    {{2, 2000}, {0}}};
  for (const auto &[domain, axes] : cases)
    for (DType type : {DType::f32, DType::bf16})
      expectSameSums(expression, 2, "sum", axes, {random(domain, 1, 2, type)}, domain);
}

/// Scratch that a call does not need is no operand of the expression.
TEST(Expression, TakesNoScratchForAnOperand) {
  Signature call = Call{
      "elementwise",
      {{"expression", std::string("neg 0:f32, neg 1:f32 -> 2")}},
      {random({64}, 1)},
      {{DType::f32,
        {64}}}}.signature();
  call.operands.push_back({DType::u8, {1}, Effect::scratch, true});
  ASSERT_EQ(check(call), "");
  const Result<Execute> prepared = prepareCall(call, 1);
  ASSERT_TRUE(prepared.ok());
  std::vector<float> in(64, 3), out(64, 0);
  std::byte scratch[64] = {};
  void *const operands[] = {in.data(), out.data(), scratch};
  ASSERT_TRUE((*prepared)(operands, 0).ok());
  EXPECT_EQ(out, in);
  EXPECT_EQ(scratch[0], std::byte{0});
}

/// Any mixture: each instruction takes earlier values, of which some are results.
TEST(Expression, SameBitsAtRandom) {
  const std::string_view unary[] = {"neg", "abs", "exp", "sigmoid", "relu", "floor", "rsqrt", "sin", "erf", "softplus", "sign"};
  const std::string_view binary[] = {"add", "sub", "mul", "div", "maximum", "minimum"};
  const std::string_view activations[] = {"silu", "sigmoid", "relu", "gelu_erf", "gelu_tanh", "gelu_sigmoid"};
  const std::vector<Dims> domains = {{}, {1}, {5}, {1027}, {2, 3, 512}, {40, 1040}};
  for (uint64_t seed = 0; seed < 120; ++seed) {
    std::mt19937_64 draw(seed);
    auto below = [&](size_t count) { return static_cast<size_t>(draw() % count); };
    const Dims domain = domains[below(domains.size())];
    const DType type = kReals[below(3)];
    std::vector<Tensor> inputs = {random(domain, seed, 2, type)};
    for (size_t i = below(5); i > 0; --i) {
      Dims dims = domain;
      for (int64_t &dim : dims)
        dim = below(3) == 0 ? 1 : dim;
      inputs.push_back(random(dims, seed * 10 + i, 2, type));
    }
    Expression expression;
    std::vector<DType> types(inputs.size(), type); // booleans among them
    auto any = [&] {
      size_t value = below(types.size());
      while (types[value] == DType::boolean)
        value = below(types.size());
      return value;
    };
    auto like = [&](size_t other) { // there may be no second one
      size_t value = any();
      for (int tries = 0; types[value] != types[other] && tries < 8; ++tries)
        value = any();
      return types[value] == types[other] ? value : other;
    };
    auto add = [&](const Instruction &one) {
      expression.instructions.push_back(one);
      types.push_back(one.type);
      return types.size() - 1;
    };
    const size_t most = Expression::kMostInstructions - 2; // a comparison takes two, and there is one more at the end
    for (size_t count = below(most); expression.instructions.size() < count;) {
      const size_t value = any();
      Instruction one{"", "", {}, types[value]};
      switch (below(12)) {
      case 10:
      case 11:
        one.kernel = below(2) ? "activation_grad" : "gated_product",
        one.choice = activations[below(std::size(activations))];
        one.operands = {value, like(value)};
        break;
      case 0:
        one.kernel = kConstant, one.constant = static_cast<double>(draw() % 1000) / 128 - 3;
        break;
      case 8:
        one.kernel = "cast", one.operands = {value};
        one.type = type == DType::f64 ? type : below(2) ? DType::f32 : DType::bf16;
        break;
      case 9: {
        const size_t is = add({"compare", below(2) ? "lt" : "ne", {value, like(value)}, DType::boolean});
        one.kernel = "select", one.operands = {is, value, like(value)};
        break;
      }
      case 1:
        one.kernel = "gelu", one.choice = below(2) ? "erf" : "tanh", one.operands = {value};
        break;
      case 2:
      case 3:
        one.kernel = unary[below(std::size(unary))], one.operands = {value};
        break;
      default:
        one.kernel = binary[below(std::size(binary))], one.operands = {value, like(value)};
      }
      add(one);
    }
    const size_t last = any();
    expression.results = {add({"neg", "", {last}, types[last]})};
    for (size_t value = types.size() - 1;
         value-- > inputs.size() && expression.results.size() < Expression::kMostResults;)
      if (expression.instructions[value - inputs.size()].kernel != kConstant && below(4) == 0)
        expression.results.push_back(value);
    expectSameBits(expression, inputs, domain);
    for (size_t value = inputs.size(); value < types.size() && expression.results.size() < Expression::kMostResults;
         ++value)
      if (expression.instructions[value - inputs.size()].kernel != kConstant && types[value] != DType::boolean &&
          below(3) == 0)
        expression.results.push_back(value);
    if (domain.empty() || type == DType::f16)
      continue;
    size_t count = 0; // the last of those: another value each, of a type that is summed
    std::set<size_t> known;
    for (size_t i = expression.results.size(); i-- > 0 && types[expression.results[i]] != DType::boolean; ++count)
      if (!known.insert(expression.results[i]).second)
        break;
    std::set<size_t> written(expression.results.begin(), expression.results.end() - static_cast<std::ptrdiff_t>(count));
    if (count == 0 || written.size() + count != expression.results.size())
      continue;
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < std::ssize(domain); ++axis)
      if (below(2) == 0)
        axes.push_back(axis);
    if (!axes.empty())
      expectSameSums(expression, count, below(2) ? "sum" : "mean", axes, inputs, domain);
  }
}

} // namespace
} // namespace mt::kernels::test
