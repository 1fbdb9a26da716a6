// Products, normalizations, softmax, rotary: against plain loops in 64 bits; gradients against finite differences.
#include "tests/kernels/Harness.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace mt::kernels::test {
namespace {

struct Product {
  int64_t batch, m, n, k;
  bool transposeLhs, transposeRhs, shared, bias;
};

Values multiply(const Product &p, const Values &lhs, const Values &rhs, const Values &bias) {
  Values out;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = p.bias ? bias[static_cast<size_t>(j)] : 0;
        for (int64_t l = 0; l < p.k; ++l) {
          int64_t left = b * p.m * p.k + (p.transposeLhs ? l * p.m + i : i * p.k + l);
          int64_t right = (p.shared ? 0 : b * p.k * p.n) + (p.transposeRhs ? j * p.k + l : l * p.n + j);
          sum += lhs[static_cast<size_t>(left)] * rhs[static_cast<size_t>(right)];
        }
        out.push_back(sum);
      }
  return out;
}

Dims with(std::vector<int64_t> batch, int64_t rows, int64_t columns, bool transposed) {
  batch.insert(batch.end(), {transposed ? columns : rows, transposed ? rows : columns});
  return batch;
}

void testProduct(const Product &p, DType type, double tolerance) {
  std::vector<int64_t> batch = p.batch == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{p.batch};
  Tensor lhs = random(with(batch, p.m, p.k, p.transposeLhs), 1, 1, type);
  Tensor rhs = random(with(p.shared ? std::vector<int64_t>{} : batch, p.k, p.n, p.transposeRhs), 2, 1, type);
  Tensor bias = p.bias ? random({p.n}, 3, 1, type) : absent();
  Attributes attributes = {{"transposeLhs", int64_t{p.transposeLhs}}, {"transposeRhs", int64_t{p.transposeRhs}}};
  expectResults({"matmul", attributes, {lhs, rhs, bias}, {{type, with(batch, p.m, p.n, false)}}},
                {multiply(p, lhs.values, rhs.values, bias.values)}, tolerance);
}

TEST(Matmul, EveryForm) {
  for (bool left : {false, true})
    for (bool right : {false, true})
      for (bool bias : {false, true})
        for (bool shared : {false, true}) {
          testProduct({3, 17, 29, 23, left, right, shared, bias}, DType::f32, 1e-5);
          testProduct({1, 5, 3, 1, left, right, shared, bias}, DType::f32, 1e-6);
          testProduct({2, 7, 300, 5, left, right, shared, bias}, DType::f64, 1e-13);
          testProduct({2, 7, 30, 5, left, right, shared, bias}, DType::bf16, 2e-2);
        }
}

TEST(Matmul, ManyBlocks) {
  testProduct({1, 1100, 650, 41, false, true, false, true}, DType::f32, 1e-5);
  testProduct({1, 1100, 650, 41, true, false, false, false}, DType::f32, 1e-5);
  testProduct({1, 1024, 200, 900, true, false, false, false}, DType::f32, 3e-5); // columns in one set of the cache
  for (bool right : {false, true})                                               // the summed dimension in parts
    for (int64_t batch : {1, 2})
      testProduct({batch, 90, 70, 3100, true, right, false, false}, DType::f32, 6e-5);
  testProduct({1, 300, 70, 1030, false, false, false, true}, DType::f32, 3e-5);
  testProduct({1, 1, 1, 7, false, false, false, false}, DType::f32, 1e-6);
}

struct Rows {
  int64_t count, width;
  size_t at(int64_t row, int64_t column) const { return static_cast<size_t>(row * width + column); }
};

/// layer_norm, or rms_norm where not centered: result, mean, rstd.
std::vector<Values> norm(const Rows &rows, const Values &x, const Values &gain, const Values &bias, bool centered,
                         double epsilon) {
  std::vector<Values> out = {Values(x.size()), {}, {}};
  for (int64_t i = 0; i < rows.count; ++i) {
    double mean = 0, square = 0;
    for (int64_t j = 0; j < rows.width && centered; ++j)
      mean += x[rows.at(i, j)] / static_cast<double>(rows.width);
    for (int64_t j = 0; j < rows.width; ++j)
      square += std::pow(x[rows.at(i, j)] - mean, 2) / static_cast<double>(rows.width);
    double rstd = 1 / std::sqrt(square + epsilon);
    for (int64_t j = 0; j < rows.width; ++j) {
      size_t c = static_cast<size_t>(j);
      out[0][rows.at(i, j)] =
          (x[rows.at(i, j)] - mean) * rstd * (gain.empty() ? 1 : gain[c]) + (bias.empty() ? 0 : bias[c]);
    }
    out[1].push_back(mean);
    out[2].push_back(rstd);
  }
  return out;
}

