#include "kernels/cuda/Numbers.h"

#include <bit>

namespace mt::kernels::cuda {
namespace {

uint64_t bfloat16Bits(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return (bits >> 16) | 0x40;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

/// Round to nearest, ties to even: the float's mantissa in units of the half's last place.
uint64_t halfBits(float value) {
  uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  double size = std::abs(static_cast<double>(value));
  if (std::isnan(value))
    return sign | 0x7e00;
  if (size >= 65520) // rounds beyond the largest finite half
    return sign | 0x7c00;
  int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
  auto units = static_cast<uint64_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return sign | ((static_cast<uint64_t>(exponent + 14) << 10) + units); // 1024 units carry into the exponent
}

uint64_t floatBits(DType type, float value) {
  return type == DType::bf16  ? bfloat16Bits(value)
         : type == DType::f16 ? halfBits(value)
                              : std::bit_cast<uint32_t>(value);
}

bool isFloatOf32(DType type) { return type == DType::f32 || type == DType::bf16 || type == DType::f16; }

} // namespace

uint64_t encoded(DType type, int64_t value) {
  if (isFloatOf32(type))
    return floatBits(type, static_cast<float>(value));
  if (type == DType::f64)
    return std::bit_cast<uint64_t>(static_cast<double>(value));
  if (type == DType::boolean)
    return value != 0;
  return static_cast<uint64_t>(value) & (~uint64_t{0} >> (64 - 8 * byteSize(type)));
}

uint64_t encoded(DType type, double value) {
  if (isFloatOf32(type))
    return floatBits(type, static_cast<float>(value));
  if (type == DType::f64)
    return std::bit_cast<uint64_t>(value);
  return encoded(type, numberOf<int64_t>(value));
}

} // namespace mt::kernels::cuda
