// The gradient of every operation, in every combination of its flags and ranks: a test for each group of cases, and
// one that no operation lacks cases. `nn-gradients --gtest_filter='*NoOperationIsLeftOut'` lists operations and cases.
#include "tests/nn/GradientCheck.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

using namespace mlir;

namespace mt::nn::test {

const Cases &allCases() {
  static const Cases all = [] {
    Cases made;
    addElementwiseCases(made);
    addStructureCases(made);
    addProductCases(made);
    addRowCases(made);
    addRecurrenceCases(made);
    addAttentionCases(made);
    addLossCases(made);
    addRandomCases(made);
    addWindowCases(made);
    return made;
  }();
  return all;
}

std::string operationOf(const std::string &group) { return "nn." + group.substr(0, group.find('.')); }

namespace {

std::vector<std::string> groups() {
  std::vector<std::string> names;
  for (const auto &[group, cases] : allCases())
    names.push_back(group);
  return names;
}

class Gradients : public testing::TestWithParam<std::string> {};

TEST_P(Gradients, AreSlopes) {
  for (const Case &checked : allCases().at(GetParam())) {
    check(operationOf(GetParam()), checked);
    if (HasFailure())
      return;
  }
}
INSTANTIATE_TEST_SUITE_P(Of, Gradients, testing::ValuesIn(groups()), [](const auto &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

const std::string kGradient = "is part of a gradient", kOutlined = "is of data alone, and no operation of a layer";

/// Operations that carry no gradient, and why.
const std::map<std::string, std::string> &withoutGradient() {
  static const std::map<std::string, std::string> reasons = [] {
    std::map<std::string, std::string> made;
    auto add = [&](const std::string &reason, std::initializer_list<const char *> operations) {
      for (const char *operation : operations)
        made[operation] = reason;
    };
    add("gives whole numbers or booleans", {"and", "or", "xor", "not", "compare", "is_nan"});
    add("is flat, with jumps", {"sign", "floor", "ceil", "round"});
    add("is what no gradient goes through", {"detach"});
    add("has no operands", {"constant", "iota"});
    add("depends on no operand but by its shape", {"random"});
    add("is made by passes behind mt-differentiate", {"copy", "elementwise", "elementwise_sums"});
    add(kOutlined, {"step_sum"});
    add("gives whole numbers", {"top_k"});
    add(kGradient,
        {"activation_grad", "gated_product_grad", "gather_grad", "embedding_grad", "layer_norm_grad", "rms_norm_grad", "recurrence_grad",
         "softmax_grad", "attention_grad", "cross_entropy_grad", "linear_cross_entropy_grad", "squared_error_grad",
         "conv_weight_grad", "pool_grad", "expert_matmul_grad", "matmul_gelu_grad", "matmul_sums"});
    return made;
  }();
  return reasons;
}

TEST(TextualForms, NoOperationIsLeftOut) {
  std::ostringstream text;
  text << std::ifstream(MT_NN_TESTS "/ops.mlir").rdbuf();
  MLIRContext context;
  context.loadDialect<NnDialect>();
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    std::string name = op.getStringRef().str();
    bool isThere = text.str().find("= " + name + " ") != std::string::npos;
    EXPECT_EQ(isThere, op.getDialectNamespace() == "nn") << name << " is not in tests/nn/ops.mlir";
  }
}

TEST(GradientCases, NoOperationIsLeftOut) {
  MLIRContext context;
  context.loadDialect<NnDialect>();
  std::map<std::string, size_t> counts;
  for (const auto &[group, cases] : allCases())
    counts[operationOf(group)] += cases.size();
  size_t operations = 0;
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    if (op.getDialectNamespace() != "nn")
      continue;
    std::string name = op.getStringRef().str(), mnemonic = name.substr(3);
    bool differentiable = op.hasInterface<DifferentiableOpInterface>(), excused = withoutGradient().contains(mnemonic);
    ++operations;
    EXPECT_NE(differentiable, excused) << name
                                       << (differentiable ? " has a gradient and a reason to have none"
                                                          : " has no gradient and no reason for that");
    std::string reason = excused ? withoutGradient().at(mnemonic) : "";
    bool inside = reason == kGradient || reason == kOutlined; // of the cases of others, or of none
    EXPECT_NE(inside, counts.contains(name)) << name << " has no cases";
    std::printf("%-30s %5zu cases  %s\n", name.c_str(), counts[name], reason.c_str());
    counts.erase(name);
  }
  EXPECT_GT(operations, 0u);
  EXPECT_TRUE(counts.empty()) << "cases of " << counts.begin()->first << ", which is no operation";
}

/// The operations that gradients are made of are checked against kernels as parts of cases: each is in one.
TEST(GradientCases, ReachEveryGradientOperation) {
  constexpr size_t kFirst = 10; // of a group: enough for its kinds of gradient
  std::set<std::string> seen;
  for (const auto &[group, cases] : allCases())
    for (size_t i = 0; i < std::min(kFirst, cases.size()); ++i)
      seen.merge(operationsOf(cases[i]));
  for (const auto &[mnemonic, reason] : withoutGradient())
    EXPECT_TRUE(reason != kGradient || seen.contains("nn." + mnemonic)) << mnemonic << " is in no gradient of a case";
}

//===-- where there is no slope -----------------------------------------------------------------------------===//

void expectGradients(const Case &checked, const std::vector<std::vector<double>> &expected) {
  std::vector<Tensor> gradients = gradientsOf(checked);
  ASSERT_EQ(gradients.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(gradients[i].values, expected[i]) << checked.name << ", input " << i;
}
/// The sum of what `make` gives, as a loss.
Case sumOf(std::vector<Input> inputs, const std::function<Value(Graph)> &make) {
  return {"sum", std::move(inputs),
          [make](Graph g) {
            Value value = make(g);
            auto axes = llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(value).size()));
            return SmallVector<Value>{g.make<ReduceOp>(value, "sum", axes, false)};
          },
          true};
}
Input numbers(const std::vector<double> &values) { return given({static_cast<int64_t>(values.size())}, values); }

TEST(GradientsAtKinks, AreThoseOfPyTorch) {
  Input points = numbers({-1, 0, 2});
  expectGradients(sumOf({points}, [](Graph g) { return g.make<ReluOp>(g.in[0]); }), {{0, 0, 1}});
  expectGradients(sumOf({points}, [](Graph g) { return g.make<AbsOp>(g.in[0]); }), {{-1, 0, 1}});
  expectGradients(sumOf({points, numbers({-1, 1, 1})}, [](Graph g) { return g.make<MaximumOp>(g.in[0], g.in[1]); }),
                  {{0.5, 0, 1}, {0.5, 1, 0}});
  expectGradients(sumOf({points, numbers({-1, 1, 1})}, [](Graph g) { return g.make<MinimumOp>(g.in[0], g.in[1]); }),
                  {{0.5, 1, 0}, {0.5, 0, 1}});
  for (StringRef kind : {"max", "min"})
    expectGradients(sumOf({numbers({3, 3, 3, 3})},
                          [kind](Graph g) { return g.make<ReduceOp>(g.in[0], kind, ArrayRef<int64_t>{0}, false); }),
                    {{0.25, 0.25, 0.25, 0.25}});
  auto first = [](StringRef kind) {
    return [kind](Graph g) { return g.make<ReduceOp>(g.in[0], kind, ArrayRef<int64_t>{0}, false, true); };
  };
  expectGradients(sumOf({numbers({1, 3, 1, 3})}, first("max")), {{0, 1, 0, 0}});
  expectGradients(sumOf({numbers({1, 3, 1, 3})}, first("min")), {{1, 0, 0, 0}});
  expectGradients(
      sumOf({numbers({0, 0, 4}), numbers({0, 2, 0})}, [](Graph g) { return g.make<PowOp>(g.in[0], g.in[1]); }),
      {{0, 0, 0}, {0, 0, std::log(4.0)}});
}

} // namespace
} // namespace mt::nn::test
