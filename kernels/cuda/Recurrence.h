// What the host hands to the device code of recurrent layers: one step of one, between its products. Private to
// kernels/cuda.
#ifndef MT_KERNELS_CUDA_RECURRENCE_H
#define MT_KERNELS_CUDA_RECURRENCE_H

#include "kernels/Recurrence.h"
#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

/// Which rows of the batch have a step; no data: all of them.
struct StepLengths {
  const void *data = nullptr;
  bool wide = false; ///< i64, else i32
};

struct RecurrentStep {
  Recurrence shape;
  int64_t step;
  bool begins; ///< nothing was multiplied yet: products are zero
  In gates, bias, peephole;
  StepLengths lengths;
  const float *products;  ///< [batch, line]
  float *hidden, *cell;   ///< [batch, width] each: the states
  Out operand;            ///< [batch, width]: what the next product reads
  Out hiddenOut, cellOut; ///< [steps, batch, width]
};

struct RecurrentStepBack {
  Recurrence shape;
  int64_t step;
  In dhidden, dcell, gates, products, before, cellBefore, peephole;
  StepLengths lengths;
  float *hidden, *cell;  ///< [batch, width] each: gradients of the states
  Out slopes;            ///< [batch, line]: what the next product reads
  const float *left;     ///< [batch, width]: gradient of what the reset gate left of the state
  Out dgates, dproducts; ///< [steps, batch, line]
};

using RecurrentStepCode = void (*)(RecurrentStep);
/// What the reset gate leaves of the state, where the candidate's product waits for that; and the step itself.
RecurrentStepCode resetStateCode();
RecurrentStepCode advanceStateCode();
/// initial (or zeros), elements -> state, and what products read, which may be none
using BeginStateCode = void (*)(In, int64_t, float *, Out);
BeginStateCode beginStateCode();
using RecurrentStepBackCode = void (*)(RecurrentStepBack);
/// The way back; through the reset gate where that waits for a product.
RecurrentStepBackCode goBackCode();
RecurrentStepBackCode goBackThroughResetCode();

} // namespace mt::kernels::cuda
#endif
