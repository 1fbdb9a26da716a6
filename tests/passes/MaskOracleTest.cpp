// Random masks: attention after mt-recover-ops computes what it computed before, for every query that sees a key, and a
// predicate never leaves a query without keys by position alone. `passes-masks --seed=S --masks=N` tries N others.
#include "passes/Passes.h"
#include "tests/passes/OracleMain.h"
#include "tests/passes/RandomMasks.h"

#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace mt::nn;

namespace mt::test {
uint64_t firstSeed = 0, numberOfMasks = 10000;

namespace {
constexpr uint64_t kTogether = 100; ///< functions in a module
constexpr double kHidden = -4000;   ///< a score at most this is of a key that a mask hides

struct Counts {
  uint64_t predicates = 0, tensors = 0, decomposed = 0, rows = 0, emptyRows = 0;
};

NnValues valuesFor(const MaskCase &mask) {
  NnValues values;
  for (auto [argument, input] : llvm::zip(func::FuncOp(mask.function).getArguments(), mask.inputs))
    values.set(argument, input);
  return values;
}

Value resultOf(func::FuncOp function) { return function.getBody().front().getTerminator()->getOperand(0); }

/// What was computed before the pass: the result, and the rows [B, H, Sq] in which some key is seen.
struct Expected {
  Tensor result;
  std::vector<bool> seen;
};
Expected expectedOf(const MaskCase &mask) {
  NnValues values = valuesFor(mask);
  Expected expected{values.of(resultOf(mask.function)), {}};
  const Tensor &scores = values.of(mask.scores);
  auto keys = static_cast<size_t>(mask.sizes.keys);
  for (size_t at = 0; at < scores.values.size(); at += keys)
    expected.seen.push_back(*std::max_element(scores.values.begin() + static_cast<ptrdiff_t>(at),
                                              scores.values.begin() + static_cast<ptrdiff_t>(at + keys)) > kHidden);
  return expected;
}

std::string textOf(Operation *op) {
  std::string text;
  llvm::raw_string_ostream out(text);
  op->print(out);
  return text;
}

void compare(const MaskCase &mask, const Expected &expected, Counts &counts) {
  NnValues values = valuesFor(mask);
  const Tensor &got = values.of(resultOf(mask.function));
  size_t width = expected.result.values.size() / expected.seen.size();
  for (size_t row = 0; row < expected.seen.size(); ++row) {
    ++counts.rows;
    counts.emptyRows += !expected.seen[row];
    for (size_t i = row * width; expected.seen[row] && i < (row + 1) * width; ++i)
      ASSERT_NEAR(got.values[i], expected.result.values[i], 1e-4)
          << "row " << row << " of [batch, head, query], after the pass:\n"
          << textOf(mask.function);
  }
}

/// Counts what became of the mask; what positions alone hide must leave every query a key.
void classify(const MaskCase &mask, Counts &counts) {
  AttentionOp found;
  func::FuncOp function = mask.function;
  function.walk([&](AttentionOp op) { found = op; });
  if (!found) {
    ++counts.decomposed;
    return;
  }
  ++(found.getBias() ? counts.tensors : counts.predicates);
  auto low = static_cast<int64_t>(found.getMinDistance()), high = static_cast<int64_t>(found.getMaxDistance());
  for (int64_t q = 0; q < mask.sizes.queries; ++q) {
    int64_t keys = 0;
    for (int64_t k = 0; k < mask.sizes.keys; ++k)
      keys += (low <= q - k && q - k <= high) || k < static_cast<int64_t>(found.getPrefix());
    ASSERT_GT(keys, 0) << "query " << q << " sees nothing:\n" << textOf(found);
  }
}

void tryMasks(MLIRContext &context, uint64_t from, uint64_t count, Counts &counts) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  std::vector<MaskCase> masks;
  std::vector<Expected> expected;
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < count; ++i) {
    masks.push_back(randomMask(*module, from + i));
    expected.push_back(expectedOf(masks.back()));
    if (count == 1)
      texts.push_back(textOf(masks.back().function));
  }
  PassManager manager(&context);
  manager.addPass(createRecoverOps());
  ASSERT_TRUE(succeeded(manager.run(*module)))
      << "from seed " << from << (texts.empty() ? "" : "\nbefore the pass:\n" + texts[0]);
  for (uint64_t i = 0; i < count; ++i) {
    SCOPED_TRACE("passes-masks --masks=1 --seed=" + std::to_string(from + i) +
                 (texts.empty() ? "" : "\nbefore the pass:\n" + texts[i]));
    compare(masks[i], expected[i], counts);
    classify(masks[i], counts);
    if (testing::Test::HasFailure())
      return;
  }
}

TEST(MaskOracle, RecoveredAttentionComputesTheSame) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<NnDialect, func::FuncDialect>();
  ScopedDiagnosticHandler quiet(
      &context, [](Diagnostic &diagnostic) { return success(diagnostic.getSeverity() != DiagnosticSeverity::Error); });
  Counts counts;
  for (uint64_t done = 0; done < numberOfMasks && !HasFailure(); done += kTogether)
    tryMasks(context, firstSeed + done, std::min(kTogether, numberOfMasks - done), counts);
  printf("%lu masks: %lu predicates, %lu tensors, %lu decomposed; %lu rows, %lu of them hidden as a whole\n",
         counts.predicates + counts.tensors + counts.decomposed, counts.predicates, counts.tensors, counts.decomposed,
         counts.rows, counts.emptyRows);
  if (numberOfMasks >= 1000 && !HasFailure()) {
    EXPECT_GT(counts.predicates, numberOfMasks / 4) << "hardly a mask is recovered";
    EXPECT_GT(counts.tensors, numberOfMasks / 10) << "hardly a mask is none that a predicate can say";
    EXPECT_LT(counts.emptyRows, counts.rows / 2) << "hardly a row is compared";
  }
}
} // namespace
} // namespace mt::test

int main(int argc, char **argv) {
  return mt::test::runOracle(argc, argv, "masks", mt::test::firstSeed, mt::test::numberOfMasks);
}
