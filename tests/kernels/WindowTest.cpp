// Convolutions, pools, products with experts, and what is put at computed places: against loops over their definitions.
#include "tests/kernels/Harness.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace mt::kernels::test {
namespace {

using Ints = std::vector<int64_t>;

int64_t between(int64_t least, int64_t most, std::mt19937 &random) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

/// A convolution of two dimensions.
struct Shape {
  int64_t batch, groups, channels, filters, height, width;
  Ints size, strides, dilations, low, high;
  int64_t out(size_t d) const {
    int64_t in = d == 0 ? height : width;
    return (in + low[d] + high[d] - (size[d] - 1) * dilations[d] - 1) / strides[d] + 1;
  }
  /// Whether there is room for a window.
  bool fits() const { return room(0, height) && room(1, width); }
  Dims image() const { return {batch, groups * channels, height, width}; }
  Dims kernel() const { return {groups * filters, channels, size[0], size[1]}; }
  Dims result() const { return {batch, groups * filters, out(0), out(1)}; }
  Attributes window() const { return {{"strides", strides}, {"dilations", dilations}, {"low", low}, {"high", high}}; }
  Attributes attributes() const {
    Attributes all = window();
    all["groups"] = groups;
    return all;
  }

private:
  bool room(size_t d, int64_t in) const { return in + low[d] + high[d] > (size[d] - 1) * dilations[d]; }
};

// Large images, more than a block of results; deep ones, more than a block of channels; groups of one channel; rows of
// more results than vectors have lanes.
const std::vector<Shape> kShapes = {
    {2, 1, 3, 5, 9, 11, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 1, 34, 9, 6, 7, {3, 2}, {2, 1}, {1, 2}, {0, 2}, {1, 1}},
    {2, 3, 1, 1, 8, 15, {5, 3}, {1, 2}, {2, 1}, {3, 0}, {4, 1}},
    {1, 2, 9, 4, 14, 16, {2, 2}, {3, 3}, {1, 1}, {0, 0}, {0, 0}},
    {3, 1, 2, 2, 4, 4, {4, 4}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
    {1, 1, 2, 2, 5, 71, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 1, 2, 2, 6, 79, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
};

/// Groups of few channels, of windows that see several rows of vectors or less than one.
std::vector<Shape> convolutions() {
  std::vector<Shape> all = kShapes;
  all.insert(all.end(), {{2, 3, 1, 1, 13, 37, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
                         {1, 2, 2, 3, 23, 14, {3, 5}, {1, 1}, {1, 2}, {1, 4}, {1, 4}},
                         {1, 3, 1, 2, 11, 70, {3, 4}, {2, 3}, {2, 1}, {0, 2}, {3, 1}},
                         {1, 2, 1, 1, 11, 23, {1, 2}, {3, 4}, {1, 1}, {1, 0}, {0, 2}},
                         {1, 4, 1, 1, 1, 300, {1, 4}, {1, 1}, {1, 1}, {0, 3}, {0, 0}}});
  return all;
}

/// Calls visit(image element, kernel element, result element) for every product of a convolution.
template <typename Visit> void eachProduct(const Shape &s, Visit visit) {
  Dims image = s.image(), kernel = s.kernel(), result = s.result();
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t m = 0; m < result[1]; ++m)
      for (int64_t y = 0; y < result[2]; ++y)
        for (int64_t x = 0; x < result[3]; ++x)
          for (int64_t c = 0; c < s.channels; ++c)
            for (int64_t p = 0; p < s.size[0]; ++p)
              for (int64_t q = 0; q < s.size[1]; ++q) {
                int64_t i = y * s.strides[0] + p * s.dilations[0] - s.low[0],
                        j = x * s.strides[1] + q * s.dilations[1] - s.low[1];
                if (i < 0 || i >= s.height || j < 0 || j >= s.width)
                  continue;
                int64_t channel = m / s.filters * s.channels + c;
                visit(static_cast<size_t>(((n * image[1] + channel) * s.height + i) * s.width + j),
                      static_cast<size_t>(((m * s.channels + c) * s.size[0] + p) * s.size[1] + q),
                      static_cast<size_t>(((n * result[1] + m) * result[2] + y) * result[3] + x));
              }
}

int64_t count(const Dims &dims) { return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()); }
Values zeros(const Dims &dims) { return Values(static_cast<size_t>(count(dims)), 0); }

void testConvolution(const Shape &s) {
  Tensor image = random(s.image(), 1), kernel = random(s.kernel(), 2), bias = random({s.groups * s.filters}, 3);
  Values plain = zeros(s.result()), biased;
  eachProduct(s, [&](size_t i, size_t k, size_t r) { plain[r] += image.values[i] * kernel.values[k]; });
  int64_t each = s.out(0) * s.out(1);
  for (size_t r = 0; r < plain.size(); ++r)
    biased.push_back(plain[r] + bias.values[r / static_cast<size_t>(each) % bias.values.size()]);
  expectResults({"conv", s.attributes(), {image, kernel, absent()}, {{DType::f32, s.result()}}}, {plain}, 1e-5);
  expectResults({"conv", s.attributes(), {image, kernel, bias}, {{DType::f32, s.result()}}}, {biased}, 1e-5);
}

void testGradients(const Shape &s) {
  Tensor image = random(s.image(), 1), kernel = random(s.kernel(), 2), gradient = random(s.result(), 3);
  Values data = zeros(s.image()), weights = zeros(s.kernel());
  eachProduct(s, [&](size_t i, size_t k, size_t r) {
    data[i] += kernel.values[k] * gradient.values[r];
    weights[k] += image.values[i] * gradient.values[r];
  });
  expectResults({"conv_data_grad", s.attributes(), {gradient, kernel}, {{DType::f32, s.image()}}}, {data}, 1e-5);
  expectResults({"conv_weight_grad", s.attributes(), {gradient, image}, {{DType::f32, s.kernel()}}}, {weights}, 1e-5);
}

TEST(Window, Convolutions) {
  for (const Shape &s : convolutions())
    testConvolution(s);
}

TEST(Window, GradientsOfConvolutions) {
  for (const Shape &s : convolutions())
    testGradients(s);
}

/// Windows larger than the image, strides and dilations larger than the window, pads larger than both.
TEST(Window, GroupsOfFewChannelsOfAnyWindow) {
  std::mt19937 random(11);
  const auto from = [&](int64_t least, int64_t most) { return between(least, most, random); };
  for (int tests = 0; tests < 24;) {
    const auto pair = [&](int64_t least, int64_t most) { return Ints{from(least, most), from(least, most)}; };
    const Shape s{from(1, 2), from(1, 3), from(1, 2), from(1, 3), from(1, 9), from(1, 40),
                  pair(1, 5), pair(1, 4), pair(1, 3), pair(0, 6), pair(0, 6)};
    if (!s.fits())
      continue;
    ++tests;
    testConvolution(s);
    testGradients(s);
  }
}

void testNarrow(const Shape &s) {
  Tensor image = random(s.image(), 1, 1, DType::bf16), kernel = random(s.kernel(), 2, 1, DType::bf16),
         gradient = random(s.result(), 3, 1, DType::bf16);
  for (DType result : {DType::bf16, DType::f32}) {
    expectNarrow({"conv", s.attributes(), {image, kernel, absent()}, {{result, s.result()}}}, 1, 1e-5);
    expectNarrow({"conv_data_grad", s.attributes(), {gradient, kernel}, {{result, s.image()}}}, 1, 1e-5);
    // On a GPU the sum is rounded to 16 bits before it is written or added to the 0.5 that the case begins with.
    const bool rounds = kBackend == Backend::cuda;
    expectNarrow({"conv_weight_grad", s.attributes(), {gradient, image}, {{result, s.kernel()}}},
                 !rounds                ? 1
                 : result == DType::f32 ? 0x1p15
                                        : 2,
                 rounds ? 0x1p-9 + 1e-5 : 1e-5);
  }
}

TEST(Window, NarrowConvolutions) {
  for (const Shape &s : convolutions())
    testNarrow(s);
}

/// Batches of images with fewer places than a panel of products has, or with some of another; windows that skip none,
/// and pads larger than windows; points.
TEST(Window, NarrowBatchesOfAnyShape) {
  std::mt19937 random(5);
  const auto from = [&](int64_t least, int64_t most) { return between(least, most, random); };
  for (int tests = kBackend == Backend::cuda ? 34 : 0; tests < 40;) { // a GPU has its own library for them
    const auto pair = [&](int64_t least, int64_t most) { return Ints{from(least, most), from(least, most)}; };
    const bool isPoint = from(0, 2) == 0, skips = from(0, 1) == 0;
    const Shape s{from(1, 9),
                  from(1, 2),
                  from(5, 40),
                  from(5, 40),
                  from(1, 15),
                  from(1, 15),
                  isPoint ? Ints{1, 1} : pair(1, 4),
                  skips ? pair(1, 3) : Ints{1, 1},
                  pair(1, 2),
                  isPoint ? Ints{0, 0} : pair(0, 4),
                  isPoint ? Ints{0, 0} : pair(0, 4)};
    if (!s.fits())
      continue;
    ++tests;
    SCOPED_TRACE(fmt::format("batch {}, groups {}, {} to {}, {} x {}, window {} by {}, low {}, high {}", s.batch,
                             s.groups, s.channels, s.filters, s.height, s.width, fmt::join(s.size, " x "),
                             fmt::join(s.strides, " x "), fmt::join(s.low, " x "), fmt::join(s.high, " x ")));
    testNarrow(s);
  }
}

/// In one dimension and in three: what lies in front is of size one.
TEST(Window, OtherDimensions) {
  Tensor line = tensor(DType::f32, {1, 1, 5}, {1, 2, 3, 4, 5}), pair = tensor(DType::f32, {1, 1, 2}, {10, 1});
  Attributes one = {{"strides", Ints{2}}, {"dilations", Ints{1}}, {"low", Ints{1}}, {"high", Ints{0}}};
  expectResults({"conv", one, {line, pair, absent()}, {{DType::f32, {1, 1, 3}}}}, {{1, 23, 45}}, 0);
  Tensor block = tensor(DType::f32, {1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
         ones = tensor(DType::f32, {1, 1, 2, 2, 2}, Values(8, 1));
  Attributes three = {
      {"strides", Ints{1, 1, 1}}, {"dilations", Ints{1, 1, 1}}, {"low", Ints{0, 0, 0}}, {"high", Ints{0, 0, 0}}};
  expectResults({"conv", three, {block, ones, absent()}, {{DType::f32, {1, 1, 1, 1, 1}}}}, {{36}}, 0);
}

/// Groups of one channel, in three dimensions.
TEST(Window, DepthwiseInThreeDimensions) {
  const Ints image = {5, 6, 19}, size = {2, 3, 3}, strides = {2, 1, 3}, dilations = {1, 2, 1}, low = {1, 0, 2},
             high = {0, 3, 1};
  Ints out;
  for (size_t d = 0; d < 3; ++d)
    out.push_back((image[d] + low[d] + high[d] - (size[d] - 1) * dilations[d] - 1) / strides[d] + 1);
  const int64_t batch = 2, channels = 3;
  const auto with = [](int64_t a, int64_t b, const Ints &rest) { return Dims{a, b, rest[0], rest[1], rest[2]}; };
  const Dims images = with(batch, channels, image), kernels = with(channels, 1, size),
             results = with(batch, channels, out);
  const Tensor x = random(images, 1), k = random(kernels, 2), dy = random(results, 3);
  Values y = zeros(results), dx = zeros(images), dk = zeros(kernels);
  const auto sees = [&](size_t d, int64_t result, int64_t tap) {
    return result * strides[d] + tap * dilations[d] - low[d];
  };
  for (int64_t r = 0; r < count(results); ++r)
    for (int64_t t = 0; t < count({size[0], size[1], size[2]}); ++t) {
      const int64_t plane = r / (out[0] * out[1] * out[2]),
                    i = sees(0, r / (out[1] * out[2]) % out[0], t / (size[1] * size[2])),
                    j = sees(1, r / out[2] % out[1], t / size[2] % size[1]), l = sees(2, r % out[2], t % size[2]);
      if (i < 0 || i >= image[0] || j < 0 || j >= image[1] || l < 0 || l >= image[2])
        continue;
      const auto from = static_cast<size_t>(((plane * image[0] + i) * image[1] + j) * image[2] + l),
                 to = static_cast<size_t>(r),
                 by = static_cast<size_t>(plane % channels * size[0] * size[1] * size[2] + t);
      y[to] += x.values[from] * k.values[by];
      dx[from] += dy.values[to] * k.values[by];
      dk[by] += dy.values[to] * x.values[from];
    }
  const Attributes call = {
      {"groups", channels}, {"strides", strides}, {"dilations", dilations}, {"low", low}, {"high", high}};
  expectResults({"conv", call, {x, k, absent()}, {{DType::f32, results}}}, {y}, 1e-5);
  expectResults({"conv_data_grad", call, {dy, k}, {{DType::f32, images}}}, {dx}, 1e-5);
  expectResults({"conv_weight_grad", call, {dy, x}, {{DType::f32, kernels}}}, {dk}, 1e-5);
}

//===-- pools -----------------------------------------------------------------------------------------------===//

/// Places of the image that a result's window sees, in order.
std::vector<size_t> seen(const Shape &s, int64_t y, int64_t x) {
  std::vector<size_t> places;
  for (int64_t p = 0; p < s.size[0]; ++p)
    for (int64_t q = 0; q < s.size[1]; ++q) {
      int64_t i = y * s.strides[0] + p * s.dilations[0] - s.low[0],
              j = x * s.strides[1] + q * s.dilations[1] - s.low[1];
      if (i >= 0 && i < s.height && j >= 0 && j < s.width)
        places.push_back(static_cast<size_t>(i * s.width + j));
    }
  return places;
}

struct Pooled {
  Values result, gradient;
};
Pooled pooled(const Shape &s, const std::string &kind, const Tensor &image, const Tensor &dy) {
  Pooled made{{}, Values(image.values.size(), 0)};
  size_t pixels = static_cast<size_t>(s.height * s.width);
  for (size_t plane = 0; plane < static_cast<size_t>(s.batch * s.channels); ++plane)
    for (int64_t y = 0; y < s.out(0); ++y)
      for (int64_t x = 0; x < s.out(1); ++x) {
        double gradient = dy.values[made.result.size()], value = kind == "max" ? -INFINITY : 0;
        std::vector<size_t> places = seen(s, y, x);
        auto element = [&](size_t place) { return image.values[plane * pixels + place]; };
        auto best = std::ranges::max_element(places, {}, element);
        for (size_t place : places) {
          value = kind == "max" ? std::max(value, element(place)) : value + element(place);
          double share = kind == "mean" ? gradient / static_cast<double>(places.size()) : gradient;
          made.gradient[plane * pixels + place] += kind != "max" || place == *best ? share : 0;
        }
        made.result.push_back(kind == "mean" && !places.empty() ? value / static_cast<double>(places.size()) : value);
      }
  return made;
}

/// Elements are few whole numbers: many of a window's are equal, and the first of them takes the gradient.
TEST(Window, Pools) {
  for (Shape s : kShapes) {
    s.groups = 1, s.filters = s.channels;
    for (const std::string kind : {"max", "sum", "mean"}) {
      Tensor image = integers(s.image(), -2, 3, 1, DType::f32), dy = random(s.result(), 2);
      Attributes attributes = s.window();
      attributes["kind"] = kind, attributes["size"] = s.size;
      Pooled expected = pooled(s, kind, image, dy);
      expectResults({"pool", attributes, {image}, {{DType::f32, s.result()}}}, {expected.result}, 1e-6);
      Tensor operand = kind == "max" ? image : absent();
      expectResults({"pool_grad", attributes, {dy, operand}, {{DType::f32, s.image()}}}, {expected.gradient}, 1e-6);
      Tensor narrow = integers(s.image(), -2, 3, 1, DType::bf16), slope = random(s.result(), 2, 1, DType::bf16);
      expectNarrow({"pool", attributes, {narrow}, {{DType::bf16, s.result()}}});
      for (DType result : {DType::bf16, DType::f32})
        expectNarrow({"pool_grad", attributes, {slope, kind == "max" ? narrow : absent()}, {{result, s.image()}}}, 1,
                     1e-5);
    }
  }
}

TEST(Window, PoolsOfNothingAndOfNaN) {
  Attributes attributes = {{"kind", std::string("max")}, {"size", Ints{1}}, {"strides", Ints{1}},
                           {"dilations", Ints{1}},       {"low", Ints{1}},  {"high", Ints{0}}};
  Tensor x = tensor(DType::f32, {1, 1, 2}, {3, std::nan("")});
  expectResults({"pool", attributes, {x}, {{DType::f32, {1, 1, 3}}}}, {{-INFINITY, 3, std::nan("")}}, 0);
  attributes["kind"] = std::string("mean");
  Tensor y = tensor(DType::f32, {1, 1, 2}, {3, 4});
  expectResults({"pool", attributes, {y}, {{DType::f32, {1, 1, 3}}}}, {{0, 3, 4}}, 0);
}

/// A NaN is larger than all, and the first of several takes the gradient.
TEST(Window, PoolGradientsOfNaN) {
  constexpr int64_t kWidth = 83;
  for (int64_t step : {1, 2, 3}) {
    const int64_t results = (kWidth - 3) / step + 1;
    Tensor x = integers({1, 1, kWidth}, -3, 3, 1, DType::f32), dy = random({1, 1, results}, 2);
    for (size_t place : {0, 17, 18, 40, 82})
      x.values[place] = std::nan("");
    Values expected(kWidth, 0);
    for (int64_t at = 0; at < results; ++at) {
      auto best = static_cast<size_t>(at * step);
      for (size_t other = best + 1; other < static_cast<size_t>(at * step) + 3; ++other)
        if (!std::isnan(x.values[best]) && !(x.values[other] <= x.values[best]))
          best = other;
      expected[best] += dy.values[static_cast<size_t>(at)];
    }
    Attributes attributes = {{"kind", std::string("max")}, {"size", Ints{3}}, {"strides", Ints{step}},
                             {"dilations", Ints{1}},       {"low", Ints{0}},  {"high", Ints{0}}};
    expectResults({"pool_grad", attributes, {dy, x}, {{DType::f32, x.dims}}}, {expected}, 1e-6);
  }
}

//===-- experts ---------------------------------------------------------------------------------------------===//

struct Experts {
  int64_t rows, depth, columns, count;

  Dims matrices(int64_t transposed) const {
    return transposed ? Dims{count, columns, depth} : Dims{count, depth, columns};
  }
  /// Of each row; the last expert has none where there are several.
  Tensor chosen(DType index) const { return integers({rows}, 0, std::max<int64_t>(1, count - 1), 2, index); }
};
constexpr Experts kExperts[] = {{1, 3, 2, 1}, {37, 20, 70, 5}, {150, 18, 9, 4}, {9, 40, 17, 12}, {140, 40, 136, 2}};

TEST(Experts, ProductsAndGradients) {
  for (const Experts &e : kExperts)
    for (int64_t transposed : {0, 1})
      for (DType index : {DType::i64, DType::i32}) {
        Tensor lhs = random({e.rows, e.depth}, 1), experts = e.chosen(index);
        Dims matrices = e.matrices(transposed);
        Tensor weight = random(matrices, 3), dy = random({e.rows, e.columns}, 4);
        Values product = zeros({e.rows, e.columns}), gradient = zeros(matrices);
        for (int64_t i = 0; i < e.rows; ++i)
          for (int64_t k = 0; k < e.depth; ++k)
            for (int64_t n = 0; n < e.columns; ++n) {
              auto expert = static_cast<int64_t>(experts.values[static_cast<size_t>(i)]);
              auto at = static_cast<size_t>(expert * e.depth * e.columns +
                                            (transposed ? n * e.depth + k : k * e.columns + n));
              auto row = static_cast<size_t>(i * e.depth + k), place = static_cast<size_t>(i * e.columns + n);
              product[place] += lhs.values[row] * weight.values[at];
              gradient[at] += lhs.values[row] * dy.values[place];
            }
        Attributes attributes = {{"transposed", transposed}};
        expectResults({"expert_matmul", attributes, {lhs, weight, experts}, {{DType::f32, dy.dims}}}, {product}, 1e-5);
        expectResults({"expert_matmul_grad", attributes, {dy, lhs, experts}, {{DType::f32, matrices}}}, {gradient},
                      1e-5);
      }
}

TEST(Experts, NarrowProductsAndGradients) {
  for (const Experts &e : kExperts)
    for (int64_t transposed : {0, 1}) {
      Dims matrices = e.matrices(transposed);
      Tensor lhs = random({e.rows, e.depth}, 1, 1, DType::bf16), weight = random(matrices, 3, 1, DType::bf16),
             experts = e.chosen(DType::i64), dy = random({e.rows, e.columns}, 4, 1, DType::bf16);
      Attributes attributes = {{"transposed", transposed}};
      for (DType result : {DType::bf16, DType::f32}) {
        expectNarrow({"expert_matmul", attributes, {lhs, weight, experts}, {{result, dy.dims}}}, 1, 1e-5);
        expectNarrow({"expert_matmul_grad", attributes, {dy, lhs, experts}, {{result, matrices}}}, 1, 1e-5);
      }
    }
}

TEST(Experts, OutOfRange) {
  Tensor lhs = random({2, 3}, 1), weight = random({4, 3, 2}, 2);
  EXPECT_EQ(runError({"expert_matmul", {}, {lhs, weight, tensor(DType::i64, {2}, {0, 4})}, {{DType::f32, {2, 2}}}}),
            "index 4 at place 1 is outside [0, 4)");
}

//===-- put and found ---------------------------------------------------------------------------------------===//

double combined(const std::string &kind, double there, double update) {
  if (kind == "none")
    return update;
  if (kind == "add" || kind == "mul")
    return kind == "add" ? there + update : there * update;
  return kind == "max" ? std::max(there, update) : std::min(there, update);
}

TEST(Scatter, Rows) {
  for (const std::string kind : {"none", "add", "mul", "max", "min"})
    for (DType type : {DType::f32, DType::f64, DType::i64})
      for (int64_t inner : {1, 33, 70}) {
        int64_t outer = 2, size = 9, places = inner == 1 ? 700 : 40;
        Tensor data = integers({outer, size, inner}, -3, 4, 1, type), indices = integers({places}, -size, size, 2),
               updates = integers({outer, places, inner}, kind == "mul" ? 1 : -3, kind == "mul" ? 2 : 4, 3, type);
        Values expected = data.values;
        for (int64_t a = 0; a < outer; ++a)
          for (int64_t i = 0; i < places; ++i)
            for (int64_t b = 0; b < inner; ++b) {
              auto index = (static_cast<int64_t>(indices.values[static_cast<size_t>(i)]) + size) % size;
              double &there = expected[static_cast<size_t>((a * size + index) * inner + b)];
              there = combined(kind, there, updates.values[static_cast<size_t>((a * places + i) * inner + b)]);
            }
        expectResults(
            {"scatter", {{"axis", int64_t{1}}, {"kind", kind}}, {data, indices, updates}, {{type, data.dims}}},
            {expected}, 0);
      }
}

TEST(Scatter, Elements) {
  for (const std::string kind : {"none", "add", "mul", "max", "min"})
    for (DType type : {DType::f32, DType::i32}) {
      Dims dims = {4, 6, 5}, picked = {3, 11, 4};
      Tensor data = integers(dims, -3, 4, 1, type), indices = integers(picked, -6, 6, 2),
             updates = integers(picked, 1, 3, 3, type);
      Values expected = data.values;
      for (int64_t a = 0; a < picked[0]; ++a)
        for (int64_t i = 0; i < picked[1]; ++i)
          for (int64_t b = 0; b < picked[2]; ++b) {
            auto at = static_cast<size_t>((a * picked[1] + i) * picked[2] + b);
            auto index = (static_cast<int64_t>(indices.values[at]) + dims[1]) % dims[1];
            double &there = expected[static_cast<size_t>((a * dims[1] + index) * dims[2] + b)];
            there = combined(kind, there, updates.values[at]);
          }
      expectResults(
          {"scatter_elements", {{"axis", int64_t{1}}, {"kind", kind}}, {data, indices, updates}, {{type, dims}}},
          {expected}, 0);
    }
}

/// Few different values: equal ones stand in the order of their places, and NaN in front.
TEST(TopK, StandsInOrder) {
  for (DType type : {DType::f32, DType::bf16, DType::i64})
    for (int64_t largest : {0, 1})
      for (int64_t k : {1, 5, 140}) {
        int64_t rows = 3, width = 140;
        Tensor x = integers({rows, width}, -9, 9, 1, type);
        if (type == DType::f32)
          x.values[7] = x.values[150] = std::nan("");
        Values expected;
        for (int64_t row = 0; row < rows; ++row) {
          std::vector<int64_t> places(static_cast<size_t>(width));
          std::iota(places.begin(), places.end(), 0);
          auto value = [&](int64_t place) { return x.values[static_cast<size_t>(row * width + place)]; };
          std::ranges::stable_sort(places, [&](int64_t a, int64_t b) {
            if (std::isnan(value(a)) || std::isnan(value(b)))
              return std::isnan(value(a)) && !std::isnan(value(b));
            return largest ? value(a) > value(b) : value(a) < value(b);
          });
          expected.insert(expected.end(), places.begin(), places.begin() + k);
        }
        expectResults({"top_k", {{"k", k}, {"largest", largest}}, {x}, {{DType::i64, {rows, k}}}}, {expected}, 0);
      }
}

} // namespace
} // namespace mt::kernels::test
