#include "runtime/host/Convert.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace mt::host {
namespace {

using kernels::DType;

float fromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float fromF16(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                    : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                    : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

uint32_t upperHalf(float value) { return (std::bit_cast<uint32_t>(value) + 0x8000u) >> 16; }

template <typename Stored, typename Convert>
void each(const std::byte *stored, std::span<float> values, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    Stored one;
    std::memcpy(&one, stored + i * sizeof(Stored), sizeof(Stored));
    values[i] = convert(one);
  }
}

} // namespace

bool isFloat(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::f64;
}

void toFloat(DType type, const std::byte *stored, std::span<float> values) {
  if (type == DType::f32)
    std::memcpy(values.data(), stored, values.size_bytes());
  else if (type == DType::bf16)
    each<uint16_t>(stored, values, fromBf16);
  else if (type == DType::f16)
    each<uint16_t>(stored, values, fromF16);
  else if (type == DType::f64)
    each<double>(stored, values, [](double value) { return static_cast<float>(value); });
}

void fromFloat(DType type, std::span<const float> values, std::byte *stored) {
  if (type == DType::f32) {
    std::memcpy(stored, values.data(), values.size_bytes());
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t hi = static_cast<uint16_t>(upperHalf(values[i]));
    std::memcpy(stored + i * sizeof(hi), &hi, sizeof(hi));
  }
}

void splitMaster(std::span<const float> values, uint16_t *hi, int16_t *lo) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t upper = upperHalf(values[i]);
    hi[i] = static_cast<uint16_t>(upper);
    lo[i] = static_cast<int16_t>(static_cast<int32_t>(std::bit_cast<uint32_t>(values[i]) - (upper << 16)));
  }
}

} // namespace mt::host
