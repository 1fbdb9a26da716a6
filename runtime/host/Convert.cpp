#include "runtime/host/Convert.h"

#include <cmath>
#include <cstring>

namespace mt::host {
namespace {

using kernels::DType;

float fromF16(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                    : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                    : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

template <typename Stored, typename Convert>
void each(const std::byte *stored, std::span<float> values, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    Stored one;
    std::memcpy(&one, stored + i * sizeof(Stored), sizeof(Stored));
    values[i] = convert(one);
  }
}

} // namespace

void toFloat(DType type, const std::byte *stored, std::span<float> values) {
  if (type == DType::f32)
    std::memcpy(values.data(), stored, values.size_bytes());
  else if (type == DType::bf16)
    each<kernels::Bf16>(stored, values, kernels::widen);
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
    kernels::Bf16 rounded = kernels::nearest(values[i]);
    std::memcpy(stored + i * sizeof(rounded), &rounded, sizeof(rounded));
  }
}

void splitMaster(std::span<const float> values, kernels::Bf16 *upper, int16_t *lower) {
  for (size_t i = 0; i < values.size(); ++i) {
    kernels::Halves halves = kernels::split(values[i]);
    upper[i] = halves.upper;
    lower[i] = halves.lower;
  }
}

void joinMaster(const kernels::Bf16 *upper, const int16_t *lower, std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = kernels::join({upper[i], lower[i]});
}

} // namespace mt::host
