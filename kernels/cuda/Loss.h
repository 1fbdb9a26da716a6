// What the host hands to the device code of losses. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_LOSS_H
#define MT_KERNELS_CUDA_LOSS_H

#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

struct CrossEntropyCall {
  int64_t rows;
  RowShape shape;
  In logits;
  const void *labels;
  bool wide; ///< labels are i64, else i32
  double labelSmoothing, zLoss;
  const double *scalars;
  Out gradient; ///< no data: the loss alone
  double *losses;
  uint32_t *fault;
};

struct SquaredErrorCall {
  int64_t elements, size; ///< size: of a block's part
  bool packed;
  In prediction, target;
  const double *scalars;
  Out gradient; ///< no data: the loss alone
  double *losses;
};

using CrossEntropyCode = void (*)(CrossEntropyCall);
using SquaredErrorCode = void (*)(SquaredErrorCall);
/// losses, their number, the step's scalars, the loss
using AddLossesCode = void (*)(const double *, int64_t, const double *, Out);
CrossEntropyCode crossEntropyCode(RowCode code);
SquaredErrorCode squaredErrorCode();
AddLossesCode addLossesCode();

} // namespace mt::kernels::cuda
#endif
