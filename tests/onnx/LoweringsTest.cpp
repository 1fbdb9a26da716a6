// What the operators of ONNX become: a line for each that has node cases of its own, in operators.lowered, out of which
// tools/docs.sh makes docs/operators.md. OPERATOR, cases that pass of all it has, whether results carry gradient, nn
// operations.
#include "tests/onnx/ConformanceImport.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

using namespace mlir;

namespace mt::onnx::test {
namespace {

bool isReal(Value value) { return isa<FloatType>(getElementTypeOrSelf(value)); }

/// How real inputs reach real results: not at all, through operations with gradient, or through others only.
enum class Flow : uint8_t { none, stopped, carried };

/// Whether an operation hands on the gradient of its result. Some cases have whole numbers where an operator takes
/// both: what only moves them would carry the gradient of reals.
bool carries(Operation &op) {
  bool moves = isa<nn::SelectOp>(op) || op.hasTrait<nn::Movement>();
  return isa<nn::DifferentiableOpInterface>(op) && (moves || isReal(op.getResult(0)));
}

Flow flowOf(func::FuncOp function) {
  llvm::DenseSet<Value> carried, reached;
  bool anyReal = llvm::any_of(function.getArguments(), isReal);
  for (BlockArgument argument : function.getArguments())
    if (isReal(argument) || !anyReal) {
      carried.insert(argument);
      reached.insert(argument);
    }
  for (Operation &op : function.front().without_terminator())
    for (Value result : op.getResults()) {
      auto has = [&](const llvm::DenseSet<Value> &values) {
        bool apt = isReal(result) || (!anyReal && !getElementTypeOrSelf(result).isInteger(1));
        return apt && llvm::any_of(op.getOperands(), [&](Value v) { return values.contains(v); });
      };
      if (has(carried) && carries(op))
        carried.insert(result);
      if (has(reached))
        reached.insert(result);
    }
  auto results = function.front().getTerminator()->getOperands();
  if (llvm::any_of(results, [&](Value value) { return carried.contains(value); }))
    return Flow::carried;
  bool stops = anyReal && llvm::any_of(results, [&](Value value) { return reached.contains(value); });
  return stops ? Flow::stopped : Flow::none;
}

struct Lowering {
  size_t cases = 0, passing = 0;
  Flow flow = Flow::none;
  std::set<std::string> operations;
};

void add(const ConformanceCase &one, Lowering &lowering) {
  const Exception *exception = exceptionOf(one.name);
  ++lowering.cases;
  lowering.passing += !exception || exception->stage == Stage::passed || exception->stage == Stage::slopes;
  Prepared prepared = prepare(one);
  if (!prepared.module)
    return;
  lowering.flow = std::max(lowering.flow, flowOf(prepared.function));
  for (Operation &op : prepared.function.front().without_terminator())
    if (!isa<nn::ConstantOp>(op))
      lowering.operations.insert(op.getName().stripDialect().str());
}

/// The operator that a case is of: the one it has, where the case is the package's and no function written out.
std::string operatorOf(const ConformanceCase &one) {
  std::set<std::string> operators = one.operators;
  for (const char *wrapper : {"Constant", "SequenceConstruct", "SequenceEmpty", "SequenceAt", "Optional"})
    if (operators.size() > 1)
      operators.erase(wrapper);
  bool own = one.name.starts_with("test_") && one.name.find("_expanded") == std::string::npos;
  return operators.size() == 1 && own ? *operators.begin() : "";
}

std::string lowerings() {
  std::map<std::string, Lowering> all;
  for (const ConformanceCase &one : conformanceCases())
    if (std::string name = operatorOf(one); !name.empty() && isSupported(one))
      add(one, all[name]);
  std::ostringstream text;
  for (const auto &[name, lowering] : all) {
    constexpr const char *flows[] = {"none", "stopped", "carried"};
    text << name << " " << lowering.passing << "/" << lowering.cases << " " << flows[static_cast<int>(lowering.flow)];
    for (const std::string &operation : lowering.operations)
      text << " " << operation;
    text << "\n";
  }
  return text.str();
}

// MT_WRITE_LOWERINGS=1 in the environment: the file is written anew instead.
TEST(Lowerings, AreAsListed) {
  if (conformanceCases().empty())
    GTEST_SKIP();
  std::string now = lowerings();
  if (std::getenv("MT_WRITE_LOWERINGS")) {
    std::ofstream(MT_OPERATORS_LOWERED) << now;
    return;
  }
  std::ostringstream listed;
  listed << std::ifstream(MT_OPERATORS_LOWERED).rdbuf();
  EXPECT_EQ(listed.str(), now) << "tests/onnx/operators.lowered is stale; run tools/docs.sh";
}

} // namespace
} // namespace mt::onnx::test
