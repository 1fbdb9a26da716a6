// A slow evaluator of nn in double precision: every operation by loops that follow its one-line definition in NnOps.td,
// on plain vectors, whatever element type the IR has. Shares no code with kernels, folds or shape inference: where they
// and it agree, each is right. What gradients and the CPU's kernels are held against (GradientCheck.h).
#ifndef MT_TESTS_NN_EVALUATE_H
#define MT_TESTS_NN_EVALUATE_H

#include "compiler/nn/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt::nn::test {

using Index = std::vector<int64_t>;

struct Tensor {
  Index dims;
  std::vector<double> values; ///< row-major; integers and booleans too

  /// Element `index`; a place outside ends the program: the evaluator, or a type inferred, is wrong.
  double &at(const Index &index) { return values[place(index)]; }
  double at(const Index &index) const { return values[place(index)]; }
  /// The same under NumPy's broadcast: `index` is that of a tensor of as many dimensions or more.
  double broadcastAt(const Index &index) const;

private:
  size_t place(const Index &index) const;
};

using Environment = llvm::DenseMap<mlir::Value, Tensor>;

/// The results of one operation, its operands being those of `environment`.
std::vector<Tensor> evaluate(mlir::Operation *op, const Environment &environment);

/// The results of a function; `visit`, if given, is called for each of its operations with its results.
using Visit = llvm::function_ref<void(mlir::Operation *, const Environment &, const std::vector<Tensor> &)>;
std::vector<Tensor> evaluate(mlir::func::FuncOp function, const std::vector<Tensor> &arguments, Visit visit = nullptr);

//===-- for the rules of operations, in the files Evaluate*.cpp ---------------------------------------------===//

/// The operands of an operation by the values that its accessors give.
class Operands {
public:
  explicit Operands(const Environment &environment) : environment(environment) {}
  const Tensor &operator[](mlir::Value value) const { return environment.find(value)->second; }
  /// Null where an optional operand is left out.
  const Tensor *find(mlir::Value value) const { return value ? &environment.find(value)->second : nullptr; }

private:
  const Environment &environment;
};

Tensor zeros(llvm::ArrayRef<int64_t> dims);
inline Tensor zeros(mlir::Value like) { return zeros(shapeOf(like)); }
/// Calls `body` with every index of `dims`, in row-major order.
void forEach(const Index &dims, llvm::function_ref<void(const Index &)> body);
/// A tensor of the shape of `like`, each element by its index.
Tensor each(mlir::Value like, llvm::function_ref<double(const Index &)> element);
/// `index` with its entry `axis` replaced.
Index with(Index index, int64_t axis, int64_t entry);

/// log(sum(exp(values))) with the largest taken out first; -infinity of none, or of nothing but -infinity.
double logSumExp(llvm::ArrayRef<double> values);

/// f(x) of the activations that fused operations name, and its derivative.
double activation(llvm::StringRef name, double x);
double slope(llvm::StringRef name, double x);

using Rule = std::vector<Tensor> (*)(mlir::Operation *, const Operands &);
using Rules = llvm::StringMap<Rule>;
template <typename Op, std::vector<Tensor> (*kRule)(Op, const Operands &)> void addRule(Rules &rules) {
  rules[Op::getOperationName()] = [](mlir::Operation *op, const Operands &in) { return kRule(mlir::cast<Op>(op), in); };
}
void addElementwiseRules(Rules &rules);
void addStructureRules(Rules &rules);
void addProductRules(Rules &rules);
void addRowRules(Rules &rules);
void addRecurrenceRules(Rules &rules);
void addAttentionRules(Rules &rules);
void addLossRules(Rules &rules);
void addWindowRules(Rules &rules);

} // namespace mt::nn::test
#endif
