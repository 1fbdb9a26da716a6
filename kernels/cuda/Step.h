// What the host hands to the device code of squared_norm, pairwise_sum and tree_sum. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_STEP_H
#define MT_KERNELS_CUDA_STEP_H

#include "kernels/Blocks.h"
#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

/// the operand, its elements, those of a part, whether they are packed, the parts' sums
using SquaredNormPartCode = void (*)(In, int64_t, int64_t, bool, double *);
/// the parts' sums, their number, the norm
using AddPartsCode = void (*)(const double *, int64_t, double *);
SquaredNormPartCode squaredNormPartCode();
AddPartsCode addPartsCode();

struct Terms {
  const void *at[kSumTerms];
  DType type;
};
/// the terms, their sum, its elements, whether they are packed
using PairwiseSumCode = void (*)(Terms, Out, int64_t, bool);
/// Of so many terms, 1 to kSumTerms.
PairwiseSumCode pairwiseSumCode(int64_t terms);

/// the batch's own, the running one, the step's scalars, the one that holds, its elements
using RunningStatisticCode = void (*)(const float *, const float *, const double *, float *, int64_t);
RunningStatisticCode runningStatisticCode();

} // namespace mt::kernels::cuda
#endif
