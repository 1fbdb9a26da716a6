// Every node case of the package onnx whose operators mt supports: imported, evaluated by the slow evaluator of nn
// against the results that the case demands; each operation by the CPU's kernels against the evaluator; and where reals
// go in and come out, the gradient against differences. A case that stops on the way stands in conformance.exceptions
// with the reason, and one that stands there stops exactly where the list says.
#include "tests/nn/GradientCheck.h"
#include "tests/onnx/ConformanceImport.h"

#include "mlir/IR/IRMapping.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <cmath>

using namespace mlir;

namespace mt::onnx::test {
namespace {

using nn::test::Tensor;

/// The cases that are made of supported operators alone.
std::vector<const ConformanceCase *> supportedCases() {
  std::vector<const ConformanceCase *> supported;
  for (const ConformanceCase &one : conformanceCases())
    if (isSupported(one))
      supported.push_back(&one);
  return supported;
}

//===-- from a case to an operation with inputs -----------------------------------------------------------------===//

bool tensorIsEmpty(ArrayRef<int64_t> dims) { return llvm::is_contained(dims, 0); }

/// Of no elements, and nothing computes with it: no kernel takes such tensors.
bool isEmptyResult(Value value) {
  return tensorIsEmpty(nn::shapeOf(value)) && llvm::all_of(value.getUsers(), llvm::IsaPred<func::ReturnOp>);
}

/// The imported function as a case of GradientCheck.h, whose inputs hold what the ONNX case says, those of `fixed`
/// without gradient. Whole numbers and booleans that come out become reals; tensors without elements are left out.
nn::test::Case caseOf(const ConformanceCase &one, Prepared &prepared, const std::set<std::string> &fixed = {}) {
  nn::test::Case made;
  made.name = one.name;
  made.mayVanish = true;
  for (auto [i, argument] : llvm::enumerate(prepared.function.getArguments())) {
    nn::test::Input input = nn::test::given(prepared.arguments[i].dims, prepared.arguments[i].values);
    input.element = getElementTypeOrSelf(argument.getType());
    if (!isa<FloatType>(input.element))
      input.kind = nn::test::Input::integer;
    else if (tensorIsEmpty(input.dims) || prepared.function.getArgAttr(i, nn::kScalarsAttr) ||
             (i < one.inputs.size() && fixed.contains(one.inputs[i].name)))
      input.kind = nn::test::Input::fixed;
    made.inputs.push_back(std::move(input));
  }
  made.body = [function = prepared.function](nn::test::Graph graph) {
    IRMapping mapping;
    func::FuncOp whole = function;
    mapping.map(whole.getArguments(), graph.in);
    for (Operation &op : whole.front().without_terminator())
      if (!llvm::all_of(op.getResults(), isEmptyResult))
        graph.builder.clone(op, mapping);
    SmallVector<Value> results;
    for (Value value : whole.front().getTerminator()->getOperands())
      if (!tensorIsEmpty(nn::shapeOf(value))) {
        Value result = mapping.lookupOrDefault(value);
        bool real = isa<FloatType>(getElementTypeOrSelf(result));
        results.push_back(real ? result : nn::castTo(graph.builder, result, graph.builder.getF32Type()));
      }
    return results;
  };
  return made;
}

//===-- the stages ----------------------------------------------------------------------------------------------===//

/// What a result may differ by, of its own size: of types of fewer bits than 32, what they round.
double relativeOf(const ConformanceCase &one, const CaseTensor &wanted) {
  if (wanted.type == "float16")
    return std::max(one.relative, 2e-3);
  if (wanted.type == "bfloat16")
    return std::max(one.relative, 1.6e-2);
  return wanted.type.starts_with("float") ? std::min(one.relative, 1e-4) : 0;
}

/// Where a result is not what the case demands; empty: nowhere.
std::string difference(const ConformanceCase &one, const CaseTensor &wanted, const Tensor &got) {
  if (got.dims != wanted.dims)
    return fmt::format("'{}' has the shape {}, not {}", wanted.name, dimsText(got.dims), dimsText(wanted.dims));
  double relative = relativeOf(one, wanted);
  for (size_t i = 0; i < got.values.size(); ++i) {
    double is = got.values[i], must = wanted.values[i];
    bool same = is == must || (std::isnan(is) && std::isnan(must));
    if (!same && !(std::abs(is - must) <= 1e-6 + relative * std::abs(must)))
      return fmt::format("element {} of '{}' is {}, not {}", i, wanted.name, is, must);
  }
  return "";
}

std::string compareResults(const ConformanceCase &one, Prepared &prepared) {
  std::vector<Tensor> results = nn::test::evaluate(prepared.function, prepared.arguments);
  if (results.size() != one.outputs.size())
    return fmt::format("{} results instead of {}", results.size(), one.outputs.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (std::string why = difference(one, one.outputs[i], results[i]); !why.empty())
      return why;
  return "";
}

/// What a check of GradientCheck.h reports, instead of the running test's failing.
std::string failuresOf(llvm::function_ref<void()> check) {
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    check();
  }
  std::string text;
  for (int i = 0; i < results.size(); ++i)
    text += std::string(results.GetTestPartResult(i).message()) + "\n";
  return text;
}

struct Outcome {
  Stage stage = Stage::passed; ///< where it stopped
  std::string why = {};
  std::string others = {}; ///< what is wrong with the slopes of inputs that the exception does not name
};

/// No differences can be taken at what is not finite: one stands in its place.
void makeFinite(std::vector<Tensor> &arguments) {
  for (Tensor &argument : arguments)
    for (double &value : argument.values)
      value = std::isfinite(value) ? value : 1;
}

Outcome run(const ConformanceCase &one, const Exception *exception) {
  Prepared prepared = prepare(one);
  if (!prepared.problems.empty() || !prepared.module)
    return {Stage::refused, fmt::format("{}", fmt::join(prepared.problems, "\n"))};
  if (std::string why = compareResults(one, prepared); !why.empty())
    return {Stage::values, why + "\n" + nn::test::textOf(*prepared.module)};
  if (llvm::all_of(one.outputs, [](const CaseTensor &output) { return tensorIsEmpty(output.dims); }))
    return {};
  nn::test::Case checked = caseOf(one, prepared);
  if (std::string why = failuresOf([&] { nn::test::checkKernels(checked); }); !why.empty())
    return {Stage::kernels, why};
  makeFinite(prepared.arguments);
  std::string why = failuresOf([&] { nn::test::checkSlopes(caseOf(one, prepared)); }), others;
  if (exception && !exception->inputs.empty())
    others = failuresOf([&] { nn::test::checkSlopes(caseOf(one, prepared, exception->inputs)); });
  return {why.empty() ? Stage::passed : Stage::slopes, why, others};
}

//===-- tests ---------------------------------------------------------------------------------------------------===//

class Conformance : public testing::TestWithParam<const ConformanceCase *> {};

TEST_P(Conformance, Holds) {
  const ConformanceCase &one = *GetParam();
  const Exception *exception = exceptionOf(one.name);
  Outcome outcome = run(one, exception);
  Stage demanded = exception ? exception->stage : Stage::passed;
  EXPECT_EQ(outcome.others, "");
  if (outcome.stage == demanded)
    return;
  std::string listed =
      exception ? "conformance.exceptions says that it stops at '" + nameOf(demanded) + "' (" + exception->pattern + ")"
                : "it should pass";
  ADD_FAILURE() << one.name << ": " << listed << ", but it comes to '" << nameOf(outcome.stage) << "': " << outcome.why;
}

TEST(ConformanceList, EveryLineNamesACase) {
  std::vector<const ConformanceCase *> cases = supportedCases();
  if (cases.empty())
    GTEST_SKIP();
  std::map<Stage, size_t> counts;
  std::set<const Exception *> used;
  for (const ConformanceCase *one : cases) {
    const Exception *exception = exceptionOf(one->name);
    used.insert(exception);
    ++counts[exception ? exception->stage : Stage::passed];
  }
  for (const Exception &exception : exceptions())
    EXPECT_TRUE(used.contains(&exception)) << exception.pattern << " names no case that earlier lines do not";
  std::printf("%zu of %zu cases are of supported operators\n", cases.size(), conformanceCases().size());
  for (auto [stage, count] : counts)
    std::printf("%s: %zu\n", nameOf(stage).c_str(), count);
}

INSTANTIATE_TEST_SUITE_P(Case, Conformance, testing::ValuesIn(supportedCases()),
                         [](const auto &info) { return info.param->name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

} // namespace
} // namespace mt::onnx::test
