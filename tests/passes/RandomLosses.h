// Losses over a batch put together at random out of nn operations: what models do with rows, and what no model does.
#ifndef MT_TESTS_PASSES_RANDOMLOSSES_H
#define MT_TESTS_PASSES_RANDOMLOSSES_H
#include "tests/nn/Evaluate.h"

#include <random>

namespace mt::test {

/// A module whose func @main takes `batch` rows of two inputs, and weights, and returns one number.
struct LossCase {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int64_t batch = 0;
  std::vector<nn::test::Tensor> inputs; ///< of the function's arguments
};
/// The same for the same seed.
LossCase randomLoss(mlir::MLIRContext &context, uint64_t seed);

} // namespace mt::test
#endif
