// Losses and their gradients: against formulas in 64 bits and finite differences of them.
#include "tests/kernels/Harness.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace mt::kernels::test {
namespace {

constexpr double kInverse = 0.125;

Tensor stepScalars() { return scalars({{Scalars::kInverseValid, kInverse}}); }

/// What a cross-entropy has besides.
struct Terms {
  double labelSmoothing = 0, zLoss = 0;

  /// `others` with its attributes.
  Attributes attributes(Attributes others = {}) const {
    if (labelSmoothing > 0)
      others["labelSmoothing"] = labelSmoothing;
    if (zLoss > 0)
      others["zLoss"] = zLoss;
    return others;
  }
  /// That class j has of the probability that is wanted.
  double share(int64_t classes, int64_t j, double label) const {
    return labelSmoothing / static_cast<double>(classes) + (static_cast<double>(j) == label ? 1 - labelSmoothing : 0);
  }
};
constexpr Terms kAllTerms[] = {{}, {0.1, 0}, {0, 0.01}, {0.3, 0.02}};

double crossEntropy(int64_t rows, int64_t classes, const Values &logits, const Values &labels,
                    const Terms &terms = {}) {
  double loss = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const double *row = logits.data() + i * classes;
    double most = *std::max_element(row, row + classes), total = 0;
    for (int64_t j = 0; j < classes; ++j)
      total += std::exp(row[j] - most);
    double label = labels[static_cast<size_t>(i)], logsumexp = most + std::log(total);
    if (label < 0)
      continue;
    loss += terms.zLoss * logsumexp * logsumexp;
    for (int64_t j = 0; j < classes; ++j)
      loss += terms.share(classes, j, label) * (logsumexp - row[j]);
  }
  return loss * kInverse;
}

/// Labels of which some do not count.
Tensor labelsOf(int64_t rows, int64_t classes, DType type) {
  Tensor labels = integers({rows}, 0, classes, 9, type);
  for (size_t i = 0; i < labels.values.size(); i += 3)
    labels.values[i] = -100;
  return labels;
}

TEST(Loss, CrossEntropy) {
  for (auto [rows, classes] : {std::pair<int64_t, int64_t>{7, 5}, {1, 11}, {40, 3}, {4, 1}})
    for (const Terms &terms : kAllTerms)
      for (DType type : {DType::i64, DType::i32}) {
        Tensor logits = random({rows, classes}, 1, 5), labels = labelsOf(rows, classes, type);
        auto loss = [&](const Values &at) { return crossEntropy(rows, classes, at, labels.values, terms); };
        Values gradient = numericGradient(loss, logits.values);
        expectResults({"cross_entropy", terms.attributes(), {logits, labels, stepScalars()}, {{DType::f32, {}}}},
                      {{loss(logits.values)}}, 1e-6);
        expectResults({"cross_entropy_grad",
                       terms.attributes(),
                       {logits, labels, stepScalars()},
                       {{DType::f32, {}}, {DType::f32, {rows, classes}}}},
                      {{loss(logits.values)}, gradient}, 1e-6);
      }
}

TEST(Loss, CrossEntropyOfManyClasses) {
  Tensor logits = random({37, 50257}, 1, 8), labels = labelsOf(37, 50257, DType::i64);
  for (const Terms &terms : kAllTerms) {
    double loss = crossEntropy(37, 50257, logits.values, labels.values, terms);
    expectResults({"cross_entropy", terms.attributes(), {logits, labels, stepScalars()}, {{DType::f32, {}}}}, {{loss}},
                  2e-7);
  }
}

