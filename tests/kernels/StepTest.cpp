// Norms, clipping and updates: against the formulas of PyTorch's optimizers in 64 bits.
#include "kernels/Bf16.h"
#include "kernels/Blocks.h"
#include "kernels/Optimizers.h"
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

namespace mt::kernels::test {
namespace {

TEST(Step, SquaredNorm) {
  for (int64_t count : {1, 7, 4096, 100003}) {
    Tensor x = random({count}, 1, 3);
    expectResults({"squared_norm", {}, {x}, {{DType::f64, {1}}}}, {{inner(x.values, x.values)}}, 1e-13);
  }
}

/// kernels/Blocks.h, word for word.
double sumOfBlock(std::vector<double> sums) {
  double total = 0;
  for (size_t warp = 0; warp < sums.size(); warp += 32) {
    for (size_t distance = 16; distance > 0; distance /= 2) {
      const std::vector<double> before = sums;
      for (size_t i = warp; i < warp + 32; ++i)
        sums[i] = before[i] + before[warp + ((i - warp) ^ distance)];
    }
    total = warp == 0 ? sums[0] : total + sums[warp];
  }
  return total;
}

/// To the bit, on every device: updates on the host and on the GPU clip alike.
TEST(Step, SquaredNormIsOneTree) {
  for (int64_t elements : {1, 2047, 2049, 12'345, 1'100'007, 5'000'001}) {
    const Tensor x = random({elements}, 1, 3);
    const Chunks chunks = squaredNormChunks(elements);
    std::vector<double> parts(kNormSums, 0);
    for (int64_t chunk = 0; chunk < chunks.count; ++chunk) {
      std::vector<double> lanes(kNormLanes, 0), sums(kNormSums, 0);
      for (int64_t i = chunks.begin(chunk); i < chunks.end(chunk); ++i)
        lanes[static_cast<size_t>((i - chunks.begin(chunk)) % kNormLanes)] +=
            x.values[static_cast<size_t>(i)] * x.values[static_cast<size_t>(i)];
      for (size_t i = 0; i < lanes.size(); ++i)
        sums[i / 8] += lanes[i];
      parts[static_cast<size_t>(chunk % kNormSums)] += sumOfBlock(sums);
    }
    Outcome outcome = run({"squared_norm", {}, {x}, {{DType::f64, {1}}}});
    EXPECT_EQ(outcome.outputs.at(0).at(0), sumOfBlock(parts)) << elements;
  }
}

/// What ranks that share a gradient add up of it gives the norm of all of it, to the bit.
TEST(Step, SquaredNormInPartsIsTheWhole) {
  for (int64_t elements : {1, 15, 33, 2047, 12'345, 1'100'007}) {
    const Tensor x = random({elements}, 1, 3);
    const double whole = run({"squared_norm", {}, {x}, {{DType::f64, {1}}}}).outputs.at(0).at(0);
    const Chunks chunks = squaredNormChunks(elements);
    std::vector<double> parts;
    for (int64_t begin = 0; begin < elements; begin += 3 * chunks.size) { // three chunks at a time
      const int64_t count = std::min(3 * chunks.size, elements - begin);
      Tensor some = x;
      some.dims = {count};
      some.values = {x.values.begin() + begin, x.values.begin() + begin + count};
      const Outcome outcome = run(
          {"squared_norm_parts", {{"chunk", chunks.size}}, {some}, {{DType::f64, {ceilDivide(count, chunks.size)}}}});
      parts.insert(parts.end(), outcome.outputs.at(0).begin(), outcome.outputs.at(0).end());
    }
    ASSERT_EQ(static_cast<int64_t>(parts.size()), chunks.count);
    const Tensor all{DType::f64, {chunks.count}, parts};
    EXPECT_EQ(run({"squared_norm_sum", {}, {all}, {{DType::f64, {1}}}}).outputs.at(0).at(0), whole) << elements;
  }
}

/// The binary number of terms, bit by bit from the highest: each one's block, added from the last on.
float treeOf(std::span<const float> terms) {
  if (terms.size() == 1)
    return terms[0];
  const size_t block = std::bit_floor(terms.size()), left = block == terms.size() ? block / 2 : block;
  return treeOf(terms.first(left)) + treeOf(terms.subspan(left));
}

/// To the bit, and so is that of what is stored in 16 bits.
TEST(Step, TreeSumIsPairwiseSum) {
  for (size_t count : {1U, 2U, 3U, 5U, 7U, 8U})
    for (DType type : {DType::f32, DType::bf16})
      for (int64_t elements : {int64_t{1}, int64_t{2049}, int64_t{6000}}) {
        std::vector<Tensor> all;
        for (size_t i = 0; i < count; ++i) {
          all.push_back(random({elements}, 300 + i, 3, type));
        }
        const Outcome outcome = run({"tree_sum", {}, all, {{DType::f32, {elements}}}});
        for (size_t e = 0; e < static_cast<size_t>(elements); ++e) {
          std::vector<float> terms;
          for (const Tensor &term : all)
            terms.push_back(static_cast<float>(term.values[e]));
          ASSERT_EQ(static_cast<float>(outcome.outputs.at(0).at(e)), treeOf(terms)) << count << " terms, element " << e;
        }
      }
}

/// To the bit.
TEST(Step, PairwiseSumIsOneTree) {
  for (size_t count : {2U, 3U, 4U, 5U, 6U, 7U, 8U})
    for (int64_t elements : {int64_t{1}, int64_t{2049}, int64_t{6000}}) {
      std::vector<Tensor> all;
      for (size_t i = 0; i < count; ++i)
        all.push_back(random({elements}, 100 + i, 3));
      const Call call{"pairwise_sum",
                      {},
                      {all.begin() + 1, all.end()},
                      {{DType::f32, {elements}, Effect::update, all.front().values}}};
      const Outcome outcome = run(call);
      bool differs = false; // from the sum in order
      for (size_t e = 0; e < static_cast<size_t>(elements); ++e) {
        std::vector<float> terms;
        float inOrder = 0;
        for (const Tensor &term : all) {
          terms.push_back(static_cast<float>(term.values[e]));
          inOrder += terms.back();
        }
        ASSERT_EQ(static_cast<float>(outcome.outputs.at(0).at(e)), treeOf(terms)) << count << " terms, element " << e;
        differs |= inOrder != treeOf(terms);
      }
      EXPECT_TRUE(count < 4 ? !differs : differs || elements == 1) << count;
    }
}

Tensor norms(Values values) {
  int64_t count = static_cast<int64_t>(values.size());
  return tensor(DType::f64, {count}, std::move(values));
}

/// Rows that say nothing else, but that some have a threshold in place of another.
Tensor rows(double threshold) {
  Tensor step = scalars({{Scalars::kStep, 3}, {Scalars::kClipThreshold, threshold}}), other = step;
  other.values[Scalars::kLearningRate] = 7;
  step.values.insert(step.values.end(), other.values.begin(), other.values.end());
  step.dims = {2, Scalars::kCount};
  return step;
}

TEST(Step, StepNorm) {
  const std::vector<Output> result = {{DType::f64, {2, Scalars::kCount}}};
  auto expect = [](Tensor step, double scale) {
    for (int64_t row = 0; row < 2; ++row) {
      step.values[static_cast<size_t>(row * Scalars::kCount + Scalars::kGradientNorm)] = 5;
      step.values[static_cast<size_t>(row * Scalars::kCount + Scalars::kClipScale)] = scale;
    }
    return step.values;
  };
  Tensor step = rows(2);
  expectResults({"step_norm", {}, {step, norms({9}), norms({15, 1})}, result}, {expect(step, 2 / (5 + 1e-6))}, 1e-15);
  step = rows(std::numeric_limits<double>::infinity());
  expectResults({"step_norm", {}, {step, norms({25})}, result}, {expect(step, 1)}, 1e-15);
  EXPECT_EQ(runError({"step_norm", {}, {step, norms({1}), norms({1, NAN})}, result}),
            "squared gradient norm 1 of operand 2 is nan: not finite");
  EXPECT_EQ(runError({"step_norm", {}, {step, norms({1e308}), norms({1e308})}, result}),
            "the norm of the whole gradient is inf: not finite");
}

/// What is not finite is skipped where every row says so: then every row has step 0, at which updates do nothing.
TEST(Step, StepNormSkips) {
  Tensor step = rows(2);
  for (size_t row : {0, 1})
    step.values[row * Scalars::kCount + Scalars::kSkips] = 1;
  auto of = [&](Values squared) {
    Outcome outcome =
        run({"step_norm", {}, {step, norms({9}), norms(std::move(squared))}, {{DType::f64, {2, Scalars::kCount}}}});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    return outcome.outputs.at(0);
  };
  for (double norm : {std::nan(""), HUGE_VAL}) {
    const Values skipped = of({1, norm, 4});
    for (size_t row : {0, 1}) {
      EXPECT_EQ(skipped.at(row * Scalars::kCount + Scalars::kStep), 0);
      EXPECT_FALSE(std::isfinite(skipped.at(row * Scalars::kCount + Scalars::kGradientNorm)));
    }
  }
  const Values whole = of({7});
  EXPECT_EQ(whole.at(Scalars::kStep), 3);
  EXPECT_EQ(whole.at(Scalars::kGradientNorm), 4);
  EXPECT_EQ(whole.at(Scalars::kCount + Scalars::kStep), 3);
}

struct Optimizer {
  double rate = 0.01, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.1, clip = 1, momentum = 0.9;
  int64_t step = 3;
  Tensor scalars() const {
    return test::scalars({{Scalars::kStep, static_cast<double>(step)},
                          {Scalars::kLearningRate, rate},
                          {Scalars::kBiasCorrection1, 1 - std::pow(beta1, step)},
                          {Scalars::kBiasCorrection2, 1 - std::pow(beta2, step)},
                          {Scalars::kClipScale, clip},
                          {Scalars::kBeta1, beta1},
                          {Scalars::kBeta2, beta2},
                          {Scalars::kEpsilon, epsilon},
                          {Scalars::kDecay, decay},
                          {Scalars::kMomentum, momentum}});
  }
};

struct State {
  Tensor gradient, weight, first, second;
};

State stateOf(const Dims &dims) {
  State state{random(dims, 1, 0.5), random(dims, 2, 1), random(dims, 3, 0.3), random(dims, 4, 0.2)};
  for (double &value : state.second.values)
    value = std::abs(value);
  return state;
}

std::vector<Values> adamw(const Optimizer &o, const State &s) {
  std::vector<Values> out = {s.weight.values, s.first.values, s.second.values};
  for (size_t i = 0; i < out[0].size(); ++i) {
    double g = s.gradient.values[i] * o.clip;
    out[0][i] *= 1 - o.rate * o.decay;
    out[1][i] = o.beta1 * out[1][i] + (1 - o.beta1) * g;
    out[2][i] = o.beta2 * out[2][i] + (1 - o.beta2) * g * g;
    double first = out[1][i] / (1 - std::pow(o.beta1, o.step)), second = out[2][i] / (1 - std::pow(o.beta2, o.step));
    out[0][i] -= o.rate * first / (std::sqrt(second) + o.epsilon);
  }
  return out;
}

Call adamwCall(const Optimizer &o, const State &s, double norm = 1) {
  const Dims &dims = s.weight.dims;
  return {"adamw",
          {{"parameter", int64_t{0}}},
          {s.gradient, norms({norm}), o.scalars()},
          {{DType::f32, dims, Effect::update, s.weight.values},
           {DType::f32, dims, Effect::update, s.first.values},
           {DType::f32, dims, Effect::update, s.second.values}}};
}

TEST(Step, AdamW) {
  for (const Dims &dims : {Dims{37}, Dims{33, 1030}, Dims{}})
    for (double clip : {1.0, 0.25, 1.5}) {
      Optimizer optimizer;
      optimizer.clip = clip;
      State state = stateOf(dims);
      Optimizer effective = optimizer;
      effective.clip = std::min(clip, 1.0); // a scale is never above one
      expectResults(adamwCall(optimizer, state), adamw(effective, state), 1e-6);
    }
}

/// Of a whole weight, by an optimizer that keeps one moment.
void expectUpdate(const char *optimizer, const State &s, Optimizer &o, const std::vector<Values> &out) {
  const Dims &dims = s.weight.dims;
  expectResults(
      {optimizer,
       {{"parameter", int64_t{0}}},
       {s.gradient, norms({1}), o.scalars()},
       {{DType::f32, dims, Effect::update, s.weight.values}, {DType::f32, dims, Effect::update, s.first.values}}},
      out, 1e-6);
}

TEST(Step, Sgd) {
  for (const Dims &dims : {Dims{37}, Dims{33, 1030}}) {
    Optimizer o;
    o.clip = 0.5;
    State s = stateOf(dims);
    std::vector<Values> out = {s.weight.values, s.first.values};
    for (size_t i = 0; i < out[0].size(); ++i) {
      out[1][i] = o.momentum * out[1][i] + s.gradient.values[i] * o.clip + o.decay * out[0][i];
      out[0][i] -= o.rate * out[1][i];
    }
    expectUpdate("sgd", s, o, out);
  }
}

TEST(Step, Lion) {
  for (const Dims &dims : {Dims{37}, Dims{33, 1030}}) {
    Optimizer o;
    o.clip = 0.5;
    State s = stateOf(dims);
    s.gradient.values[3] = s.first.values[3] = 0; // no direction
    std::vector<Values> out = {s.weight.values, s.first.values};
    for (size_t i = 0; i < out[0].size(); ++i) {
      const double g = s.gradient.values[i] * o.clip, c = o.beta1 * out[1][i] + (1 - o.beta1) * g;
      out[0][i] -= o.rate * (o.decay * out[0][i] + (c > 0) - (c < 0));
      out[1][i] = o.beta2 * out[1][i] + (1 - o.beta2) * g;
    }
    expectUpdate("lion", s, o, out);
  }
}

/// A call of an update, of whole or split masters, with what it keeps drawn at random.
Call drawnUpdate(const OptimizerSpec &optimizer, bool split, const Dims &dims, double averageDecay) {
  const Signature signature = updateCall(optimizer, split, dims);
  Tensor step = Optimizer().scalars();
  step.values[Scalars::kAverageDecay] = averageDecay;
  Call call{signature.kernel, signature.attributes, {random(dims, 1), norms({1}), step}, {}};
  for (size_t i = kUpdateScalars + 1; i < signature.operands.size(); ++i) {
    const DType type = signature.operands[i].type;
    Values initial =
        type == DType::i16 ? integers(dims, -30000, 30000, i, type).values : random(dims, i, 1, type).values;
    for (double &value : initial) // second moments
      value = i == signature.operands.size() - 1 - optimizer.averages ? std::abs(value) : value;
    call.outputs.push_back({type, dims, Effect::update, initial});
  }
  return call;
}

/// The new 32-bit masters of an update's results.
Values mastersOf(const Outcome &outcome, bool split) {
  Values masters = outcome.outputs[0];
  for (size_t i = 0; i < masters.size() && split; ++i)
    masters[i] = static_cast<double>(
        join({nearest(static_cast<float>(masters[i])), static_cast<int16_t>(outcome.outputs[1][i])}));
  return masters;
}

/// All else has the bits that it has without.
TEST(Step, AveragesFollowTheNewMasters) {
  int count = 0;
  for (const OptimizerSpec &optimizer : optimizers())
    for (bool split : {false, true})
      for (const Dims &dims : {Dims{37}, Dims{33, 1030}})
        for (double decay : {0.9, 0.0}) {
          if (!optimizer.averages)
            continue;
          SCOPED_TRACE(std::string(optimizer.name) + (split ? " split" : ""));
          Call call = drawnUpdate(optimizer, split, dims, decay);
          const Outcome both = run(call);
          ASSERT_TRUE(both.status.ok()) << both.status.message();
          EXPECT_TRUE(both.guardsIntact);
          const Values before = call.outputs.back().initial, after = both.outputs.back();
          call.outputs.pop_back();
          const Outcome plain = run(call);
          ASSERT_TRUE(plain.status.ok()) << plain.status.message();
          for (size_t i = 0; i < plain.outputs.size(); ++i)
            EXPECT_TRUE(plain.outputs[i] == both.outputs[i]) << i;
          const Values masters = mastersOf(both, split);
          for (size_t i = 0; i < masters.size(); ++i)
            ASSERT_NEAR(after[i], decay * before[i] + (1 - decay) * masters[i], 1e-6) << i;
          ++count;
        }
  EXPECT_EQ(count, 3 * 2 * 2 * 2);
}

/// The begin of an update that speculates, or its end after `begun`, with other scalars.
Call speculating(const OptimizerSpec &optimizer, bool split, const Call &plain, const Outcome *begun,
                 const Tensor &scalars) {
  Call call = plain;
  call.inputs[kUpdateScalars] = scalars;
  const int64_t bytes = undoOf(updateCall(optimizer, split, plain.inputs[kUpdateGradient].dims)).bytes();
  if (begun) {
    call.inputs.push_back({DType::u8, {bytes}, begun->outputs.back()});
    for (size_t i = 0; i < call.outputs.size(); ++i)
      call.outputs[i].initial = begun->outputs[i];
  } else {
    call.outputs.push_back({DType::u8, {bytes}});
  }
  return call;
}

bool sameBits(const Values &a, const Values &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}
void expectSame(const std::vector<Values> &results, const Outcome &outcome) {
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_TRUE(outcome.guardsIntact);
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_TRUE(sameBits(outcome.outputs[i], results[i])) << "result " << i;
}
/// Every run of elements is updated, or as it was; how many are.
size_t updatedRuns(const std::vector<Values> &before, const std::vector<Values> &after, const Outcome &outcome) {
  EXPECT_TRUE(outcome.status.ok() && outcome.guardsIntact) << outcome.status.message();
  size_t updated = 0;
  for (size_t first = 0; first < before.front().size(); first += kUndoRun) {
    auto is = [&](const std::vector<Values> &results) {
      for (size_t i = 0; i < results.size(); ++i) {
        const size_t count = std::min<size_t>(kUndoRun, results[i].size() - first);
        if (std::memcmp(&results[i][first], &outcome.outputs[i][first], count * sizeof(double)) != 0)
          return false;
      }
      return true;
    };
    updated += is(after);
    EXPECT_TRUE(is(after) || is(before)) << "run from element " << first;
  }
  return updated;
}
/// Some of them of any size that a float has, some zeros of either sign.
void makeWild(Values &values, size_t seed, bool positive) {
  std::mt19937_64 draw(seed);
  for (double &value : values)
    if (draw() % 256 == 0) {
      const double size = draw() % 2 ? std::ldexp(1, static_cast<int>(draw() % 220) - 148) : 0;
      value = draw() % 2 && !positive ? -size : size;
    }
}

/// Whether the gradient is clipped, the step skipped, or nothing was pending; also where what an update leaves does not
/// tell what it replaces, and it leaves that as it is.
TEST(Step, SpeculationGivesTheBitsOfUpdatesThatWait) {
  if (kBackend == Backend::cuda)
    GTEST_SKIP() << "they run on the host alone";
  int count = 0;
  for (const OptimizerSpec &optimizer : optimizers())
    for (bool split : {false, true})
      for (bool wild : {false, true})
        for (const Dims &dims : {Dims{37}, Dims{512}, Dims{33, 1030}}) {
          SCOPED_TRACE(std::string(optimizer.name) + (split ? " split" : "") + (wild ? " wild" : ""));
          Call call = drawnUpdate(optimizer, split, dims, 0.9);
          if (wild) {
            makeWild(call.inputs[kUpdateGradient].values, 7, false);
            for (size_t i = split ? 2 : 0; i < call.outputs.size(); ++i)
              makeWild(call.outputs[i].initial, i, i == call.outputs.size() - 1 - optimizer.averages);
          }
          std::vector<Values> before;
          for (const Output &output : call.outputs)
            before.push_back(output.initial);
          auto with = [&](double step, double norm, double clip) {
            Tensor scalars = call.inputs[kUpdateScalars];
            scalars.values[Scalars::kStep] = step, scalars.values[Scalars::kGradientNorm] = norm;
            scalars.values[Scalars::kClipScale] = clip;
            if (step == 0) // which a begin that is taken back does not read there
              scalars.values[Scalars::kLearningRate] = scalars.values[Scalars::kBeta1] = 0.123;
            return scalars;
          };
          auto plain = [&](double clip) {
            Call waited = call;
            waited.inputs[kUpdateScalars] = with(3, 1, clip);
            return run(waited).outputs;
          };
          const Outcome begun =
              run(speculating(optimizer, split, call, nullptr, with(3, 0, 0.25))); // which it does not read
          const size_t runs = (call.inputs[kUpdateGradient].values.size() + kUndoRun - 1) / kUndoRun;
          const size_t updated = updatedRuns(before, plain(1), begun);
          EXPECT_GT(updated, wild ? runs / 10 : runs / 2) << "of " << runs;
          if (wild && runs > 100 && optimizer.learns) {
            EXPECT_LT(updated, runs) << "none is left as it was";
          }
          auto ended = [&](const Tensor &scalars) { return run(speculating(optimizer, split, call, &begun, scalars)); };
          expectSame(plain(1), ended(with(3, 1, 1)));
          expectSame(plain(0.5), ended(with(3, 1, 0.5)));
          expectSame(before, ended(with(0, std::nan(""), 1)));
          expectSame(before, ended(with(0, HUGE_VAL, 0)));
          EXPECT_EQ(updatedRuns(before, plain(1), ended(with(0, 0, 0))), updated); // not a step that it began in
          Call none = call; // a part whose own norm is not finite, of a step that is then skipped
          none.inputs[kUpdateNorm] = norms({HUGE_VAL});
          const Outcome left = run(speculating(optimizer, split, none, nullptr, with(3, 0, 1)));
          expectSame(before, left);
          expectSame(before, run(speculating(optimizer, split, none, &left, with(0, HUGE_VAL, 0))));
          ++count;
        }
  EXPECT_EQ(count, static_cast<int>(optimizers().size()) * 2 * 2 * 3);
}

/// A weight that would not be finite is an error only where the gradient is not clipped.
TEST(Step, SpeculationRefusesWhenItEnds) {
  if (kBackend == Backend::cuda)
    GTEST_SKIP() << "they run on the host alone";
  for (bool split : {false, true}) {
    const OptimizerSpec &sgd = *findOptimizer("sgd");
    Call call = drawnUpdate(sgd, split, {1500}, 0.9);
    call.attributes["first"] = int64_t{100};
    call.inputs[kUpdateGradient].values[1030] = 3e38;
    Tensor scalars = call.inputs[kUpdateScalars];
    scalars.values[Scalars::kLearningRate] = 1e6;
    call.inputs[kUpdateScalars] = scalars;
    const Outcome begun = run(speculating(sgd, split, call, nullptr, scalars));
    ASSERT_TRUE(begun.status.ok()) << begun.status.message();
    EXPECT_EQ(runError(speculating(sgd, split, call, &begun, scalars)),
              "a new weight is not finite, at element 1124 or a little after; try a lower learning rate");
    scalars.values[Scalars::kClipScale] = 1e-30;
    call.inputs[kUpdateScalars] = scalars;
    expectSame(run(call).outputs, run(speculating(sgd, split, call, &begun, scalars)));
  }
}

/// No rate, decay or clipping touches a statistic.
TEST(Step, Replace) {
  for (const Dims &dims : {Dims{37}, Dims{33, 1030}}) {
    Optimizer o;
    o.clip = 0.5;
    State s = stateOf(dims);
    expectResults({"replace",
                   {{"parameter", int64_t{0}}},
                   {s.gradient, norms({1}), o.scalars()},
                   {{DType::f32, dims, Effect::update, s.weight.values}}},
                  {s.gradient.values}, 0);
  }
}

TEST(Step, RunningStatistic) {
  const Tensor own = random({300}, 1), running = random({300}, 2);
  for (double draw : {3.0, -1.0})
    expectResults({"running_statistic", {}, {own, running, scalars({{Scalars::kDraw, draw}})}, {{DType::f32, {300}}}},
                  {draw > 0 ? own.values : running.values}, 0);
}

/// Scalars of step 0: an update deferred from before the first step.
TEST(Step, NothingPendingTouchesNothing) {
  Optimizer optimizer;
  optimizer.step = 0;
  State state = stateOf({3, 50});
  state.gradient.values[7] = NAN; // of a step that was skipped
  Outcome outcome = run(adamwCall(optimizer, state, NAN));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_EQ(outcome.outputs, (std::vector<Values>{state.weight.values, state.first.values, state.second.values}));
}

TEST(Step, UpdatesRefuseWhatIsNotFinite) {
  Optimizer optimizer;
  State state = stateOf({1, 1500});
  Call call = adamwCall(optimizer, state, NAN);
  Outcome outcome = run(call);
  EXPECT_EQ(outcome.status.message(), "the gradient's squared norm is nan: not finite");
  EXPECT_EQ(outcome.outputs[0], state.weight.values);
  state.weight.values[1200] = INFINITY;
  outcome = run(adamwCall(optimizer, state));
  EXPECT_EQ(outcome.status.message(),
            "a new weight is not finite, at element 1024 or a little after; try a lower learning rate");
  for (size_t i = 1024; i < 1500; ++i) {
    EXPECT_EQ(outcome.outputs[0][i], state.weight.values[i]);
    EXPECT_EQ(outcome.outputs[1][i], state.first.values[i]);
  }
}

} // namespace
} // namespace mt::kernels::test
