// What device code may find wrong with the data it is given.
#ifndef MT_KERNELS_CUDA_FAULT_H
#define MT_KERNELS_CUDA_FAULT_H

#include <cstdint>

namespace mt::kernels::cuda {

/// What data made a kernel's result meaningless; a kernel stores it into Launch::fault, where the device finds it when
/// the command is done.
enum class Fault : uint32_t { none = 0, indexOutOfRange = 1, labelOutOfRange = 2, notFinite = 3 };

} // namespace mt::kernels::cuda
#endif