struct NormCase {
  Dims dims;
  bool gain, bias;
};
const NormCase kNorms[] = {{{7, 13}, true, true},   {{3, 5, 64}, true, false}, {{41, 33}, false, false},
                           {{2, 1030}, true, true}, {{5}, false, true},        {{700, 3}, true, true}};

TEST(Norm, Forward) {
  for (const NormCase &test : kNorms) {
    int64_t width = test.dims.back();
    Tensor x = random(test.dims, 1, 3), gain = test.gain ? random({width}, 2) : absent(),
           bias = test.bias ? random({width}, 3) : absent();
    Rows rows{x.elements() / width, width};
    Dims statistics(test.dims.begin(), test.dims.end() - 1);
    for (double &value : x.values)
      value += 2;
    x.values = run({"copy", {}, {x}, {{DType::f32, test.dims}}}).outputs[0];
    std::vector<Values> layer = norm(rows, x.values, gain.values, bias.values, true, 1e-5);
    expectResults({"layer_norm",
                   {{"epsilon", 1e-5}},
                   {x, gain, bias},
                   {{DType::f32, test.dims}, {DType::f32, statistics}, {DType::f32, statistics}}},
                  layer, 5e-6);
    std::vector<Values> rms = norm(rows, x.values, gain.values, {}, false, 1e-6);
    expectResults({"rms_norm", {{"epsilon", 1e-6}}, {x, gain}, {{DType::f32, test.dims}, {DType::f32, statistics}}},
                  {rms[0], rms[2]}, 2e-6);
  }
}

void testNormGrad(const NormCase &test, bool centered, double tolerance) {
  int64_t width = test.dims.back();
  Tensor x = random(test.dims, 1, 2), gradient = random(test.dims, 2), gain = test.gain ? random({width}, 3) : absent();
  Rows rows{x.elements() / width, width};
  Dims statistics(test.dims.begin(), test.dims.end() - 1);
  std::vector<Values> out = norm(rows, x.values, gain.values, {}, centered, 1e-5);
  auto loss = [&](const Values &at, const Values &factor, const Values &shift) {
    return inner(norm(rows, at, factor, shift, centered, 1e-5)[0], gradient.values);
  };
  Values ones = test.gain ? gain.values : Values(static_cast<size_t>(width), 1), zeros(static_cast<size_t>(width), 0);
  Values dx = numericGradient([&](const Values &v) { return loss(v, gain.values, {}); }, x.values);
  Values dgain = numericGradient([&](const Values &v) { return loss(x.values, v, {}); }, ones);
  Values dbias = numericGradient([&](const Values &v) { return loss(x.values, gain.values, v); }, zeros);
  Tensor mean = tensor(DType::f32, statistics, out[1]), rstd = tensor(DType::f32, statistics, out[2]);
  Output full{DType::f32, test.dims}, row{DType::f32, {width}};
  if (centered)
    expectResults({"layer_norm_grad", {}, {gradient, x, mean, rstd, gain, absent()}, {full, row, row}},
                  {dx, dgain, dbias}, tolerance);
  else
    expectResults({"rms_norm_grad", {}, {gradient, x, rstd, gain, absent()}, {full, row}}, {dx, dgain}, tolerance);
  const Tensor addend = random(test.dims, 4);
  for (size_t i = 0; i < dx.size(); ++i)
    dx[i] += addend.values[i];
  if (centered)
    expectResults({"layer_norm_grad", {}, {gradient, x, mean, rstd, gain, addend}, {full, row, row}},
                  {dx, dgain, dbias}, tolerance);
  else
    expectResults({"rms_norm_grad", {}, {gradient, x, rstd, gain, addend}, {full, row}}, {dx, dgain}, tolerance);
}

