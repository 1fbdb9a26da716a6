// Floating values between storage types and 32 bits, and 32-bit masters in two halves (kernels/Bf16.h). Arrays only;
// who stores what where is the plan's matter.
#ifndef MT_RUNTIME_HOST_CONVERT_H
#define MT_RUNTIME_HOST_CONVERT_H

#include "kernels/Bf16.h"
#include "kernels/Catalogue.h"

#include <cstddef>
#include <span>

namespace mt::host {

/// `values.size()` stored elements to 32 bits. f64 rounds to nearest; the others are exact.
void toFloat(kernels::DType type, const std::byte *stored, std::span<float> values);
/// 32 bits to f32 or, rounded to the nearest, bf16 (f16 and f64 are not trained and not written).
void fromFloat(kernels::DType type, std::span<const float> values, std::byte *stored);

/// Every value must split.
void splitMaster(std::span<const float> values, kernels::Bf16 *upper, int16_t *lower);
void joinMaster(const kernels::Bf16 *upper, const int16_t *lower, std::span<float> values);

} // namespace mt::host
#endif
