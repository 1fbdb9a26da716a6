// What the host hands to the device code of gradients that add back into place; gathers are sources of Moving.h.
// Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_INDEXING_H
#define MT_KERNELS_CUDA_INDEXING_H

#include "kernels/cuda/Moving.h"

namespace mt::kernels::cuda {

/// Keys that a block sorts.
constexpr int kSorted = 512;

/// result[a, index, b] of the sorted keys = the sum of gradient[a, place, b] over the places with that index.
struct SegmentsArguments {
  const uint64_t *keys; ///< index and place, 32 bits each, ascending
  int64_t count, size, inner;
  Divider tiles, groups; ///< tiles of a row; groups of eight keys
  bool packed;
  In gradient;
  Out result;
};

/// indices, their number, the size that they index, the keys sorted in runs of kSorted
using SortRunsCode = void (*)(Indices, int64_t, int64_t, uint64_t *);
SortRunsCode sortRunsCode();
/// keys, their number, the length of a sorted run, the keys sorted in runs of twice the length
using MergeRunsCode = void (*)(const uint64_t *, int64_t, int64_t, uint64_t *);
MergeRunsCode mergeRunsCode();
using AddSegmentsCode = void (*)(SegmentsArguments);
AddSegmentsCode addSegmentsCode();

} // namespace mt::kernels::cuda
#endif