/// d(loss)/d(logits) of crossEntropy().
Values crossEntropyGradient(int64_t rows, int64_t classes, const Values &logits, const Values &labels,
                            const Terms &terms = {}) {
  Values gradient(logits.size());
  for (int64_t i = 0; i < rows; ++i) {
    const double *row = logits.data() + i * classes;
    double most = *std::max_element(row, row + classes), total = 0, label = labels[static_cast<size_t>(i)];
    for (int64_t j = 0; j < classes; ++j)
      total += std::exp(row[j] - most);
    double slope = 1 + 2 * terms.zLoss * (most + std::log(total));
    for (int64_t j = 0; j < classes && label >= 0; ++j)
      gradient[static_cast<size_t>(i * classes + j)] =
          (slope * std::exp(row[j] - most) / total - terms.share(classes, j, label)) * kInverse;
  }
  return gradient;
}

/// Rows for a warp and for a block of a GPU, in one piece and in several, in packs and not.
TEST(Loss, CrossEntropyGradientOfManyClasses) {
  for (int64_t classes : {512, 1000, 16384, 50257})
    for (const Terms &terms : kAllTerms) {
      Tensor logits = random({3, classes}, 1, 8), labels = labelsOf(3, classes, DType::i64);
      double loss = crossEntropy(3, classes, logits.values, labels.values, terms);
      Values gradient = crossEntropyGradient(3, classes, logits.values, labels.values, terms);
      std::vector<Output> results = {{DType::f32, {}}, {DType::f32, logits.dims}};
      expectResults({"cross_entropy_grad", terms.attributes(), {logits, labels, stepScalars()}, results},
                    {{loss}, gradient}, 1e-6);
      logits = random({3, classes}, 1, 8, DType::bf16), results[1].type = DType::bf16;
      expectNarrow({"cross_entropy_grad", terms.attributes(), {logits, labels, stepScalars()}, results}, 1, 1e-7);
    }
}

TEST(Loss, SquaredError) {
  Tensor prediction = random({3, 700}, 1), target = random({3, 700}, 2);
  double loss = 0;
  Values gradient;
  for (size_t i = 0; i < prediction.values.size(); ++i) {
    double away = prediction.values[i] - target.values[i];
    loss += away * away * kInverse;
    gradient.push_back(2 * away * kInverse);
  }
  expectResults({"squared_error", {}, {prediction, target, stepScalars()}, {{DType::f32, {}}}}, {{loss}}, 1e-6);
  expectResults(
      {"squared_error_grad", {}, {prediction, target, stepScalars()}, {{DType::f32, {}}, {DType::f32, {3, 700}}}},
      {{loss}, gradient}, 1e-6);
}

struct HeadCase {
  int64_t rows, width, classes, chunk;
  bool transposed, bias;
  double scale, cap;
  Terms terms = {};

  Attributes attributes() const {
    return terms.attributes(
        {{"transposed", int64_t{transposed}}, {"logitScale", scale}, {"softCap", cap}, {"chunk", chunk}});
  }
};

size_t weightAt(const HeadCase &c, int64_t v, int64_t d) {
  return static_cast<size_t>(c.transposed ? d * c.classes + v : v * c.width + d);
}

Values headLogits(const HeadCase &c, const Values &hidden, const Values &weight, const Values &bias) {
  Values logits;
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t v = 0; v < c.classes; ++v) {
      double sum = c.bias ? bias[static_cast<size_t>(v)] : 0;
      for (int64_t d = 0; d < c.width; ++d)
        sum += hidden[static_cast<size_t>(i * c.width + d)] * weight[weightAt(c, v, d)];
      sum *= c.scale;
      logits.push_back(c.cap > 0 ? c.cap * std::tanh(sum / c.cap) : sum);
    }
  return logits;
}

double headLoss(const HeadCase &c, const Values &hidden, const Values &weight, const Values &bias,
                const Values &labels) {
  return crossEntropy(c.rows, c.classes, headLogits(c, hidden, weight, bias), labels, c.terms);
}

