// Attention against a plain softmax over all scores in 64 bits; its gradient against finite differences of that.
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace mt::kernels::test {
namespace {

struct AttentionCase {
  const char *name;
  int64_t batch, queries, keys, heads, groups, width, valueWidth;
  Attributes attributes;
  Dims bias = {};
  bool keyMask = false, segments = false, places = false, sink = false;
};

struct Inputs {
  Tensor query, key, value, bias, keyMask, querySegment, keySegment, queryPlace, keyPlace, sink;
};

/// Positions in two dimensions, a grid of rows of four; those of queries such that the smallest difference is zero.
Tensor places(int64_t count, int64_t later, DType type) {
  Values values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(i / 4 * 7 + i % 4 + later));
  return tensor(type, {count}, values);
}

Inputs inputsOf(const AttentionCase &c) {
  return {random({c.batch, c.queries, c.heads, c.width}, 1, 2),
          random({c.batch, c.keys, c.groups, c.width}, 2, 2),
          random({c.batch, c.keys, c.groups, c.valueWidth}, 3, 1),
          c.bias.empty() ? absent() : random(c.bias, 4, 1),
          c.keyMask ? integers({c.batch, c.keys}, 0, 2, 5, DType::boolean) : absent(),
          c.segments ? integers({c.batch, c.queries}, 0, 3, 6) : absent(),
          c.segments ? integers({c.batch, c.keys}, 0, 3, 7, DType::i32) : absent(),
          c.places ? places(c.queries, 0, DType::i32) : absent(),
          c.places ? places(c.keys, (c.queries + 3) / 4 * 7 - 1, DType::i64) : absent(),
          c.sink ? random({c.heads}, 9, 2) : absent()};
}

double element(const Tensor &t, std::initializer_list<int64_t> index) {
  int64_t place = 0;
  size_t dim = 0;
  for (int64_t at : index) {
    int64_t size = t.dims[dim++];
    place = place * size + (size == 1 ? 0 : at);
  }
  return t.values[static_cast<size_t>(place)];
}

int64_t attribute(const AttentionCase &c, const char *name, int64_t otherwise) {
  auto found = c.attributes.find(name);
  return found == c.attributes.end() ? otherwise : std::get<int64_t>(found->second);
}

double real(const AttentionCase &c, const char *name) {
  auto found = c.attributes.find(name);
  return found == c.attributes.end() ? 0 : std::get<double>(found->second);
}

bool isApart(const AttentionCase &c, const Inputs &in, int64_t b, int64_t q, int64_t k) {
  return c.segments && element(in.querySegment, {b, q}) != element(in.keySegment, {b, k});
}

bool seen(const AttentionCase &c, const Inputs &in, int64_t b, int64_t q, int64_t k) {
  int64_t distance = q - k + attribute(c, "offset", 0), chunk = attribute(c, "chunk", 0);
  bool near = attribute(c, "minDistance", INT64_MIN) <= distance &&
              distance <= attribute(c, "maxDistance", INT64_MAX) && distance % attribute(c, "dilation", 1) == 0;
  if (!near && k >= attribute(c, "prefix", 0))
    return false;
  if (c.keyMask && element(in.keyMask, {b, k}) == 0)
    return false;
  if (isApart(c, in, b, q, k) && real(c, "segmentBias") == 0)
    return false;
  return chunk == 0 || q / chunk == k / chunk;
}

/// Result and logsumexp.
std::vector<Values> attend(const AttentionCase &c, const Inputs &in) {
  Values out(static_cast<size_t>(c.batch * c.queries * c.heads * c.valueWidth), 0),
      lse(static_cast<size_t>(c.batch * c.heads * c.queries));
  double cap = real(c, "softCap");
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t q = 0; q < c.queries; ++q) {
        int64_t g = h / (c.heads / c.groups);
        Values scores(static_cast<size_t>(c.keys), -INFINITY);
        const double sink = c.sink ? element(in.sink, {h}) : -INFINITY;
        double most = sink, total = 0;
        for (int64_t k = 0; k < c.keys; ++k) {
          if (!seen(c, in, b, q, k))
            continue;
          double score = 0;
          for (int64_t i = 0; i < c.width; ++i)
            score += element(in.query, {b, q, h, i}) * element(in.key, {b, k, g, i});
          score *= real(c, "scale");
          score = cap > 0 ? cap * std::tanh(score / cap) : score;
          bool byDistance = !c.bias.empty() && c.bias[3] != c.keys;
          int64_t entry = byDistance ? k - q + c.queries - 1 : k;
          if (c.places)
            entry = static_cast<int64_t>(element(in.keyPlace, {k}) - element(in.queryPlace, {q}));
          score += c.bias.empty() ? 0 : element(in.bias, {b, h, q, entry});
          score += isApart(c, in, b, q, k) ? real(c, "segmentBias") : 0;
          scores[static_cast<size_t>(k)] = score;
          most = std::max(most, score);
        }
        for (double score : scores)
          total += most == -INFINITY ? 0 : std::exp(score - most);
        total += c.sink ? std::exp(sink - most) : 0;
        lse[static_cast<size_t>((b * c.heads + h) * c.queries + q)] = most + std::log(total);
        for (int64_t k = 0; k < c.keys && total > 0; ++k)
          for (int64_t i = 0; i < c.valueWidth; ++i)
            out[static_cast<size_t>(((b * c.queries + q) * c.heads + h) * c.valueWidth + i)] +=
                std::exp(scores[static_cast<size_t>(k)] - most) / total * element(in.value, {b, k, g, i});
      }
  return {out, lse};
}

