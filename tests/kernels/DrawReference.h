// Random numbers as docs/kernels.md defines them, in double and without the code of kernels/Random.h: what kernels, the
// evaluator of nn and their tests are held against.
#ifndef MT_TESTS_KERNELS_DRAWREFERENCE_H
#define MT_TESTS_KERNELS_DRAWREFERENCE_H

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace mt::kernels::test {

/// Philox4x32-10, by the definition of Salmon et al., SC 2011, section 3.3.
inline std::array<uint32_t, 4> philoxReference(std::array<uint32_t, 4> x, std::array<uint32_t, 2> key) {
  for (unsigned round = 0; round < 10; ++round) {
    const std::array<uint32_t, 2> grown = {key[0] + round * 0x9E3779B9u, key[1] + round * 0xBB67AE85u};
    std::array<uint32_t, 4> next = {};
    for (unsigned half = 0; half < 2; ++half) {
      const uint64_t product = uint64_t{half == 0 ? 0xCD9E8D57u : 0xD2511F53u} * x[half == 0 ? 2 : 0];
      next[2 * half] = static_cast<uint32_t>(product >> 32) ^ x[2 * half + 1] ^ grown[half];
      next[2 * half + 1] = static_cast<uint32_t>(product);
    }
    x = next;
  }
  return x;
}

struct DrawReference {
  double seed = 0, draw = 0, node = 0;

  uint32_t word(uint64_t number) const {
    const auto key = static_cast<uint64_t>(seed);
    const uint64_t block = number / 4;
    const std::array<uint32_t, 4> counter = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                             static_cast<uint32_t>(static_cast<int64_t>(draw)),
                                             static_cast<uint32_t>(node)};
    return philoxReference(counter, {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)})[number % 4];
  }
  bool keeps(uint64_t number, double ratio) const { return draw <= 0 || word(number) >= ratio * 0x1p32; }
  double dropped(uint64_t number, double ratio, double x) const {
    return draw <= 0 ? x : keeps(number, ratio) ? x / (1 - ratio) : 0;
  }
  double uniform(uint64_t number) const { return static_cast<double>(word(number) >> 8) * 0x1p-24; }
  double normal(uint64_t number) const {
    const double u = static_cast<float>(word(number & ~uint64_t{1})) * 0x1p-32f + 0x1p-33f; // in 32 bits
    const double angle = 2 * std::numbers::pi * word(number | 1) * 0x1p-32;
    return std::sqrt(-2 * std::log(u)) * (number % 2 ? std::sin(angle) : std::cos(angle));
  }
};

} // namespace mt::kernels::test
#endif
