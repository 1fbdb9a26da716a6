// Random losses: where mt-split-batch lets a batch be cut into micro-batches, the losses of the parts add up to that of the
// whole, computed by the evaluator in double precision. `passes-batches --seed=S --losses=N` tries N others.
#include "passes/Passes.h"
#include "tests/passes/OracleMain.h"
#include "tests/passes/RandomLosses.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace mt::nn;

namespace mt::test {
uint64_t firstSeed = 0, numberOfLosses = 20000;

namespace {
using nn::test::Tensor;

struct Counts {
  uint64_t split = 0, mixed = 0, undefined = 0, sums = 0;
};

std::string textOf(Operation *op) {
  std::string text;
  llvm::raw_string_ostream out(text);
  op->print(out);
  return text;
}

/// Rows [from, from + count) of a tensor whose dimension 0 is the batch.
Tensor rowsOf(const Tensor &tensor, int64_t from, int64_t count) {
  Tensor part{tensor.dims, {}};
  part.dims[0] = count;
  auto stride = std::ptrdiff_t(tensor.values.size()) / tensor.dims[0];
  part.values.assign(tensor.values.begin() + from * stride, tensor.values.begin() + (from + count) * stride);
  return part;
}

/// The sum of the losses of all parts, which are computed side by side: a sum over the step is one over them.
double sumOfParts(func::FuncOp main, const LossCase &loss, int64_t rows, Counts &counts) {
  std::vector<nn::test::Environment> parts;
  for (int64_t from = 0; from < loss.batch; from += rows) {
    nn::test::Environment part;
    for (auto [argument, tensor] : llvm::zip(main.getArguments(), loss.inputs))
      part[argument] = main.getArgAttr(argument.getArgNumber(), kInputAttr) ? rowsOf(tensor, from, rows) : tensor;
    parts.push_back(std::move(part));
  }
  for (Operation &op : main.front().without_terminator()) {
    if (auto step = dyn_cast<StepSumOp>(op)) {
      ++counts.sums;
      Tensor sum = parts[0][step.getOperand()];
      for (size_t i = 1; i < parts.size(); ++i)
        for (size_t k = 0; k < sum.values.size(); ++k)
          sum.values[k] += parts[i][step.getOperand()].values[k];
      for (nn::test::Environment &part : parts)
        part[step.getResult()] = sum;
      continue;
    }
    for (nn::test::Environment &part : parts)
      for (auto [value, tensor] : llvm::zip(op.getResults(), nn::test::evaluate(&op, part)))
        part[value] = std::move(tensor);
  }
  double total = 0;
  for (nn::test::Environment &part : parts)
    total += part[main.front().getTerminator()->getOperand(0)].values[0];
  return total;
}

void tryLoss(MLIRContext &context, uint64_t seed, Counts &counts) {
  LossCase loss = randomLoss(context, seed);
  ASSERT_TRUE(succeeded(verify(*loss.module))) << textOf(*loss.module);
  auto whole = loss.module->lookupSymbol<func::FuncOp>(kMainName);
  double wanted = nn::test::evaluate(whole, loss.inputs)[0].values[0];
  int64_t rows = loss.batch == 4 ? 1 + int64_t(seed % 2) : 1 + int64_t(seed % 3);
  OwningOpRef<ModuleOp> part = loss.module->clone();
  PassManager manager(&context);
  manager.addPass(createAppendLoss({"output:loss"}));
  manager.addPass(createSplitBatch({loss.batch, rows}));
  if (failed(manager.run(*part))) {
    ASSERT_TRUE((*part)->hasAttr(kMixedAttr)) << "an operation does not take fewer rows:\n" << textOf(*loss.module);
    ++counts.mixed;
    return;
  }
  ++counts.split;
  if (!std::isfinite(wanted) || std::abs(wanted) > 1e6) {
    ++counts.undefined;
    return;
  }
  auto main = part->lookupSymbol<func::FuncOp>(kMainName);
  ASSERT_NEAR(sumOfParts(main, loss, rows, counts), wanted, 1e-5 * std::max(1.0, std::abs(wanted)))
      << rows << " of " << loss.batch << " rows; the whole:\n" << textOf(*loss.module) << "the part:\n" << textOf(*part);
}

TEST(BatchOracle, PartsAddUpToTheWhole) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<NnDialect, func::FuncDialect>();
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  Counts counts;
  for (uint64_t i = 0; i < numberOfLosses && !HasFatalFailure(); ++i) {
    SCOPED_TRACE("passes-batches --losses=1 --seed=" + std::to_string(firstSeed + i));
    tryLoss(context, firstSeed + i, counts);
  }
  printf("%lu losses: %lu cut, %lu of them no number; %lu mixed; %lu sums over the step\n", counts.split + counts.mixed, counts.split,
         counts.undefined, counts.mixed, counts.sums);
  if (numberOfLosses >= 1000 && !HasFailure()) {
    EXPECT_GT(counts.split, numberOfLosses / 5) << "hardly a loss is cut";
    EXPECT_GT(counts.mixed, numberOfLosses / 10) << "hardly a loss mixes rows";
    EXPECT_GT(counts.sums, numberOfLosses / 50) << "hardly a sum of data";
  }
}
} // namespace
} // namespace mt::test

int main(int argc, char **argv) {
  return mt::test::runOracle(argc, argv, "losses", mt::test::firstSeed, mt::test::numberOfLosses);
}
