// What the host hands to the device code of elementwise kernels. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_ELEMENTWISE_H
#define MT_KERNELS_CUDA_ELEMENTWISE_H

#include "kernels/cuda/Elements.h"
#include "kernels/cuda/Views.h"

namespace mt::kernels::cuda {

// clang-format off
#define MT_ACTIVATION_FUNCTIONS(X) X(relu) X(silu) X(geluErf) X(geluTanh) X(geluSigmoid) X(softplus) X(sigmoid)
#define MT_UNARY_FUNCTIONS(X)                                                                                          \
  X(neg) X(abs) X(sign) X(exp) X(log) X(sqrt) X(rsqrt) X(reciprocal) X(tanh) X(erf) X(sin) X(cos) X(atan) X(floor)     \
  X(ceil) X(round) X(isNan) X(invert) MT_ACTIVATION_FUNCTIONS(X)
#define MT_BINARY_FUNCTIONS(X)                                                                                         \
  X(add) X(sub) X(mul) X(div) X(pow) X(maximum) X(minimum) X(mod) X(bitAnd) X(bitOr) X(bitXor) X(equal) X(notEqual)    \
  X(less) X(lessEqual) X(greater) X(greaterEqual)
// clang-format on
#define MT_NAME(function) function,
enum class Function : uint8_t { MT_UNARY_FUNCTIONS(MT_NAME) MT_BINARY_FUNCTIONS(MT_NAME) select };
#undef MT_NAME

constexpr int kMostIn = 3, kMostOut = 2;

/// Everything about a launch. Operands are in the order of the catalogue.
struct ElementwiseArguments {
  Function function;
  int64_t total;
  bool packed;
  Views<kMostIn> views;
  In in[kMostIn];
  Out out[kMostOut];
};

/// What is made of the operands of an element; the last three are of an activation: its gradient, the gated product,
/// and the gradients of its factors.
enum class Operation : uint8_t { unary, binary, select, slope, gate, gateGrad };

/// Which operation a call is, and of which function: none where the function is chosen by no name (select).
struct Chosen {
  Operation operation;
  Function function;
};
Chosen chosenOf(const Signature &call);

using ElementwiseCode = void (*)(ElementwiseArguments);
ElementwiseCode elementwiseCode(Operation operation, DType type);

} // namespace mt::kernels::cuda
#endif
