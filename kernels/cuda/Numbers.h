// Numbers of attributes in the element types of a device: as kernels take them, and as memory holds them. Private to
// kernels/cuda.
#ifndef MT_KERNELS_CUDA_NUMBERS_H
#define MT_KERNELS_CUDA_NUMBERS_H

#include "kernels/Catalogue.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace mt::kernels::cuda {

/// What an integer cannot hold becomes its nearest, NaN becomes zero.
template <typename C> C numberOf(double value) {
  constexpr double kMost = 9223372036854774784.0; // the largest double below 2^63
  if constexpr (std::is_floating_point_v<C>)
    return static_cast<C>(value);
  else
    return std::isnan(value) ? 0 : static_cast<C>(std::clamp(value, -kMost, kMost));
}

/// The bytes of one element, from the lowest on.
uint64_t encoded(DType type, double value);
uint64_t encoded(DType type, int64_t value);

} // namespace mt::kernels::cuda
#endif