const int64_t kNone = INT64_MAX;
const AttentionCase kCases[] = {
    {"plain", 2, 7, 9, 3, 3, 5, 4, {{"scale", 0.4}}},
    {"causal", 2, 9, 9, 4, 2, 8, 8, {{"scale", 0.3}, {"minDistance", int64_t{0}}}},
    {"window", 1, 11, 11, 2, 1, 4, 3, {{"scale", 0.5}, {"minDistance", int64_t{0}}, {"maxDistance", int64_t{3}}}},
    {"both sides", 1, 10, 10, 2, 2, 4, 4, {{"scale", 0.5}, {"minDistance", int64_t{-2}}, {"maxDistance", int64_t{2}}}},
    {"later queries", 1, 4, 10, 2, 1, 4, 4, {{"scale", 0.5}, {"minDistance", int64_t{0}}, {"offset", int64_t{6}}}},
    {"prefix",
     1,
     8,
     8,
     2,
     2,
     4,
     4,
     {{"scale", 0.5}, {"minDistance", int64_t{0}}, {"maxDistance", int64_t{1}}, {"prefix", int64_t{3}}}},
    {"chunks", 1, 10, 10, 2, 2, 4, 4, {{"scale", 0.5}, {"minDistance", int64_t{0}}, {"chunk", int64_t{4}}}},
    {"nothing seen", 1, 6, 6, 1, 1, 4, 4, {{"scale", 0.5}, {"minDistance", int64_t{3}}, {"maxDistance", kNone}}},
    {"soft cap", 1, 6, 6, 2, 1, 4, 4, {{"scale", 0.5}, {"softCap", 1.5}, {"minDistance", int64_t{0}}}},
    {"bias", 2, 5, 6, 4, 2, 4, 4, {{"scale", 0.5}}, {2, 4, 5, 6}},
    {"shared bias", 2, 5, 6, 4, 2, 4, 4, {{"scale", 0.5}, {"softCap", 2.0}}, {1, 4, 5, 6}},
    {"bias of keys", 2, 5, 6, 4, 2, 4, 4, {{"scale", 0.5}}, {2, 1, 1, 6}},
    {"one bias", 2, 5, 6, 4, 2, 4, 4, {{"scale", 0.5}}, {1, 1, 5, 6}},
    {"bias by distance", 2, 5, 6, 4, 2, 4, 4, {{"scale", 0.5}, {"minDistance", int64_t{-1}}}, {1, 4, 1, 10}},
    {"one bias by distance", 2, 6, 5, 4, 2, 4, 4, {{"scale", 0.5}}, {2, 1, 1, 10}},
    {"key mask", 3, 5, 6, 2, 2, 4, 4, {{"scale", 0.5}}, {}, true},
    {"segments", 2, 7, 7, 2, 1, 4, 4, {{"scale", 0.5}, {"minDistance", int64_t{0}}}, {}, true, true},
    {"soft segments", 2, 7, 7, 2, 1, 4, 4, {{"scale", 0.5}, {"segmentBias", -1.5}}, {1, 2, 7, 7}, false, true},
    {"dilation", 1, 9, 9, 2, 2, 4, 4, {{"scale", 0.5}, {"minDistance", int64_t{-5}}, {"dilation", int64_t{2}}}},
    {"bias by place", 2, 10, 12, 4, 2, 4, 4, {{"scale", 0.5}}, {1, 4, 1, 42}, false, false, true},
    {"one bias by place", 2, 6, 9, 4, 2, 4, 4, {{"scale", 0.5}, {"softCap", 2.0}}, {2, 1, 1, 35}, true, false, true},
    {"sink", 3, 7, 9, 4, 2, 5, 4, {{"scale", 0.4}, {"minDistance", int64_t{-2}}}, {}, true, true, false, true},
    {"sink alone", 1, 6, 6, 2, 1, 4, 4, {{"scale", 0.5}, {"minDistance", int64_t{3}}}, {}, false, false, false, true},
    {"sink and places",
     2,
     5,
     8,
     2,
     1,
     4,
     4,
     {{"scale", 0.5}, {"softCap", 2.0}},
     {1, 2, 1, 28},
     false,
     true,
     true,
     true}};

