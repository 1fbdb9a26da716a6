// Floating values between storage types and 32 bits, and the split of a 32-bit master into a streamed bf16 upper half
// and a signed 16-bit remainder. Arrays only; who stores what where is the plan's matter.
#ifndef MT_RUNTIME_HOST_CONVERT_H
#define MT_RUNTIME_HOST_CONVERT_H

#include "kernels/Catalogue.h"

#include <cstddef>
#include <span>

namespace mt::host {

/// Whether `toFloat` knows the type.
bool isFloat(kernels::DType type);
/// `values.size()` stored elements to 32 bits. f64 rounds to nearest; the others are exact.
void toFloat(kernels::DType type, const std::byte *stored, std::span<float> values);
/// 32 bits to f32 or bf16 (hi below; f16 and f64 are not trained and not written).
void fromFloat(kernels::DType type, std::span<const float> values, std::byte *stored);

/// hi = (bits + 0x8000) >> 16, lo = bits - (hi << 16): hi is the value in bf16, rounded half up, and both together are
/// the value. Exact for finite values.
void splitMaster(std::span<const float> values, uint16_t *hi, int16_t *lo);

} // namespace mt::host
#endif
