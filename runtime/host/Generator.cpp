#include "runtime/host/Generator.h"

#include <xxhash.h>

#include <cmath>
#include <numbers>

namespace mt::host {

// Constants of the reference: multipliers of the round, and what the key grows by (golden ratio, sqrt(3) - 1).
constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = kMultiply0 * counter[0], product1 = kMultiply1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

uint64_t generatorKey(std::string_view name, uint64_t seed) {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed);
}

/// Two independent normal values: elements 2 * pair and 2 * pair + 1.
static std::array<double, 2> normalPair(uint64_t key, uint64_t pair) {
  std::array<uint32_t, 4> words = philox({static_cast<uint32_t>(pair), static_cast<uint32_t>(pair >> 32), 0, 0},
                                         {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  uint64_t first = words[0] | static_cast<uint64_t>(words[1]) << 32;
  uint64_t second = words[2] | static_cast<uint64_t>(words[3]) << 32;
  double u = static_cast<double>((first >> 11) + 1) * 0x1p-53; // (0, 1]
  double v = static_cast<double>(second >> 11) * 0x1p-53;      // [0, 1)
  double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

void generateNormal(uint64_t key, uint64_t first, double mean, double deviation, std::span<float> values) {
  std::array<double, 2> pair = {};
  for (uint64_t i = 0; i < values.size(); ++i) {
    uint64_t element = first + i;
    if (i == 0 || element % 2 == 0)
      pair = normalPair(key, element / 2);
    values[i] = static_cast<float>(mean + deviation * pair[element % 2]);
  }
}

} // namespace mt::host
