// Values of index tensors that nothing but constants and counting go into, element by element: tables of positions that
// models look up or compute before they look at their inputs. Bounded work; for what grows with the sequence alone see
// IndexExpression.h.
#ifndef MT_PASSES_NN_KNOWNINTEGERS_H
#define MT_PASSES_NN_KNOWNINTEGERS_H
#include "compiler/nn/Nn.h"

namespace mt::passes {

/// The elements of `tensor`, whole numbers (of a floating-point type too) or truth values, in row-major order. None
/// where they are not known, some number leaves 53 bits, or finding them takes more than some millions of steps.
std::optional<std::vector<int64_t>> knownIntegers(mlir::Value tensor);

} // namespace mt::passes
#endif
