// Masters in two halves: the split itself, and updates on halves against updates on whole weights, bit for bit.
#include "kernels/Bf16.h"
#include "tests/kernels/Harness.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mt::kernels::test {
namespace {

float fromBits(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t bitsOf(float value) { return std::bit_cast<uint32_t>(value); }

/// Every sign, exponent and lower half, with upper mantissas at the ends, in the middle and beside both.
TEST(Split, JoinsExactly) {
  uint64_t wrong = 0, refused = 0;
  for (uint32_t top = 0; top < 512; ++top)
    for (uint32_t mantissa : {0x00u, 0x01u, 0x2au, 0x3fu, 0x40u, 0x7eu, 0x7fu})
      for (uint32_t low = 0; low < 65536; ++low) {
        uint32_t bits = top << 23 | mantissa << 16 | low;
        float value = fromBits(bits);
        bool finite = (bits & 0x7fffffff) < 0x7f7f8000;
        refused += !splits(value);
        if (finite != splits(value))
          ++wrong;
        if (!finite)
          continue;
        Halves halves = split(value);
        uint32_t upper = static_cast<uint32_t>(halves.upper.bits) << 16, up = (bits + 0x8000) & 0xffff0000;
        wrong += bitsOf(join(halves)) != bits || upper != up || (upper & 0x7f800000) == 0x7f800000;
      }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(refused, 2u * (7 * 65536 + 32768)); // infinity, NaN, and what would round to infinity
}

TEST(Split, Specials) {
  struct Case {
    uint32_t bits;
    uint16_t upper;
    int16_t lower;
  };
  for (Case c : {Case{0, 0, 0}, Case{0x80000000, 0x8000, 0}, Case{1, 0, 1}, Case{0x8000, 1, -32768},
                 Case{0x80008000, 0x8001, -32768}, Case{0x3f808000, 0x3f81, -32768}, Case{0x3f807fff, 0x3f80, 32767},
                 Case{0x7f7f7fff, 0x7f7f, 32767}, Case{0xff7f7fff, 0xff7f, 32767}}) {
    Halves halves = split(fromBits(c.bits));
    EXPECT_EQ(halves.upper.bits, c.upper);
    EXPECT_EQ(halves.lower, c.lower);
    EXPECT_TRUE(splits(fromBits(c.bits)));
    EXPECT_EQ(bitsOf(join(halves)), c.bits);
  }
  for (uint32_t bits : {0x7f7f8000u, 0x7f7fffffu, 0xff7f8000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffffffffu})
    EXPECT_FALSE(splits(fromBits(bits)));
}

TEST(Split, RoundsToTheNearest) {
  for (uint32_t top = 0; top < 65536; ++top)
    for (uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      float value = fromBits(top << 16 | low);
      uint32_t rounded = nearest(value).bits;
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(widen(nearest(value))));
        continue;
      }
      bool up = low > 0x8000 || (low == 0x8000 && (top & 1) != 0);
      ASSERT_EQ(rounded, top + up);
    }
}

struct Optimizer {
  std::string name;
  double rate, momentum = 0.9, decay = 0.1;
  int64_t step = 1;
  Tensor scalars() const {
    double t = static_cast<double>(step);
    return test::scalars({{Scalars::kStep, t},
                          {Scalars::kLearningRate, rate},
                          {Scalars::kBiasCorrection1, 1 - std::pow(0.9, t)},
                          {Scalars::kBiasCorrection2, 1 - std::pow(0.95, t)},
                          {Scalars::kClipScale, 0.5},
                          {Scalars::kBeta1, 0.9},
                          {Scalars::kBeta2, 0.95},
                          {Scalars::kEpsilon, 1e-8},
                          {Scalars::kDecay, decay},
                          {Scalars::kMomentum, momentum}});
  }
};

/// What an update reads and writes, weights whole or in halves.
struct State {
  Values weight, first, second;
};

Values uppers(const Values &masters) {
  Values out;
  for (double master : masters)
    out.push_back(static_cast<double>(widen(split(static_cast<float>(master)).upper)));
  return out;
}
Values lowers(const Values &masters) {
  Values out;
  for (double master : masters)
    out.push_back(split(static_cast<float>(master)).lower);
  return out;
}
Values joined(const Values &upper, const Values &lower) {
  Values out;
  for (size_t i = 0; i < upper.size(); ++i)
    out.push_back(static_cast<double>(join({nearest(static_cast<float>(upper[i])), static_cast<int16_t>(lower[i])})));
  return out;
}

