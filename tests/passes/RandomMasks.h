// Attention written out under random masks, as functions of nn: comparisons of positions, of what is looked up, joined
// by logic in the forms that exporters and model code use, and in forms that nobody does.
#ifndef MT_TESTS_PASSES_RANDOMMASKS_H
#define MT_TESTS_PASSES_RANDOMMASKS_H
#include "tests/passes/NnValues.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <random>

namespace mt::test {

struct MaskSizes {
  int64_t batch, heads, queries, keys;
};

/// A function of @p module whose result is one masked attention [B, H, Sq, D]; the same for the same seed.
struct MaskCase {
  mlir::func::FuncOp function;
  MaskSizes sizes;
  mlir::Value scores;         ///< what the softmax is taken of
  std::vector<Tensor> inputs; ///< of the function's arguments
};
MaskCase randomMask(mlir::ModuleOp module, uint64_t seed);

} // namespace mt::test
#endif
