// What nn operations of masks and attention compute, element by element as their descriptions say: a slow evaluator
// that shares no code with the passes. Not for whole models.
#ifndef MT_TESTS_PASSES_NNVALUES_H
#define MT_TESTS_PASSES_NNVALUES_H
#include "compiler/nn/Nn.h"

namespace mt::test {

/// A tensor's elements in row-major order; integers and booleans as whole numbers.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> elements;
  /// The element that this one's element at `index` (of a shape that this one broadcasts to) is.
  double at(const std::vector<int64_t> &index) const;
};

/// The next index of a shape in row-major order; false after the last.
bool advance(std::vector<int64_t> &index, const std::vector<int64_t> &shape);

class NnValues {
public:
  void set(mlir::Value value, Tensor tensor) { known[value] = std::move(tensor); }
  /// Evaluates what `value` depends on; fails the running test at an operation it does not know.
  const Tensor &of(mlir::Value value);

private:
  llvm::DenseMap<mlir::Value, Tensor> known;
  Tensor compute(mlir::Operation *op, unsigned result);
};

} // namespace mt::test
#endif
