// Indices sorted with their places, from the host: for kernels that go index by index. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_SORTINDICES_H
#define MT_KERNELS_CUDA_SORTINDICES_H

#include "kernels/cuda/Family.h"
#include "kernels/cuda/Indexing.h"

namespace mt::kernels::cuda {

/// Sorts `count` indices into `size` places with their places, 32 bits each; `keys` has room for twice as many,
/// `sorted` says where they are then.
Status sortIndices(const Launch &launch, const Indices &indices, int64_t count, int64_t size, uint64_t *keys,
                   uint64_t *&sorted);

} // namespace mt::kernels::cuda
#endif