void testHead(const HeadCase &c, double tolerance) {
  Tensor hidden = random({c.rows, c.width}, 1, 1), bias = c.bias ? random({c.classes}, 3) : absent();
  Tensor weight = random(c.transposed ? Dims{c.width, c.classes} : Dims{c.classes, c.width}, 2, 1);
  Tensor labels = labelsOf(c.rows, c.classes, DType::i64);
  Attributes attributes = c.attributes();
  Values expected = {headLoss(c, hidden.values, weight.values, bias.values, labels.values)};
  expectResults({"linear_cross_entropy", attributes, {hidden, weight, bias, labels, stepScalars()}, {{DType::f32, {}}}},
                {expected}, tolerance);
  auto byHidden = [&](const Values &v) { return headLoss(c, v, weight.values, bias.values, labels.values); };
  auto byWeight = [&](const Values &v) { return headLoss(c, hidden.values, v, bias.values, labels.values); };
  auto byBias = [&](const Values &v) { return headLoss(c, hidden.values, weight.values, v, labels.values); };
  Call call{"linear_cross_entropy_grad",
            attributes,
            {hidden, weight, bias, labels, stepScalars()},
            {{DType::f32, {}}, {DType::f32, hidden.dims}, {DType::f32, weight.dims}}};
  std::vector<Values> gradients = {expected, numericGradient(byHidden, hidden.values),
                                   numericGradient(byWeight, weight.values)};
  if (c.bias) {
    call.outputs.push_back({DType::f32, {c.classes}});
    gradients.push_back(numericGradient(byBias, bias.values));
    return expectResults(call, gradients, tolerance);
  }
  call.outputs.push_back({DType::f32, {}});
  Outcome outcome = run(call, 2, 0, 8);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < gradients[i].size(); ++j)
      ASSERT_NEAR(outcome.outputs[i][j], gradients[i][j], tolerance) << "result " << i << " at " << j;
}

TEST(Loss, LinearCrossEntropy) {
  for (int64_t chunk : {0, 1, 3, 7, 100})
    for (bool transposed : {false, true}) {
      testHead({7, 5, 11, chunk, transposed, true, 1, 0}, 2e-6);
      testHead({7, 5, 11, chunk, transposed, false, 0.5, 0}, 2e-6);
      testHead({7, 5, 11, chunk, transposed, true, 2, 1.5}, 2e-6);
      testHead({7, 5, 11, chunk, transposed, true, 2, 1.5, {0.1, 0.02}}, 2e-6);
      testHead({7, 5, 11, chunk, transposed, false, 0.5, 0, {0.1, 0}}, 2e-6);
      testHead({7, 5, 11, chunk, transposed, false, 0.5, 0, {0, 0.02}}, 2e-6);
    }
}

/// Rows that a GPU's block of threads passes over several times: gradients by their formula.
void testWideHead(const HeadCase &c, DType type, double tolerance) {
  SCOPED_TRACE(fmt::format("{} classes, {}, bias {}, cap {}", c.classes, name(type), c.bias, c.cap));
  Tensor hidden = random({c.rows, c.width}, 1, 2, type), weight = random({c.classes, c.width}, 2, 1, type);
  Tensor bias = c.bias ? random({c.classes}, 3) : absent(), labels = labelsOf(c.rows, c.classes, DType::i32);
  Values logits = headLogits(c, hidden.values, weight.values, bias.values);
  Values back = crossEntropyGradient(c.rows, c.classes, logits, labels.values, c.terms);
  std::vector<Values> expected = {{crossEntropy(c.rows, c.classes, logits, labels.values, c.terms)},
                                  Values(hidden.values.size()),
                                  Values(weight.values.size()),
                                  Values(c.bias ? static_cast<size_t>(c.classes) : 0)};
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t v = 0; v < c.classes; ++v) {
      size_t at = static_cast<size_t>(i * c.classes + v);
      double slope = back[at] * c.scale * (c.cap > 0 ? 1 - std::pow(logits[at] / c.cap, 2) : 1);
      if (c.bias)
        expected[3][static_cast<size_t>(v)] += slope;
      for (int64_t d = 0; d < c.width; ++d) {
        size_t own = static_cast<size_t>(i * c.width + d);
        expected[1][own] += slope * weight.values[weightAt(c, v, d)];
        expected[2][weightAt(c, v, d)] += slope * hidden.values[own];
      }
    }
  const Call call{"linear_cross_entropy_grad",
                  c.attributes(),
                  {hidden, weight, bias, labels, stepScalars()},
                  {{DType::f32, {}}, {type, hidden.dims}, {type, weight.dims}, {DType::f32, {c.classes}}}};
  const uint64_t unused = c.bias ? 0 : 8;
  Outcome outcome = run(call, 2, 0, unused);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_TRUE(outcome.guardsIntact) << "wrote outside an operand";
  for (size_t i = 0; i < expected.size(); ++i)
    for (size_t j = 0; j < expected[i].size(); ++j)
      ASSERT_NEAR(outcome.outputs[i][j], expected[i][j], tolerance * std::max(1.0, std::abs(expected[i][j])))
          << "result " << i << " at " << j;
  EXPECT_EQ(run(call, 5, 0, unused).outputs, outcome.outputs) << "depends on threads";
  const Outcome sum = run(call, 2, 2, unused, {{}, Values(hidden.values.size(), 1), {}, {}});
  for (size_t j = 0; j < expected[1].size(); ++j)
    ASSERT_NEAR(sum.outputs[1][j], 1 + expected[1][j], 1e-5 + 2 * tolerance * std::max(1.0, std::abs(expected[1][j])))
        << j;
}