Call forwardCall(const AttentionCase &c, const Inputs &in) {
  return {"attention",
          c.attributes,
          {in.query, in.key, in.value, in.bias, in.keyMask, in.querySegment, in.keySegment, in.queryPlace, in.keyPlace,
           in.sink},
          {{DType::f32, {c.batch, c.queries, c.heads, c.valueWidth}}, {DType::f32, {c.batch, c.heads, c.queries}}}};
}

/// Gradients by finite differences, with respect to query, key, value, bias and sink.
std::vector<Values> numericGradients(const AttentionCase &c, const Inputs &in, const Values &gradient) {
  std::vector<Values> out;
  for (Tensor Inputs::*place : {&Inputs::query, &Inputs::key, &Inputs::value, &Inputs::bias, &Inputs::sink}) {
    Inputs changed = in;
    auto loss = [&](const Values &at) {
      (changed.*place).values = at;
      return inner(attend(c, changed)[0], gradient);
    };
    out.push_back((in.*place).present ? numericGradient(loss, (in.*place).values) : Values());
  }
  return out;
}

Call gradientCall(const AttentionCase &c, const Inputs &in, const Tensor &gradient) {
  std::vector<Values> out = attend(c, in);
  Dims result = {c.batch, c.queries, c.heads, c.valueWidth};
  Call call{"attention_grad",
            c.attributes,
            {gradient, in.query, in.key, in.value, in.bias, in.keyMask, in.querySegment, in.keySegment, in.queryPlace,
             in.keyPlace, in.sink, tensor(DType::f32, result, out[0]),
             tensor(DType::f32, {c.batch, c.heads, c.queries}, out[1])},
            {{DType::f32, in.query.dims},
             {DType::f32, in.key.dims},
             {DType::f32, in.value.dims},
             {DType::f32, in.bias.present ? in.bias.dims : Dims{}},
             {DType::f32, in.sink.present ? in.sink.dims : Dims{}}}};
  return call;
}
/// Bits of the results of gradientCall() that are absent.
uint64_t unusedOf(const Inputs &in) { return (in.bias.present ? 0 : 8) | (in.sink.present ? 0 : 16); }

class Attention : public testing::TestWithParam<AttentionCase> {};

TEST_P(Attention, Forward) {
  Inputs in = inputsOf(GetParam());
  expectResults(forwardCall(GetParam(), in), attend(GetParam(), in), 2e-6);
}

