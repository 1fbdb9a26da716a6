// Generated initial values. Element i of a tensor depends on (kind, seed, name, i) alone - a counter-based generator,
// Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011) - so that any part can be made
// in any order, by any device. docs/plan-format.md gives the formula. Knows no files and no plans.
#ifndef MT_RUNTIME_HOST_GENERATOR_H
#define MT_RUNTIME_HOST_GENERATOR_H

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace mt::host {

/// The ten rounds for one counter (words from the low one) and key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The key of a tensor: XXH3-64 of its name, seeded with the model's seed.
uint64_t generatorKey(std::string_view name, uint64_t seed);

/// Element of a normal tensor of mean 0 and deviation 1, by the formula in scalar double.
double normalElement(uint64_t key, uint64_t element);

/// Elements [first, first + values.size()) of a normal tensor: mean + deviation * z, z by Box and Muller in double. The
/// same floats on every processor.
void generateNormal(uint64_t key, uint64_t first, double mean, double deviation, std::span<float> values);

/// The same of numbers uniform between mean - sqrt(3) deviation and mean + sqrt(3) deviation: of that deviation.
void generateUniform(uint64_t key, uint64_t first, double mean, double deviation, std::span<float> values);

/// What makes a tensor's values: `normal` and `uniform`, of mean `value`; `constant`, `zeros`, `ones`.
struct Generator {
  std::string_view kind;
  uint64_t key = 0;
  double value = 0, deviation = 0;
};
/// Elements [first, first + values.size()); false: there is no such kind.
bool generate(const Generator &generator, uint64_t first, std::span<float> values);

} // namespace mt::host
#endif
