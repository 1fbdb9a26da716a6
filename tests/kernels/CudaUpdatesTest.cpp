// An update has the same bits wherever it runs: the GPU's against the processor's.
#include "kernels/Optimizers.h"
#include "tests/kernels/CudaHarness.h"

#include <gtest/gtest.h>

namespace mt::kernels::test {
namespace {

Tensor scalarsOfStep(const OptimizerSpec &optimizer) {
  std::map<int, double> values = {
      {Scalars::kStep, 3}, {Scalars::kLearningRate, 1e-2}, {Scalars::kClipScale, 0.37}, {Scalars::kDecay, 0.1}};
  for (const Hyperparameter &each : optimizer.hyperparameters) {
    values[each.place] = each.place == Scalars::kDecay ? 0.1 : each.usual > 0 ? each.usual : 0.9;
    if (each.correction >= 0)
      values[each.correction] = 0.3;
  }
  return scalars(values);
}

Call callOf(const OptimizerSpec &optimizer, bool split, int64_t count, double squaredNorm, Tensor scalars) {
  const Signature signature = updateCall(optimizer, split, {count});
  Call call{signature.kernel,
            signature.attributes,
            {random({count}, 1), tensor(DType::f64, {1}, {squaredNorm}), std::move(scalars)},
            {}};
  for (size_t i = 3; i < signature.operands.size(); ++i) {
    const OperandType &operand = signature.operands[i];
    Values initial = operand.type == DType::i16 ? integers(operand.dims, -30000, 30000, i, DType::i16).values
                                                : random(operand.dims, i, 0.5, operand.type).values;
    for (double &value : initial)
      value = i > (split ? 5U : 4U) ? std::abs(value) : value; // second moments
    call.outputs.push_back({operand.type, operand.dims, Effect::update, initial});
  }
  return call;
}

TEST(CudaUpdates, HaveTheBitsOfTheHost) {
  for (const OptimizerSpec &optimizer : optimizers())
    for (bool split : {false, true})
      for (int64_t count : {1, 3, 4, 511, 513, 4099}) {
        SCOPED_TRACE(std::string(optimizer.name) + (split ? " split " : " ") + std::to_string(count));
        const Call call = callOf(optimizer, split, count, 7, scalarsOfStep(optimizer));
        const Outcome onGpu = run(call);
        const Outcome onHost = runWith([](const Signature &own) { return prepareOnCpu(own, 2); }, call);
        EXPECT_EQ(onGpu.status.message(), "");
        EXPECT_EQ(onHost.status.message(), "");
        EXPECT_TRUE(onGpu.outputs == onHost.outputs);
        EXPECT_TRUE(onGpu.guardsIntact);
      }
}

/// Step 0: nothing is pending, or the step is skipped, as its gradient is not finite.
TEST(CudaUpdates, TouchNothingAtStepZero) {
  for (const OptimizerSpec &optimizer : optimizers())
    for (bool split : {false, true}) {
      SCOPED_TRACE(std::string(optimizer.name) + (split ? " split" : ""));
      Tensor scalars = scalarsOfStep(optimizer);
      scalars.values[Scalars::kStep] = 0;
      Call call = callOf(optimizer, split, 513, NAN, scalars);
      call.inputs[0].values[500] = NAN;
      const Outcome onHost = runWith([](const Signature &own) { return prepareOnCpu(own, 2); }, call);
      for (const Outcome &outcome : {run(call), onHost}) {
        EXPECT_EQ(outcome.status.message(), "");
        ASSERT_EQ(outcome.outputs.size(), call.outputs.size());
        for (size_t i = 0; i < call.outputs.size(); ++i)
          EXPECT_EQ(outcome.outputs[i], call.outputs[i].initial) << i;
      }
    }
}

} // namespace
} // namespace mt::kernels::test
