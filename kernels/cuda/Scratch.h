// Cuts a call's scratch operand into parts, in the order and sizes that the catalogue counted. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_SCRATCH_H
#define MT_KERNELS_CUDA_SCRATCH_H

#include "kernels/Blocks.h"

namespace mt::kernels::cuda {

class Scratch {
public:
  explicit Scratch(void *operand) : next(alignedScratch(reinterpret_cast<uintptr_t>(operand))) {}
  /// The next part; null if it has no bytes.
  template <typename T = void> T *take(uint64_t bytes) {
    uint64_t part = next;
    next += alignedScratch(bytes);
    return bytes == 0 ? nullptr : reinterpret_cast<T *>(part);
  }

private:
  uint64_t next;
};

} // namespace mt::kernels::cuda
#endif
