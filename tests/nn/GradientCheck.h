// How a gradient is tested: an operation, its flags and ranks, inputs; and everything that must hold for them.
//
// The chain from a derivative to what a device computes closes here. mt-differentiate builds the gradient with the
// operation's own rule; evaluated in double (Evaluate.h) it must equal central differences of the evaluated forward
// operation, with every operand wanted and with each alone. So the evaluator's gradient operations are right where its
// forward ones are, and these are loops of one line. The same case in 32 bits then goes through the passes to kernels,
// and each kernel of the CPU, forward and backward, must give what the evaluator gives for its operands. Kernels in 16
// bits are held against those in 32, and the GPU's against formulas in 64, in tests/kernels. In bf16 and f16, and as
// mt-lower-precision types a model, the gradient must have kernels wherever the operation has one.
#ifndef MT_TESTS_NN_GRADIENTCHECK_H
#define MT_TESTS_NN_GRADIENTCHECK_H

#include "tests/nn/Evaluate.h"

#include <functional>
#include <map>
#include <random>
#include <set>

namespace mt::nn::test {

using Random = std::mt19937_64;

/// An operand: what it holds, and whether it carries gradient.
struct Input {
  enum Kind : uint8_t { real, fixed, integer, boolean, scalars };
  Kind kind = real;
  Index dims;
  std::function<double(Random &, size_t index, size_t count)> draw;
  mlir::Type element = {}; ///< null: that of the kind, and of reals the one the case is built in
  bool differentiable() const { return kind == real; }
};

Input real(Index dims, double low = -1.5, double high = 1.5);
/// The same without gradient.
Input fixed(Index dims);
/// At least 0.2 from zero and, within a tensor and between those of other `shift` (0, 1 or 2), 0.05 from each other:
/// both signs, no kink near.
Input apart(Index dims, int shift = 0);
Input positive(Index dims);
Input given(Index dims, std::vector<double> values);
/// In [low, high).
Input integers(Index dims, int64_t low, int64_t high);
Input booleans(Index dims);
/// The step's scalars.
Input scalars();

/// What a case builds its operations with.
struct Graph {
  mlir::OpBuilder &builder;
  mlir::ValueRange in;
  mlir::Location where = builder.getUnknownLoc();
  template <typename Op, typename... Args> Op make(Args... args) { return Op::create(builder, where, args...); }
};

/// `value` with its type's element made 32 bits wide, for operations that may give such results of narrower operands.
inline mlir::Value in32Bits(mlir::Value value) {
  value.setType(tensorOf(shapeOf(value), mlir::Float32Type::get(value.getContext())));
  return value;
}

struct Case {
  std::string name;
  std::vector<Input> inputs;
  /// The values of which the loss is a random linear function. A scalar alone may be the loss itself.
  std::function<llvm::SmallVector<mlir::Value>(Graph)> body;
  bool isLoss = false;
  bool mayVanish = false; ///< the gradient may be zero
};

/// Cases by what they are cases of: the mnemonic of an operation, with a suffix behind a dot where there are many.
using Cases = std::map<std::string, std::vector<Case>>;
const Cases &allCases();
void addElementwiseCases(Cases &cases);
void addStructureCases(Cases &cases);
void addProductCases(Cases &cases);
void addRowCases(Cases &cases);
void addRecurrenceCases(Cases &cases);
void addAttentionCases(Cases &cases);
void addLossCases(Cases &cases);
void addRandomCases(Cases &cases);
void addWindowCases(Cases &cases);

/// "nn.attention" of "attention.mask".
std::string operationOf(const std::string &group);

/// Everything that must hold for a case of `operation`, as failures of the running test.
void check(const std::string &operation, const Case &checked);

/// The same in two parts for a case that knows its types (Input::element): the CPU's kernels of its operations against
/// the evaluator; and its gradient against differences, then that gradient's kernels.
void checkKernels(const Case &checked);
void checkSlopes(const Case &checked);

/// An operation or a module as text.
std::string textOf(mlir::Operation *op);

/// The context of all cases; functions whose operations a body copies are of it.
mlir::MLIRContext &caseContext();

/// The operations that the case and its gradient are made of when they reach kernels.
std::set<std::string> operationsOf(const Case &checked);

/// The gradients of the differentiable inputs, in double, all wanted.
std::vector<Tensor> gradientsOf(const Case &checked);

} // namespace mt::nn::test
#endif
