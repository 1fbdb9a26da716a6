// What nn operations of masks and attention compute in the element types that the IR has: the evaluator's values
// (tests/nn/Evaluate.h), rounded or wrapped around after each operation. Shares no code with the passes. Not for whole
// models.
#ifndef MT_TESTS_PASSES_NNVALUES_H
#define MT_TESTS_PASSES_NNVALUES_H
#include "tests/nn/Evaluate.h"

namespace mt::test {

using nn::test::Tensor;

class NnValues {
public:
  void set(mlir::Value value, Tensor tensor) { known[value] = std::move(tensor); }
  /// Evaluates what `value` depends on, and nothing else.
  const Tensor &of(mlir::Value value);

private:
  nn::test::Environment known;
};

} // namespace mt::test
#endif