/// One step; the state is left as it is where the update fails.
Status update(const Optimizer &o, bool halves, const Values &gradient, State &state, double norm = 1) {
  Dims dims = {static_cast<int64_t>(gradient.size())};
  const bool two = o.name == "adamw";
  Call call{o.name + (halves ? "_split" : ""),
            {{"parameter", int64_t{0}}},
            {tensor(DType::f32, dims, gradient), tensor(DType::f64, {1}, {norm}), o.scalars()},
            {}};
  if (halves)
    call.outputs = {{DType::bf16, dims, Effect::update, uppers(state.weight)},
                    {DType::i16, dims, Effect::update, lowers(state.weight)}};
  else
    call.outputs = {{DType::f32, dims, Effect::update, state.weight}};
  call.outputs.push_back({DType::f32, dims, Effect::update, state.first});
  if (two)
    call.outputs.push_back({DType::f32, dims, Effect::update, state.second});
  Outcome outcome = run(call, 2);
  EXPECT_TRUE(outcome.guardsIntact);
  state.weight = halves ? joined(outcome.outputs[0], outcome.outputs[1]) : outcome.outputs[0];
  state.first = outcome.outputs[halves ? 2 : 1];
  state.second = two ? outcome.outputs.back() : state.second;
  return outcome.status;
}

TEST(SplitUpdates, MastersAreThoseOfWholeWeights) {
  constexpr int64_t kElements = 1237;
  for (const char *name : {"adamw", "sgd", "lion"}) {
    Values zeros(kElements, 0);
    State whole{random({kElements}, 1, 0.5).values, zeros, zeros}, halves = whole;
    Optimizer optimizer{name, 1e-3};
    for (; optimizer.step <= 200; ++optimizer.step) {
      Values gradient = random({kElements}, static_cast<uint64_t>(100 + optimizer.step)).values;
      ASSERT_TRUE(update(optimizer, false, gradient, whole).ok());
      ASSERT_TRUE(update(optimizer, true, gradient, halves).ok());
      ASSERT_EQ(halves.weight, whole.weight) << "step " << optimizer.step;
      ASSERT_EQ(halves.first, whole.first);
      ASSERT_EQ(halves.second, whole.second);
    }
  }
}

/// Loss of a quadratic after some steps that are each far below half an ulp of bf16.
double trained(const Optimizer &optimizer, bool keepRemainder) {
  Values target = random({64}, 2, 0.5).values, zeros(64, 0);
  State state{Values(64, 1.0), zeros, zeros};
  Optimizer o = optimizer;
  double loss = 0;
  for (; o.step <= 1500; ++o.step) {
    Values gradient;
    loss = 0;
    for (size_t i = 0; i < 64; ++i) {
      double upper = uppers({state.weight[i]})[0], away = upper - 1.5 - target[i] / 2;
      gradient.push_back(away);
      loss += away * away / 64;
    }
    EXPECT_TRUE(update(o, true, gradient, state).ok());
    if (!keepRemainder)
      state.weight = uppers(state.weight);
  }
  return loss;
}

TEST(SplitUpdates, SmallStepsAreNotLost) {
  for (const Optimizer &o : {Optimizer{"adamw", 5e-4, 0, 0}, Optimizer{"sgd", 5e-3, 0, 0}}) {
    double with = trained(o, true), without = trained(o, false);
    EXPECT_LT(with, 0.02);
    EXPECT_GT(without, 0.2); // where it began
  }
}

TEST(SplitUpdates, RefuseWhatIsNotFinite) {
  Values zeros(1500, 0);
  for (const char *name : {"adamw", "sgd", "lion"}) {
    State before{random({1500}, 1).values, zeros, zeros}, state = before;
    const bool byRate = std::string_view(name) != "sgd"; // however large the gradient
    Optimizer optimizer{name, 1};
    EXPECT_EQ(update(optimizer, true, zeros, state, NAN).message(), "the gradient's squared norm is nan: not finite");
    EXPECT_EQ(state.weight, before.weight);
    // Finite in f32, but its upper half would be infinite.
    optimizer.rate = byRate ? 1e36 : 1;
    optimizer.decay = 0;
    before.weight[1200] = state.weight[1200] = static_cast<double>(fromBits(0x7f7f0000));
    Values gradient = zeros;
    gradient[1200] = byRate ? -1 : -2e36;
    Status refused = update(optimizer, true, gradient, state);
    EXPECT_EQ(refused.message(),
              "a new weight is not finite, at element 1024 or a little after; try a lower learning rate");
    for (size_t i = 1024; i < 1500; ++i) {
      EXPECT_EQ(state.weight[i], before.weight[i]);
      EXPECT_EQ(state.first[i], before.first[i]);
    }
    State whole = before;
    EXPECT_TRUE(update(optimizer, false, gradient, whole).ok());
  }
}

} // namespace
} // namespace mt::kernels::test
