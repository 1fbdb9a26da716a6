// What the host hands to the device code of `elementwise` (kernels/Expression.h). Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_EXPRESSION_H
#define MT_KERNELS_CUDA_EXPRESSION_H

#include "kernels/Expression.h"
#include "kernels/cuda/Elementwise.h"

namespace mt::kernels::cuda {

/// Threads of a block, and the values that each of them keeps: together what a block has of shared memory without asking.
constexpr int kExpressionThreads = 128, kExpressionSlots = static_cast<int>(Slots::kMostOnGpu);
constexpr int kExpressionReads = static_cast<int>(Expression::kMostReads), kExpressionWrites = static_cast<int>(Expression::kMostResults),
              kExpressionSteps = static_cast<int>(Expression::kMostInstructions);
constexpr uint8_t kNowhere = 0xff;

/// One instruction: of which slots, into which, and which of the results it is; kNowhere: none.
struct ExpressionStep {
  enum Kind : uint8_t { call, cast, invert, constant } kind;
  Operation operation;
  Function function;
  DType type; ///< to which its results are rounded
  uint8_t in[kMostIn], out[kMostOut], write[kMostOut];
  float number; ///< of a constant
};

/// An operand that is read, seen in the order of the results.
struct ExpressionRead {
  In in;
  uint8_t slot;
  Views<1> view;
};

/// Everything about a launch.
struct ExpressionArguments {
  int64_t total;
  bool packed;
  int reads, steps;
  ExpressionRead read[kExpressionReads];
  ExpressionStep step[kExpressionSteps];
  Out write[kExpressionWrites];
};

using ExpressionCode = void (*)(ExpressionArguments);
ExpressionCode expressionCode();

} // namespace mt::kernels::cuda
#endif
