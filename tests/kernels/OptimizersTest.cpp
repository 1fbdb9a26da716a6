// The table of optimizers against the catalogue and the CPU's kernels: what a new entry must keep to.
#include "kernels/Coverage.h"
#include "kernels/Optimizers.h"

#include <gtest/gtest.h>

#include <set>

namespace mt::kernels {
namespace {

TEST(Optimizers, HaveKernelsOfTheirOperands) {
  for (const OptimizerSpec &optimizer : optimizers())
    for (bool split : {false, true})
      for (const Dims &dims : {Dims{37}, Dims{3, 50}, Dims{}}) {
        const Signature call = updateCall(optimizer, split, dims);
        const Kernel *kernel = find(call.kernel);
        ASSERT_NE(kernel, nullptr) << call.kernel;
        EXPECT_TRUE(kernel->updates) << call.kernel;
        EXPECT_EQ(check(call), "");
        EXPECT_EQ(call.operands.size(), 4 + split + optimizer.state.size());
        EXPECT_TRUE(hasCode(call.kernel, Backend::cpu)) << call.kernel;
      }
}

TEST(Optimizers, MaySpeculate) {
  for (const OptimizerSpec &optimizer : optimizers())
    for (bool split : {false, true})
      for (const Dims &dims : {Dims{37}, Dims{3, 512}}) {
        const Signature plain = updateCall(optimizer, split, dims);
        EXPECT_TRUE(isUpdate(plain.kernel));
        EXPECT_EQ(speculationOf(plain), Speculation::none);
        for (Speculation speculation : {Speculation::begins, Speculation::ends}) {
          Signature call = updateCall(optimizer, split, dims, speculation);
          EXPECT_EQ(speculationOf(call), speculation);
          EXPECT_EQ(check(call), "");
          EXPECT_EQ(missingCode(call, Backend::cpu), "");
          EXPECT_EQ(missingCode(call, Backend::cuda), call.kernel + ": updates that speculate run on the host alone");
          OperandType &undo = call.operands[speculation == Speculation::ends ? kUpdateUndo : call.operands.size() - 1];
          EXPECT_EQ(undo.elements(), undoOf(plain).bytes());
          EXPECT_DOUBLE_EQ(traffic(call), traffic(plain) + static_cast<double>(undo.bytes()));
          undo.dims[0] -= 1;
          EXPECT_NE(check(call), "");
          undo.dims[0] += 1;
          undo.type = DType::f32;
          EXPECT_NE(check(call), "");
          undo.type = DType::u8;
          call.operands[speculation == Speculation::ends ? kUpdateUndo + 1 : kUpdateUndo].effect = Effect::write;
          EXPECT_NE(check(call), "");
        }
      }
  EXPECT_FALSE(isUpdate("pairwise_sum"));
}

TEST(Optimizers, ReadScalarsThatNothingElseFills) {
  const std::set<int> common = {Scalars::kStep,         Scalars::kLearningRate,  Scalars::kSkips,
                                Scalars::kInverseValid, Scalars::kClipThreshold, Scalars::kClipScale,
                                Scalars::kGradientNorm, Scalars::kSeed,          Scalars::kDecay};
  for (const OptimizerSpec &optimizer : optimizers()) {
    std::set<int> places = common;
    for (const Hyperparameter &each : optimizer.hyperparameters)
      for (int place : {each.place, each.correction})
        if (place >= 0) {
          EXPECT_LT(place, +Scalars::kCount);
          EXPECT_TRUE(places.insert(place).second) << optimizer.name << " " << each.name;
        }
  }
}

TEST(Optimizers, AreFoundByName) {
  EXPECT_EQ(findOptimizer("adamw")->state.size(), 2u);
  EXPECT_EQ(findOptimizer("adam"), nullptr);
  EXPECT_EQ(optimizerList(), "adamw, sgd or lion");
  EXPECT_EQ(findOptimizer("sgd")->find("momentum")->usual, 0);
  EXPECT_EQ(findOptimizer("sgd")->find("beta1"), nullptr);
  EXPECT_EQ(findOptimizer("sgd")->find(kAverageDecay), nullptr);
  EXPECT_EQ(ownersOf("beta1"), "adamw or lion");
  EXPECT_EQ(findHyperparameter(kAverageDecay)->usual, 0.999);
}

/// Each that learns has one beside it, of the same kernels, which keeps an average, too.
TEST(Optimizers, MayAverage) {
  for (const std::string &name : optimizerNames()) {
    const OptimizerSpec &plain = *findOptimizer(name), &both = *findOptimizer(averagingName(name));
    EXPECT_TRUE(both.averages && !plain.averages) << name;
    EXPECT_EQ(both.whole, plain.whole);
    EXPECT_EQ(both.split, plain.split);
    EXPECT_EQ(both.state.size(), plain.state.size() + 1);
    EXPECT_EQ(both.state.back().name, kAverage);
    EXPECT_EQ(both.hyperparameters.back().name, kAverageDecay);
    EXPECT_EQ(averagingName(averagingName(name)), averagingName(name));
  }
  EXPECT_EQ(averagingName(std::string(kReplace)), kReplace);
}

/// A part with a scale for each block.
TEST(Optimizers, EntriesOfBlocks) {
  EXPECT_EQ(partDims(256, {1000}), Dims{4});
  EXPECT_EQ(partDims(1, {1000}), Dims{1000});
  EXPECT_EQ(partDims(256, {10, 100}), Dims{4});
  EXPECT_EQ(partDims(1, {10, 100}), (Dims{10, 100}));
}

} // namespace
} // namespace mt::kernels
