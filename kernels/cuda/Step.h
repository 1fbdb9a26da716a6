// What the host hands to the device code of squared_norm. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_STEP_H
#define MT_KERNELS_CUDA_STEP_H

#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

/// the operand, its elements, those of a part, whether they are packed, the parts' sums
using SquaredNormPartCode = void (*)(In, int64_t, int64_t, bool, double *);
/// the parts' sums, their number, the norm
using AddPartsCode = void (*)(const double *, int64_t, double *);
SquaredNormPartCode squaredNormPartCode();
AddPartsCode addPartsCode();

} // namespace mt::kernels::cuda
#endif