TEST_P(Attention, Gradient) {
  const AttentionCase &c = GetParam();
  Inputs in = inputsOf(c);
  Tensor gradient = random({c.batch, c.queries, c.heads, c.valueWidth}, 8);
  std::vector<Values> expected = numericGradients(c, in, gradient.values);
  Call call = gradientCall(c, in, gradient);
  if (unusedOf(in) == 0)
    return expectResults(call, expected, 5e-6);
  for (int threads : {1, 2, 4}) { // absent results keep their places
    Outcome outcome = run(call, threads, 0, unusedOf(in));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    for (size_t i = 0; i < expected.size(); ++i)
      for (size_t j = 0; j < expected[i].size(); ++j)
        ASSERT_NEAR(outcome.outputs[i][j], expected[i][j], 5e-6) << "result " << i << " at " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Attention, testing::ValuesIn(kCases), [](const auto &info) {
  std::string name = info.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

/// Lengths beyond a block of queries and keys, which no block divides.
const AttentionCase kLong[] = {
    {"causal", 1, 300, 300, 2, 1, 16, 16, {{"scale", 0.25}, {"minDistance", int64_t{0}}}},
    {"window",
     1,
     600,
     600,
     1,
     1,
     8,
     8,
     {{"scale", 0.25}, {"minDistance", int64_t{0}}, {"maxDistance", int64_t{40}}, {"prefix", int64_t{5}}}},
    {"mask", 2, 130, 530, 2, 2, 8, 8, {{"scale", 0.25}}, {}, true, true},
    {"stripes", 1, 800, 800, 2, 1, 4, 3, {{"scale", 0.25}, {"minDistance", int64_t{0}}}, {}, true},
    {"few queries", 1, 60, 800, 2, 1, 4, 4, {{"scale", 0.25}, {"minDistance", int64_t{-500}}}},
    {"bias", 2, 140, 270, 2, 1, 8, 8, {{"scale", 0.25}, {"softCap", 3.0}}, {1, 2, 140, 270}},
    {"bias by distance", 2, 140, 270, 2, 1, 8, 8, {{"scale", 0.25}}, {1, 2, 1, 409}},
    {"bias by place", 2, 140, 270, 2, 1, 8, 8, {{"scale", 0.25}}, {1, 2, 1, 721}, false, true, true, true},
    {"dilation", 1, 300, 300, 2, 1, 8, 8, {{"scale", 0.25}, {"minDistance", int64_t{0}}, {"dilation", int64_t{3}}}}};

TEST(AttentionBlocks, Forward) {
  for (const AttentionCase &c : kLong) {
    SCOPED_TRACE(c.name);
    Inputs in = inputsOf(c);
    expectResults(forwardCall(c, in), attend(c, in), 3e-6);
  }
}

/// A batch row's gradients have the same bits however many rows there are: three threads have whole groups of three
/// rows, eight have stripes of them.
TEST(AttentionBlocks, RowsDoNotDependOnHowManyThereAre) {
  auto of = [](int64_t batch, int threads) {
    const AttentionCase c{"", batch, 300, 800, 2, 1, 4, 4, {{"scale", 0.25}, {"minDistance", int64_t{-300}}}};
    const Inputs in = inputsOf(c);
    return run(gradientCall(c, in, random({c.batch, c.queries, c.heads, c.valueWidth}, 8)), threads, 0, unusedOf(in));
  };
  const Outcome one = of(1, 3), three = of(3, 3); // random() begins alike
  for (size_t result = 0; result < 3; ++result)
    for (size_t i = 0; i < one.outputs[result].size(); ++i)
      ASSERT_EQ(one.outputs[result][i], three.outputs[result][i]) << "result " << result << " at " << i;
  if (kBackend == Backend::cpu) {
    EXPECT_EQ(of(3, 8).outputs, three.outputs);
  }
}

/// The gradient in a few random directions, and that it is not all zero.
TEST(AttentionBlocks, Gradient) {
  for (const AttentionCase &c : kLong) {
    SCOPED_TRACE(c.name);
    Inputs in = inputsOf(c);
    Tensor gradient = random({c.batch, c.queries, c.heads, c.valueWidth}, 8);
    Call call = gradientCall(c, in, gradient);
    Outcome one = run(call, 1, 0, unusedOf(in)), nine = run(call, 9, 0, unusedOf(in));
    ASSERT_TRUE(one.status.ok()) << one.status.message();
    size_t result = 0;
    for (Tensor Inputs::*place : {&Inputs::query, &Inputs::key, &Inputs::value, &Inputs::bias, &Inputs::sink}) {
      if (!(in.*place).present)
        continue;
      EXPECT_EQ(one.outputs[result], nine.outputs[result]);
      Values direction = random((in.*place).dims, 50 + result).values;
      double slope = inner(direction, one.outputs[result++]);
      Inputs changed = in;
      auto along = [&](const Values &t) {
        for (size_t i = 0; i < direction.size(); ++i)
          (changed.*place).values[i] = (in.*place).values[i] + t[0] * direction[i];
        return inner(attend(c, changed)[0], gradient.values);
      };
      double expected = numericGradient(along, {0}, 1e-4)[0];
      EXPECT_NEAR(slope, expected, 1e-4 * std::max(1.0, std::abs(expected)));
      EXPECT_NE(slope, 0);
    }
  }
}

TEST(AttentionBlocks, PlacesBeyondTheBias) {
  if (kBackend != Backend::cpu)
    GTEST_SKIP() << "a GPU reads the nearest entry";
  for (int64_t entries : {37, 38}) {
    AttentionCase c{"", 1, 10, 12, 1, 1, 4, 4, {{"scale", 0.5}}, {1, 1, 1, entries}, false, false, true};
    Status status = run(forwardCall(c, inputsOf(c))).status;
    EXPECT_EQ(status.ok(), entries == 38);
    if (!status.ok()) {
      EXPECT_EQ(status.message(),
                "attention: places of queries 0 to 15 and of keys 20 to 37 lead beyond a bias of 37 entries");
    }
  }
}

TEST(AttentionBlocks, NanIsNotHidden) {
  const AttentionCase &c = kCases[1];
  Inputs in = inputsOf(c);
  std::fill(in.query.values.begin(), in.query.values.end(), std::nan(""));
  Outcome outcome = run(forwardCall(c, in));
  for (double value : outcome.outputs[0])
    ASSERT_TRUE(std::isnan(value));
}

} // namespace
} // namespace mt::kernels::test