TEST(Loss, LinearCrossEntropyOfManyClasses) {
  for (int64_t classes : {1500, 1501, 5000, 13000}) // the last: dhidden's sums over classes are in parts
    for (auto [type, tolerance] : {std::pair{DType::f32, 2e-6}, {DType::bf16, 4e-3}}) {
      testWideHead({5, 24, classes, 2, false, false, 1, 0}, type, tolerance);
      testWideHead({5, 24, classes, 0, false, true, 0.5, 0}, type, tolerance);
      testWideHead({5, 24, classes, 0, false, false, 0.5, 3}, type, tolerance);
      testWideHead({5, 24, classes, 2, false, true, 0.5, 3, {0.1, 0.01}}, type, tolerance);
    }
}

/// Chunks change the order of sums and nothing else.
TEST(Loss, ChunksAgree) {
  Tensor hidden = random({90, 64}, 1), weight = random({1000, 64}, 2), labels = labelsOf(90, 1000, DType::i64);
  auto withChunk = [&](int64_t chunk) {
    return run({"linear_cross_entropy_grad",
                {{"chunk", chunk}},
                {hidden, weight, absent(), labels, stepScalars()},
                {{DType::f32, {}}, {DType::f32, {90, 64}}, {DType::f32, {1000, 64}}, {DType::f32, {}}}},
               2, 0, 8);
  };
  Outcome whole = withChunk(0), parts = withChunk(16);
  if (kBackend == Backend::cpu) { // a GPU's library multiplies fewer rows in another order
    EXPECT_EQ(whole.outputs[0], parts.outputs[0]);
  }
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < whole.outputs[i].size(); ++j)
      ASSERT_NEAR(whole.outputs[i][j], parts.outputs[i][j], i == 0 ? 1e-5 : 1e-6);
}

TEST(Loss, LabelOutOfRange) {
  Tensor logits = random({2, 3}, 1), labels = tensor(DType::i64, {2}, {0, 3}), weight = random({3, 4}, 1),
         hidden = random({2, 4}, 1);
  std::string message = "label 3 of row 1 is outside the 3 classes";
  EXPECT_EQ(runError({"cross_entropy", {}, {logits, labels, stepScalars()}, {{DType::f32, {}}}}), message);
  EXPECT_EQ(
      runError({"linear_cross_entropy", {}, {hidden, weight, absent(), labels, stepScalars()}, {{DType::f32, {}}}}),
      message);
}

} // namespace
} // namespace mt::kernels::test
