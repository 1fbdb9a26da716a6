// Recurrent layers against plain loops in 64 bits; their gradients against finite differences of those.
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mt::kernels::test {
namespace {

enum { kI = 0, kO = 1, kF = 2, kC = 3, kZ = 0, kR = 1, kN = 2 };

struct Layer {
  std::string kind;
  int64_t steps = 4, batch = 3, width = 5;
  bool reverse = false, linear = false, coupled = false, initial = true, biased = true, peephole = false;
  Values lengths = {};
  double clip = 0;
  std::string gate = "sigmoid", candidate = "tanh", output = "tanh";

  bool lstm() const { return kind == "lstm"; }
  int64_t gates() const { return lstm() ? 4 : kind == "gru" ? 3 : 1; }
  int64_t line() const { return gates() * width; }
  Dims states() const { return {steps, batch, width}; }
  Attributes attributes() const {
    return {{"kind", kind},
            {"reverse", int64_t{reverse}},
            {"linearBeforeReset", int64_t{linear}},
            {"coupled", int64_t{coupled}},
            {"clip", clip},
            {"gate", gate},
            {"candidate", candidate},
            {"output", output}};
  }
  int64_t stepAt(int64_t i) const { return reverse ? steps - 1 - i : i; }
};

double value(const std::string &name, double x) {
  return name == "tanh" ? std::tanh(x) : name == "relu" ? std::max(x, 0.0) : 1 / (1 + std::exp(-x));
}

/// Operands of a call, in order; those that are absent have no values.
struct Operands {
  Tensor gates, weight, bias, hidden, cell, lengths, peephole;

  explicit Operands(const Layer &layer, DType type = DType::f32)
      : gates(random({layer.steps, layer.batch, layer.line()}, 1, 1.5, type)),
        weight(random({layer.line(), layer.width}, 2, 0.6, type)),
        bias(layer.biased ? random({layer.line()}, 3, 1, type) : absent()),
        hidden(layer.initial ? random({layer.batch, layer.width}, 4, 1, type) : absent()),
        cell(layer.initial && layer.lstm() ? random({layer.batch, layer.width}, 5, 1, type) : absent()),
        lengths(layer.lengths.empty() ? absent() : tensor(DType::i32, {layer.batch}, layer.lengths)),
        peephole(layer.peephole ? random({3 * layer.width}, 6, 1, type) : absent()) {}
  std::vector<Tensor> inputs() const { return {gates, weight, bias, hidden, cell, lengths, peephole}; }
};

double at(const Values &values, int64_t place, double otherwise = 0) {
  return values.empty() ? otherwise : values[static_cast<size_t>(place)];
}

/// Hidden and cell states of all steps, and p of all steps.
struct Walked {
  const Layer &of;
  const Operands &in;
  Values hidden, cells, products, before, cellBefore;

  double x(int64_t s, int64_t b, int64_t gate, int64_t j) const {
    return at(in.gates.values, (s * of.batch + b) * of.line() + gate * of.width + j);
  }
  double activated(const std::string &name, double z) const {
    return value(name, of.clip > 0 ? std::clamp(z, -of.clip, of.clip) : z);
  }
  double product(const Values &row, int64_t gate, int64_t j) const {
    double sum = at(in.bias.values, gate * of.width + j);
    for (int64_t k = 0; k < of.width; ++k)
      sum += row[static_cast<size_t>(k)] * at(in.weight.values, (gate * of.width + j) * of.width + k);
    return sum;
  }
  double peep(int64_t which, int64_t j) const { return at(in.peephole.values, which * of.width + j); }

  /// One row of the batch at a step.
  void advance(int64_t s, int64_t b, Values &h, Values &c) {
    Values old = h, left = h, p;
    if (of.kind == "gru" && !of.linear)
      for (int64_t j = 0; j < of.width; ++j)
        left[static_cast<size_t>(j)] *= activated(of.gate, x(s, b, kR, j) + product(old, kR, j));
    for (int64_t gate = 0; gate < of.gates(); ++gate)
      for (int64_t j = 0; j < of.width; ++j)
        p.push_back(product(of.kind == "gru" && gate == kN ? left : old, gate, j));
    for (int64_t j = 0; j < of.width; ++j) {
      auto z = [&](int64_t gate, double factor = 1) {
        return x(s, b, gate, j) + factor * p[static_cast<size_t>(gate * of.width + j)];
      };
      double &state = h[static_cast<size_t>(j)], &cell = c[static_cast<size_t>(j)];
      if (of.lstm()) {
        double i = activated(of.gate, z(kI) + peep(0, j) * cell);
        double f = of.coupled ? 1 - i : activated(of.gate, z(kF) + peep(2, j) * cell);
        cell = f * cell + i * activated(of.candidate, z(kC));
        state = activated(of.gate, z(kO) + peep(1, j) * cell) * value(of.output, cell);
      } else if (of.kind == "gru") {
        double update = activated(of.gate, z(kZ)), reset = activated(of.gate, z(kR));
        state = (1 - update) * activated(of.candidate, z(kN, of.linear ? reset : 1)) + update * state;
      } else {
        state = activated(of.candidate, z(0));
      }
    }
    std::copy(p.begin(), p.end(), products.begin() + (s * of.batch + b) * of.line());
  }

  Walked(const Layer &of, const Operands &in) : of(of), in(in) {
    size_t all = static_cast<size_t>(of.steps * of.batch * of.width);
    hidden = cells = before = cellBefore = Values(all);
    products = Values(static_cast<size_t>(of.steps * of.batch * of.line()));
    for (int64_t b = 0; b < of.batch; ++b) {
      Values h, c;
      for (int64_t j = 0; j < of.width; ++j)
        h.push_back(at(in.hidden.values, b * of.width + j)), c.push_back(at(in.cell.values, b * of.width + j));
      for (int64_t i = 0; i < of.steps; ++i) {
        int64_t s = of.stepAt(i), place = (s * of.batch + b) * of.width;
        std::copy(h.begin(), h.end(), before.begin() + place);
        std::copy(c.begin(), c.end(), cellBefore.begin() + place);
        if (of.lengths.empty() || s < static_cast<int64_t>(of.lengths[static_cast<size_t>(b)]))
          advance(s, b, h, c);
        std::copy(h.begin(), h.end(), hidden.begin() + place);
        std::copy(c.begin(), c.end(), cells.begin() + place);
      }
    }
  }
};

Output cellsOf(const Layer &layer, DType type = DType::f32) {
  return layer.lstm() ? Output{type, layer.states()} : Output{DType::u8, {}};
}

/// Results of a call whose last one is absent where there are no cells.
void expectCall(const Layer &layer, Call call, std::vector<Values> expected, double tolerance) {
  if (!layer.lstm()) {
    uint64_t unused = uint64_t{1} << (call.outputs.size() - 1);
    for (int threads : {1, 3}) {
      Outcome outcome = run(call, threads, 0, unused);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
      EXPECT_TRUE(outcome.guardsIntact);
      for (size_t i = 0; i + 1 < call.outputs.size(); ++i)
        for (size_t k = 0; k < expected[i].size(); ++k)
          ASSERT_NEAR(outcome.outputs[i][k], expected[i][k], tolerance * std::max(1.0, std::abs(expected[i][k])))
              << layer.kind << ", result " << i << ", element " << k;
    }
    return;
  }
  expectResults(call, expected, tolerance);
}

std::vector<Layer> layers() {
  std::vector<Layer> made;
  for (const char *kind : {"lstm", "gru", "rnn"})
    for (bool reverse : {false, true}) {
      Layer layer{kind, 4, 3, 5, reverse};
      made.push_back(layer);
      layer.lengths = {4, 0, 2};
      made.push_back(layer);
      layer.initial = layer.biased = false;
      made.push_back(layer);
    }
  Layer linear{"gru", 4, 3, 5, true, true};
  made.push_back(linear);
  linear.lengths = {1, 4, 3};
  linear.clip = 0.9;
  made.push_back(linear);
  Layer peeping{"lstm"};
  peeping.peephole = true;
  made.push_back(peeping);
  peeping.coupled = true;
  peeping.clip = 0.9;
  made.push_back(peeping);
  for (const char *kind : {"lstm", "gru", "rnn"})
    for (const char *name : {"sigmoid", "relu"}) {
      Layer other{kind};
      other.gate = other.candidate = other.output = name;
      made.push_back(other);
    }
  made.push_back({"lstm", 3, 2, 300}); // several blocks of columns
  made.push_back({"gru", 2, 1, 257});
  made.push_back({"lstm", 1, 1, 1});
  return made;
}

TEST(Recurrence, Forward) {
  for (const Layer &layer : layers()) {
    Operands in(layer);
    Walked want(layer, in);
    expectCall(layer, {"recurrence", layer.attributes(), in.inputs(), {{DType::f32, layer.states()}, cellsOf(layer)}},
               {want.hidden, want.cells}, 1e-5);
  }
}

/// Against slopes of the plain loops: of what comes from the inputs and of initial states. Sums over the gradients of
/// products are the bias's gradient.
TEST(Recurrence, Gradient) {
  for (const Layer &layer : layers()) {
    if (layer.width > 5 || layer.candidate == "relu") // too many differences; kinks
      continue;
    Operands in(layer);
    Walked made(layer, in);
    Tensor dhidden = random(layer.states(), 7), dcell = layer.lstm() ? random(layer.states(), 8) : absent();
    auto slopes = [&](Tensor Operands::*which) {
      if ((in.*which).values.empty())
        return Values();
      return numericGradient(
          [&](const Values &v) {
            Operands moved = in;
            (moved.*which).values = v;
            Walked there(layer, moved);
            return inner(there.hidden, dhidden.values) + (layer.lstm() ? inner(there.cells, dcell.values) : 0);
          },
          (in.*which).values);
    };
    Dims row = {layer.batch, layer.width};
    Tensor before = tensor(DType::f32, layer.states(), made.before),
           cellBefore = layer.lstm() ? tensor(DType::f32, layer.states(), made.cellBefore) : absent();
    Output lines{DType::f32, in.gates.dims}, state{DType::f32, row};
    Call call{"recurrence_grad",
              layer.attributes(),
              {dhidden, dcell, in.gates, tensor(DType::f32, in.gates.dims, made.products), in.weight, before,
               cellBefore, in.lengths, in.peephole},
              {lines, lines, state, layer.lstm() ? state : Output{DType::u8, {}}}};
    Outcome got = run(call, 2, 0, layer.lstm() ? 0 : 8);
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    auto expectNear = [&](const Values &values, const Values &expected, const char *what) {
      for (size_t k = 0; k < expected.size(); ++k)
        ASSERT_NEAR(values[k], expected[k], 2e-4) << layer.kind << ", " << what << ", element " << k;
    };
    expectNear(got.outputs[0], slopes(&Operands::gates), "gates");
    Values sums(static_cast<size_t>(layer.line()));
    for (size_t k = 0; k < got.outputs[1].size(); ++k)
      sums[k % sums.size()] += got.outputs[1][k];
    expectNear(sums, slopes(&Operands::bias), "bias");
    expectNear(got.outputs[2], slopes(&Operands::hidden), "initial hidden");
    if (layer.lstm())
      expectNear(got.outputs[3], slopes(&Operands::cell), "initial cell");
    expectCall(layer, call, got.outputs, 1e-6); // whatever the threads, and what else is used
  }
}

/// A GPU rounds the states to bf16 for its products.
TEST(Recurrence, InBf16) {
  double allowed = kBackend == Backend::cpu ? 1e-5 : 4e-2;
  for (const char *kind : {"lstm", "gru", "rnn"})
    for (bool linear : {false, true}) {
      Layer layer{kind, 5, 4, 24, false, linear && kind == std::string("gru")};
      Operands in(layer, DType::bf16);
      Walked want(layer, in);
      expectCall(layer, {"recurrence", layer.attributes(), in.inputs(), {{DType::f32, layer.states()}, cellsOf(layer)}},
                 {want.hidden, want.cells}, allowed);
      Tensor narrow = random(in.gates.dims, 9, 1, DType::bf16), states = random(layer.states(), 10, 1, DType::bf16);
      Tensor cell = layer.lstm() ? states : absent();
      auto backward = [&](DType type) {
        auto as = [&](Tensor one) {
          one.type = one.present ? type : one.type;
          return one;
        };
        return Call{
            "recurrence_grad",
            layer.attributes(),
            {as(states), as(cell), as(in.gates), as(narrow), as(in.weight), as(states), as(cell), absent(), absent()},
            {{DType::f32, in.gates.dims},
             {DType::f32, in.gates.dims},
             {DType::f32, {4, 24}},
             layer.lstm() ? Output{DType::f32, {4, 24}} : Output{DType::u8, {}}}};
      };
      Outcome wide = run(backward(DType::f32), 1, 0, layer.lstm() ? 0 : 8);
      ASSERT_TRUE(wide.status.ok()) << wide.status.message();
      expectCall(layer, backward(DType::bf16), wide.outputs, allowed);
    }
}

} // namespace
} // namespace mt::kernels::test