TEST(Norm, Gradients) {
  for (const NormCase &test : {NormCase{{7, 13}, true, true}, NormCase{{2, 3, 9}, false, true},
                               NormCase{{77, 3}, true, true}, NormCase{{4, 37}, true, true}}) {
    testNormGrad(test, true, 1e-5);
    testNormGrad(test, false, 1e-5);
  }
}

/// The gradients of operand, gain and bias by their formula; mean and rstd as norm() gives them.
std::vector<Values> normGradients(const Rows &rows, const Values &gradient, const Values &x, const Values &gain,
                                  const std::vector<Values> &forward, bool centered) {
  size_t width = static_cast<size_t>(rows.width);
  std::vector<Values> out = {Values(x.size()), Values(width), Values(width)};
  for (int64_t i = 0; i < rows.count; ++i) {
    double center = forward[1][static_cast<size_t>(i)], factor = forward[2][static_cast<size_t>(i)], sum = 0,
           product = 0;
    for (size_t c = 0, at = rows.at(i, 0); c < width; ++c, ++at) {
      double xhat = (x[at] - center) * factor;
      sum += centered ? gradient[at] * gain[c] / static_cast<double>(width) : 0;
      product += gradient[at] * gain[c] * xhat / static_cast<double>(width);
      out[1][c] += gradient[at] * xhat;
      out[2][c] += gradient[at];
    }
    for (size_t c = 0, at = rows.at(i, 0); c < width; ++c, ++at)
      out[0][at] = factor * (gradient[at] * gain[c] - sum - (x[at] - center) * factor * product);
  }
  return out;
}

/// Both norms with all their results, of operands of a type and parameters of 32 bits.
void testWideNorm(int64_t count, int64_t width, bool centered, DType type) {
  SCOPED_TRACE(fmt::format("{} rows of {}", count, width));
  Rows rows{count, width};
  Tensor x = random({count, width}, 1, 3, type), gradient = random({count, width}, 2, 1, type),
         gain = random({width}, 3), bias = random({width}, 4);
  std::vector<Values> forward = norm(rows, x.values, gain.values, centered ? bias.values : Values(), centered, 1e-5);
  std::vector<Values> back = normGradients(rows, gradient.values, x.values, gain.values, forward, centered);
  Tensor mean = tensor(DType::f32, {count}, forward[1]), rstd = tensor(DType::f32, {count}, forward[2]);
  Output full{type, {count, width}}, row{DType::f32, {width}}, statistic{DType::f32, {count}};
  Call there{"layer_norm", {{"epsilon", 1e-5}}, {x, gain, bias}, {full, statistic, statistic}};
  Call again{"layer_norm_grad", {}, {gradient, x, mean, rstd, gain, absent()}, {full, row, row}};
  if (!centered) {
    there = {"rms_norm", {{"epsilon", 1e-5}}, {x, gain}, {full, statistic}};
    again = {"rms_norm_grad", {}, {gradient, x, rstd, gain, absent()}, {full, row}};
    forward.erase(forward.begin() + 1);
    back.pop_back();
  }
  if (type == DType::bf16) {
    expectNarrow(there);
    return expectNarrow(again, 1, 1e-5);
  }
  expectResults(there, forward, 1e-5);
  expectResults(again, back, 1e-5);
}

/// Widths of models, and those around the ends of what a GPU's threads hold.
TEST(Norm, WideRows) {
  for (auto [count, width] : {std::pair<int64_t, int64_t>{9, 264}, {3, 4096}, {2, 8200}, {2, 16392}})
    for (bool centered : {false, true})
      for (DType type : {DType::f32, DType::bf16})
        testWideNorm(count, width, centered, type);
}

Values softmax(const Rows &rows, const Values &x, bool logarithm) {
  Values out(x.size());
  for (int64_t i = 0; i < rows.count; ++i) {
    double most = -INFINITY, total = 0;
    for (int64_t j = 0; j < rows.width; ++j)
      most = std::max(most, x[rows.at(i, j)]);
    for (int64_t j = 0; j < rows.width; ++j)
      total += std::exp(x[rows.at(i, j)] - most);
    for (int64_t j = 0; j < rows.width; ++j) {
      double log = x[rows.at(i, j)] - most - std::log(total);
      out[rows.at(i, j)] = logarithm ? log : std::exp(log);
    }
  }
  return out;
}

