// bf16 as bits: the upper half of a float, widened exactly and rounded to the nearest; and a 32-bit master in two
// halves, the streamed bf16 and a signed remainder, exact for every value that `splits`. Needs nothing of ours.
#ifndef MT_KERNELS_BF16_H
#define MT_KERNELS_BF16_H

#include <bit>
#include <cstdint>

namespace mt::kernels {

struct Bf16 {
  uint16_t bits;
};

constexpr float widen(Bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

/// Ties to even; NaN stays NaN, and what is too large becomes infinity.
constexpr Bf16 nearest(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bool nan = (bits & 0x7fffffff) > 0x7f800000;
  return {static_cast<uint16_t>(nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

/// A master: bits = upper * 2^16 + lower.
struct Halves {
  Bf16 upper; ///< the value in bf16, rounded half up (away from zero)
  int16_t lower;
};

/// Whether the upper half of a value is finite: it is finite itself and below the middle of the largest bf16 and the
/// next one that there would be, about 3.396e38.
constexpr bool splits(float value) { return (std::bit_cast<uint32_t>(value) & 0x7fffffff) < 0x7f7f8000; }

constexpr Halves split(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), upper = (bits + 0x8000) >> 16;
  return {{static_cast<uint16_t>(upper)}, static_cast<int16_t>(bits - (upper << 16))};
}

constexpr float join(Halves halves) {
  return std::bit_cast<float>((static_cast<uint32_t>(halves.upper.bits) << 16) + static_cast<uint32_t>(halves.lower));
}

} // namespace mt::kernels
#endif