TEST(Softmax, ForwardAndGradient) {
  for (const Dims &dims : {Dims{3, 7}, Dims{2, 5, 300}, Dims{9, 1}, Dims{3, 2000}}) {
    Tensor x = random(dims, 1, 9);
    Rows rows{x.elements() / dims.back(), dims.back()};
    x.values[0] = -INFINITY;
    if (dims.back() > 1) {
      expectResults({"softmax", {}, {x}, {{DType::f32, dims}}}, {softmax(rows, x.values, false)}, 1e-6);
      expectResults({"log_softmax", {}, {x}, {{DType::f32, dims}}}, {softmax(rows, x.values, true)}, 1e-6);
    }
    x.values[0] = 1;
    Tensor y = tensor(DType::f32, dims, softmax(rows, x.values, false)), gradient = random(dims, 2);
    Values expected(y.values.size());
    for (int64_t i = 0; i < rows.count; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < rows.width; ++j)
        sum += y.values[rows.at(i, j)] * gradient.values[rows.at(i, j)];
      for (int64_t j = 0; j < rows.width; ++j)
        expected[rows.at(i, j)] = y.values[rows.at(i, j)] * (gradient.values[rows.at(i, j)] - sum);
    }
    expectResults({"softmax_grad", {}, {gradient, y}, {{DType::f32, dims}}}, {expected}, 1e-6);
  }
}

TEST(Softmax, GradientIsTheDerivative) {
  Rows rows{2, 6};
  Tensor x = random({2, 6}, 1, 2), gradient = random({2, 6}, 2);
  Values expected =
      numericGradient([&](const Values &v) { return inner(softmax(rows, v, false), gradient.values); }, x.values);
  Tensor y = tensor(DType::f32, {2, 6}, softmax(rows, x.values, false));
  expectResults({"softmax_grad", {}, {gradient, y}, {{DType::f32, {2, 6}}}}, {expected}, 1e-6);
}

Values rotate(const Tensor &x, const Tensor &cosine, const Tensor &sine, bool interleaved, bool inverse) {
  Values out = x.values;
  int64_t sequence = x.dims[1], heads = x.dims[2], head = x.dims[3], pairs = cosine.dims[2];
  for (int64_t token = 0; token < x.dims[0] * sequence; ++token)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < pairs; ++i) {
        int64_t row = (cosine.dims[0] == 1 ? token % sequence : token) * pairs + i, base = (token * heads + h) * head;
        size_t first = static_cast<size_t>(base + (interleaved ? 2 * i : i));
        size_t second = static_cast<size_t>(base + (interleaved ? 2 * i + 1 : i + pairs));
        double c = cosine.values[static_cast<size_t>(row)],
               s = sine.values[static_cast<size_t>(row)] * (inverse ? -1 : 1);
        out[first] = x.values[first] * c - x.values[second] * s;
        out[second] = x.values[second] * c + x.values[first] * s;
      }
  return out;
}

TEST(Rotary, BothLayoutsBothWays) {
  for (bool interleaved : {false, true})
    for (bool inverse : {false, true})
      for (int64_t tables : {1, 2})
        for (int64_t pairs : {4, 3}) {
          Tensor x = random({2, 37, 3, 9}, 1), cosine = random({tables, 37, pairs}, 2),
                 sine = random({tables, 37, pairs}, 3);
          Attributes attributes = {{"interleaved", int64_t{interleaved}}, {"inverse", int64_t{inverse}}};
          expectResults({"rotary", attributes, {x, cosine, sine}, {{DType::f32, x.dims}}},
                        {rotate(x, cosine, sine, interleaved, inverse)}, 1e-6);
        }
}

/// Heads that a GPU moves in packs.
TEST(Rotary, WholeOctets) {
  for (bool interleaved : {false, true})
    for (int64_t pairs : {8, 16})
      for (DType type : {DType::f32, DType::bf16}) {
        Tensor x = random({2, 37, 3, 40}, 1, 1, type), cosine = random({1, 37, pairs}, 2),
               sine = random({1, 37, pairs}, 3);
        Call call{"rotary", {{"interleaved", int64_t{interleaved}}}, {x, cosine, sine}, {{type, x.dims}}};
        if (type == DType::bf16)
          expectNarrow(call);
        else
          expectResults(call, {rotate(x, cosine, sine, interleaved, false)}, 1e-6);
      }
}

} // namespace
} // namespace mt::kernels::test
